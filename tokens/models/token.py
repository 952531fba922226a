"""Bearer tokens: a desk's own, and the platform's."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Self

from django.db import models
from django.db.models import F, Q

from desks.ids import LONGEST_ID, new_id
from desks.models import Desk, Election
from events.feed import WHOLE_LOG, Span, View, Window
from events.kinds import EVERYONE
from events.times import written

LONGEST_NAME = 80
READ, WRITE = "read", "write"


class Scope(models.TextChoices):
    """Whose token it is."""

    DESK = "desk"
    PLATFORM = "platform"


def new_token_id() -> str:
    return new_id("tok_")


class TokenQuerySet(models.QuerySet["Token"]):
    def in_force(self, now: datetime) -> Self:
        """Tokens that are neither revoked nor expired."""
        return self.filter(Q(expires_at=None) | Q(expires_at__gt=now), revoked_at=None)


class Token(models.Model):
    """A token's record; the value itself is not kept, only a keyed digest of it."""

    public_id = models.CharField(max_length=LONGEST_ID, default=new_token_id)
    scope = models.CharField(max_length=8, choices=Scope)
    desk = models.ForeignKey("desks.Desk", models.PROTECT, null=True, related_name="tokens")
    name = models.CharField(max_length=LONGEST_NAME)
    can_read = models.BooleanField(default=False)
    can_write = models.BooleanField(default=False)
    digest = models.CharField(max_length=64)
    key_id = models.CharField(max_length=8)
    hint = models.CharField(max_length=16)
    created_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    objects = TokenQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["public_id"], name="token_public_id"),
            models.UniqueConstraint(fields=["digest"], name="token_digest"),
            models.UniqueConstraint(
                fields=["desk"], condition=Q(revoked_at=None), name="one_token_of_a_desk"
            ),
            models.CheckConstraint(
                condition=Q(scope="desk", desk__isnull=False, can_read=True, can_write=False)
                | Q(scope="platform", desk__isnull=True),
                name="token_of_a_desk_or_the_platform",
            ),
            models.CheckConstraint(
                condition=Q(can_read=True) | Q(can_write=True), name="token_has_a_scope"
            ),
            models.CheckConstraint(
                condition=Q(expires_at=None) | Q(expires_at__gt=F("created_at")),
                name="token_expires_after_it_is_made",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.hint})"

    @property
    def scopes(self) -> list[str]:
        """What the token may do: ``read``, ``write``."""
        return [READ] * self.can_read + [WRITE] * self.can_write

    @property
    def is_platform(self) -> bool:
        return self.scope == Scope.PLATFORM

    @property
    def topic(self) -> str | None:
        """To whom the log says what becomes of this token: its desk, or the platform only."""
        return self.desk.public_id if self.desk else None

    def as_json(self) -> dict[str, Any]:
        """The record as every list shows it (contract, section 2); never the value."""
        return {**self.as_event_data(), "lastUsedAt": written(self.last_used_at)}

    def as_event_data(self) -> dict[str, Any]:
        """The record as the log keeps it, without the time of its use."""
        return {
            "id": self.public_id,
            "scope": self.scope,
            "name": self.name,
            "scopes": self.scopes,
            "hint": self.hint,
            "createdAt": written(self.created_at),
            "expiresAt": written(self.expires_at),
            "revokedAt": written(self.revoked_at),
            "userId": self.topic,
        }

    def view_of(self, user_id: str | None) -> View:
        """What this token sees of the log, or of one desk's view of it; nothing of another's."""
        if self.is_platform and user_id is None:
            return lambda window: WHOLE_LOG
        if self.is_platform:
            desk = Desk.objects.filter(public_id=user_id).first()
        else:
            desk = self.desk if user_id in (None, self.topic) else None
        return desk_view(desk) if desk else lambda window: ()


def desk_view(desk: Desk) -> View:
    """What a desk sees: its own events, everyone's, and a card's while its election stood."""

    def spans(window: Window) -> Sequence[Span]:
        elections = Election.objects.filter(desk=desk).spans(window)
        return [Span(desk.public_id), Span(EVERYONE), *elections]

    return spans
