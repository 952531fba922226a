"""Signing secrets: an automation's own, the Floor's, Nox's."""

from datetime import datetime
from typing import Self

from django.db import models
from django.db.models import F, Q

from desks.ids import LONGEST_ID, new_id
from tokens import keys


class Source(models.TextChoices):
    """Where a signal says that it comes from, and so whose secret signs it."""

    TRADINGVIEW = "tradingview"
    FLOOR = "floor"
    NOX = "nox"


def new_secret_id() -> str:
    return new_id("sec_")


class SigningSecretQuerySet(models.QuerySet["SigningSecret"]):
    def live(self, now: datetime) -> Self:
        """Secrets that still verify: the one in use, and in an overlap the one before it."""
        return self.filter(Q(ends_at=None) | Q(ends_at__gt=now))

    def of(self, source: Source, bot_id: str | None = None) -> Self:
        """The secrets of one owner: the Floor, Nox, or one automation."""
        return self.filter(source=source, automation=bot_id)


class SigningSecret(models.Model):
    """A secret, encrypted and bound to its row; ``ends_at`` is null for the one in use."""

    public_id = models.CharField(max_length=LONGEST_ID, default=new_secret_id)
    source = models.CharField(max_length=16, choices=Source)
    automation = models.ForeignKey(
        "desks.Automation", models.PROTECT, null=True, related_name="secrets"
    )
    ciphertext = models.BinaryField()
    key_id = models.CharField(max_length=8)
    hint = models.CharField(max_length=16)
    created_at = models.DateTimeField()
    ends_at = models.DateTimeField(null=True)

    objects = SigningSecretQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["public_id"], name="secret_public_id"),
            models.UniqueConstraint(
                fields=["automation"],
                condition=Q(ends_at=None, automation__isnull=False),
                name="one_secret_in_use_of_an_automation",
            ),
            models.UniqueConstraint(
                fields=["source"],
                condition=Q(ends_at=None, automation=None),
                name="one_secret_in_use_of_a_shared_source",
            ),
            models.CheckConstraint(
                condition=Q(source="tradingview", automation__isnull=False)
                | Q(source__in=["floor", "nox"], automation=None),
                name="secret_of_an_automation_or_a_shared_source",
            ),
            models.CheckConstraint(
                condition=Q(ends_at=None) | Q(ends_at__gte=F("created_at")),
                name="secret_ends_after_it_is_made",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.owner} ({self.hint})"

    @property
    def owner(self) -> str:
        """The bot's id, ``floor`` or ``nox``."""
        return self.automation_id or self.source

    @property
    def row(self) -> str:
        """What the ciphertext is bound to: moved to another row, it does not open."""
        return f"{self.public_id}:{self.owner}"

    def seal(self, text: str) -> None:
        """Encrypts the secret's text under the newest key."""
        self.ciphertext, self.key_id = keys.encrypt(text, self.row)

    def text(self) -> str:
        """The secret as it was shown; raises ``keys.KeyLostError``."""
        return keys.decrypt(bytes(self.ciphertext), self.row, self.key_id)
