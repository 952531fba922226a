"""Bearer tokens of desks and of the platform."""

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Annotated, Self, TypedDict

from django.db import models
from django.db.models import F, Q
from django.utils import timezone

from desks.ids import MAX_ID_LENGTH, UserId, id_schema, new_token_id
from desks.models import Desk
from desks.visibility import desk_visibility
from events.actors import Actor, ActorType
from events.feed import WHOLE_LOG, Visibility
from events.http.name_rules import MAX_NAME_LENGTH
from events.json_schema import EXAMPLE_USER_ID, DateTime, Example, JsonSchema, one_of
from events.kinds import Kind, data_of
from events.live.frames import EndReason
from events.live.streams import Credential
from events.models import Event
from events.statements import listed
from events.times import to_rfc3339
from tokens.choices import Scope

READ, WRITE = "read", "write"

EXAMPLE_TOKEN_ID = "tok_5Gk0bWq8ZsM3hYr7DnVtJ4"  # noqa: S105 - an id
Scopes = Annotated[list[Annotated[str, one_of([READ, WRITE])]], JsonSchema(minItems=1)]


@data_of(Kind.TOKEN_MINTED, Kind.TOKEN_REVOKED)
class TokenData(TypedDict):
    """A token's record in an event: without the time of last use."""

    id: Annotated[str, id_schema("tok_"), Example(EXAMPLE_TOKEN_ID)]
    scope: Annotated[str, one_of(Scope.values()), "Whose it is."]
    name: Annotated[str, Example("Laptop")]
    scopes: Annotated[Scopes, "What it may do."]
    hint: Annotated[
        str,
        "Its prefix and its last four characters: all that is shown of it later.",
        Example("svc_desk_…7dQz"),
    ]
    createdAt: DateTime
    expiresAt: DateTime | None
    revokedAt: DateTime | None
    userId: Annotated[UserId | None, "The desk of a desk token.", Example(EXAMPLE_USER_ID)]


class TokenRecord(TokenData):
    """A token's record. It never includes the value."""

    lastUsedAt: Annotated[DateTime | None, "At most a minute late."]


class TokenQuerySet(models.QuerySet["Token"]):
    def active(self, now: datetime) -> Self:
        """Tokens that are neither revoked nor expired."""
        return self.filter(Q(expires_at=None) | Q(expires_at__gt=now), revoked_at=None)


class Token(models.Model):
    """A token's record. It stores a keyed digest of the value, never the value."""

    public_id = models.CharField(max_length=MAX_ID_LENGTH, default=new_token_id)
    scope = models.CharField(max_length=8, choices=Scope.choices())
    desk = models.ForeignKey("desks.Desk", models.PROTECT, null=True, related_name="tokens")
    name = models.CharField(max_length=MAX_NAME_LENGTH)
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
        """The token's scopes: ``read``, ``write`` or both."""
        return [READ] * self.can_read + [WRITE] * self.can_write

    @property
    def actor(self) -> Actor:
        """The token as the actor of an event."""
        return Actor(ActorType.TOKEN, self.public_id)

    @property
    def is_platform(self) -> bool:
        return self.scope == Scope.PLATFORM

    @property
    def topic(self) -> str | None:
        """The topic of the token's events: its desk, or None for a platform token."""
        return self.desk.public_id if self.desk else None

    @property
    def reads_as(self) -> str:
        """Whose slots and streams are counted together: the desk's, whose pages count too."""
        return self.topic or self.public_id

    def is_active(self, now: datetime) -> bool:
        """Whether the token is neither revoked nor expired. Queries the database each time."""
        return Token.objects.active(now).filter(pk=self.pk).exists()

    @property
    def credential(self) -> Credential:
        """The token as what ends a stream that it opened."""
        return Credential(STREAM_TOKENS, self.public_id, self.expires_at)

    def to_dict(self) -> TokenRecord:
        """The record that lists contain (contract, section 2). It never includes the value."""
        return {**self.as_event_data(), "lastUsedAt": to_rfc3339(self.last_used_at)}

    def as_event_data(self) -> TokenData:
        """The record that events contain: without the time of last use."""
        return {
            "id": self.public_id,
            "scope": self.scope,
            "name": self.name,
            "scopes": self.scopes,
            "hint": self.hint,
            "createdAt": to_rfc3339(self.created_at),
            "expiresAt": to_rfc3339(self.expires_at),
            "revokedAt": to_rfc3339(self.revoked_at),
            "userId": self.topic,
        }

    def visibility_of(self, user_id: str | None, bot_id: str | None = None) -> Visibility:
        """The part of the log that this token may read.

        ``user_id`` narrows it to one desk, and ``bot_id`` alone to the desk of that bot, to which
        all events of the bot are addressed. The view is empty if the token may not read that desk.
        """
        if self.is_platform and user_id is None and bot_id is None:
            return lambda window: WHOLE_LOG
        if self.is_platform:
            which = {"automations": bot_id} if user_id is None else {"public_id": user_id}
            desk = Desk.objects.filter(**which).first()
        else:
            desk = self.desk if user_id in (None, self.topic) else None
        return desk_visibility(desk) if desk else lambda window: ()


class StreamTokens:
    """Tells the hub which tokens have ended (contract, section 4, streams)."""

    end_reason, is_recorded = EndReason.TOKEN_ENDED, True

    def ended_by(self, event: Event) -> Iterable[str]:
        """The token that this event revokes, if it does."""
        return [event.content["data"]["id"]] if event.kind == Kind.TOKEN_REVOKED else ()

    def find_ended(self, ids: Collection[str]) -> Collection[str]:
        """Those of these tokens that are revoked, expired or gone. One statement."""
        active = Token.objects.active(timezone.now()).filter(public_id__in=listed(ids))
        return set(ids).difference(active.values_list("public_id", flat=True))


STREAM_TOKENS = StreamTokens()
