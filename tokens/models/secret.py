"""Rows with a text that nobody may read from the database alone, and the signing secrets."""

from datetime import datetime
from typing import Annotated, Any, Self, TypedDict

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from desks.ids import MAX_ID_LENGTH, id_schema, new_secret_id
from desks.models import Chat, Desk
from events.actors import Actor, ActorType
from events.json_schema import DateTime, Example
from events.kinds import Kind, data_of
from events.times import to_rfc3339
from tokens.choices import Source
from tokens.crypto import keys

NO_TEXT = ""  # the key's id in a row without a text


class Sealed(models.Model):
    """A row with one text that is encrypted and bound to the row (contract, section 2).

    ``key_id`` names the key. It is ``NO_TEXT`` if the row has none.
    """

    ciphertext = models.BinaryField()
    key_id = models.CharField(max_length=8)

    class Meta:
        abstract = True

    @property
    def associated_data(self) -> str:
        """Binds the ciphertext to its row: in another row it cannot be decrypted."""
        raise NotImplementedError

    def encrypt(self, text: str) -> None:
        """Stores the text, encrypted under the first key. Does not save the row."""
        encrypt(self, text)

    def decrypt(self) -> str:
        """The text. Raises ``keys.KeyLostError``."""
        return decrypt(self)


def encrypt(row: Sealed | Chat, text: str) -> None:
    """Stores the text in the row, encrypted under the first key. Does not save the row."""
    row.ciphertext, row.key_id = keys.encrypt(text, row.associated_data)


def decrypt(row: Sealed | Chat) -> str:
    """The text of the row. Raises ``keys.KeyLostError``."""
    return keys.decrypt(bytes(row.ciphertext), row.associated_data, row.key_id)


class SealedSecretQuerySet(models.QuerySet[Any]):
    def live(self, now: datetime | Now) -> Self:
        """Secrets in force: the current one of each owner and, in an overlap, the previous one."""
        return self.filter(Q(ends_at=None) | Q(ends_at__gt=now))


class SealedSecret(Sealed):
    """A secret that can be replaced with an overlap. ``ends_at`` is None for the current one."""

    public_id = models.CharField(max_length=MAX_ID_LENGTH, default=new_secret_id)
    hint = models.CharField(max_length=16)
    created_at = models.DateTimeField()
    ends_at = models.DateTimeField(null=True)

    class Meta:
        abstract = True
        ordering = ["-id"]


SecretId = Annotated[str, id_schema("sec_"), Example("sec_2Wd7xNb5JqT8cLs3RgYvH6")]


@data_of(Kind.SECRET_GENERATED, Kind.SECRET_ENDED)
class SecretData(TypedDict):
    """Data of ``secret.…`` events. It never includes the secret's text."""

    id: SecretId
    owner: Annotated[str, "A botId, floor or nox."]
    hint: Annotated[str, "Its prefix and its last four characters."]
    createdAt: DateTime
    endsAt: DateTime | None


class SigningSecretQuerySet(SealedSecretQuerySet):
    def of(self, source: Source, bot_id: str | None = None) -> Self:
        """The secrets of one owner: the Floor, Nox, or one automation."""
        return self.filter(source=source, automation=bot_id)

    def of_desk(self, desk: Desk) -> Self:
        """The secrets of all automations of a desk."""
        return self.filter(automation__desk=desk).select_related("automation__desk__user")

    def of_present_bots(self, desk: Desk) -> Self:
        """The secrets of the desk's automations that are not removed. Others have ended."""
        return self.of_desk(desk).filter(automation__removed_at=None)

    def with_text(self) -> Self:
        """The secrets whose text is not erased."""
        return self.exclude(key_id=NO_TEXT)

    def erase(self) -> int:
        """Erases the texts, in one statement. Returns how many."""
        return self.update(ciphertext=b"", key_id=NO_TEXT)


class SigningSecret(SealedSecret):
    """A signing secret, bound to its row. ``tokens.secret_erasure`` erases its text at the end."""

    source = models.CharField(max_length=16, choices=Source.choices())
    automation = models.ForeignKey(
        "desks.Automation", models.PROTECT, null=True, related_name="secrets"
    )

    objects = SigningSecretQuerySet.as_manager()

    class Meta(SealedSecret.Meta):
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
            models.CheckConstraint(
                condition=~Q(key_id=NO_TEXT) | Q(ends_at__isnull=False),
                name="secret_in_use_has_a_text",
            ),
        ]
        indexes = [
            models.Index(
                fields=["ends_at"],
                name="secret_to_erase",
                condition=Q(ends_at__isnull=False) & ~Q(key_id=NO_TEXT),
            )
        ]

    def __str__(self) -> str:
        return f"{self.owner} ({self.hint})"

    @property
    def actor(self) -> Actor:
        """The secret as the actor of an event."""
        return Actor(ActorType.SECRET, self.public_id)

    @property
    def owner(self) -> str:
        """The bot's id, ``floor`` or ``nox``."""
        return self.automation_id or self.source

    def as_event_data(self) -> SecretData:
        """The record that events contain. It never includes the secret's text."""
        return {
            "id": self.public_id,
            "owner": self.owner,
            "hint": self.hint,
            "createdAt": to_rfc3339(self.created_at),
            "endsAt": to_rfc3339(self.ends_at),
        }

    @property
    def associated_data(self) -> str:
        """Binds the ciphertext to its row: in another row it cannot be decrypted."""
        return f"{self.public_id}:{self.owner}"
