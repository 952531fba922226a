"""Chats to which a user's notices go beside the mail, and the messages that wait for them."""

from datetime import datetime
from typing import Any, Self

from django.db import models
from django.db.models import Q

from desks.ids import MAX_ID_LENGTH, new_chat_id
from desks.models.notice import MAX_SUBJECT
from desks.models.notice_kinds import USUAL, NoticeKind
from events.http.names import MAX_NAME_LENGTH
from events.times import to_rfc3339
from signals.outbound.answers import Fault
from signals.webhooks.models import MAX_ERROR_LENGTH, MAX_HOST_LENGTH
from tokens.models.secret import Sealed

MAX_CHATS = 5  # of a user


class Service(models.TextChoices):
    """What carries the messages of a chat."""

    DISCORD = "discord", "Discord"
    SLACK = "slack", "Slack"
    NTFY = "ntfy", "ntfy"
    TELEGRAM = "telegram", "Telegram"


class Problem(models.TextChoices):
    """Why a chat gets no more notices."""

    REFUSED = "refused"  # it answered that it is gone, or closed to us
    FAILED = "failed"  # failures only, for three days


class ChatQuerySet(models.QuerySet["Chat"]):
    def due(self, now: datetime) -> Self:
        """Chats to which a message can be sent now, and that no process has leased."""
        is_free = Q(leased_until=None) | Q(leased_until__lte=now)
        return self.filter(is_free, next_attempt_at__lte=now)

    def delete_locked(self) -> None:
        """Deletes the chats. The lock keeps a process from adding a message meanwhile."""
        list(self.select_for_update().values_list("pk"))
        self.delete()


class Chat(Sealed):
    """A chat of a user. The sealed text is its URL; ``host`` is the part of it that is shown.

    For Telegram the sealed text is the number of the chat, and ``host`` the name of the bot.

    ``next_attempt_at`` is None if no message waits. ``problem`` is empty while notices are sent.
    """

    public_id = models.CharField(max_length=MAX_ID_LENGTH, default=new_chat_id)
    user = models.ForeignKey("desks.User", models.PROTECT, related_name="chats")
    service = models.CharField(max_length=8, choices=Service)
    name = models.CharField(max_length=MAX_NAME_LENGTH, blank=True, default="")
    host = models.CharField(max_length=MAX_HOST_LENGTH)
    problem = models.CharField(max_length=8, choices=Problem, blank=True, default="")
    created_at = models.DateTimeField()
    failures = models.PositiveIntegerField(default=0)  # in a row
    failing_since = models.DateTimeField(null=True)
    last_sent_at = models.DateTimeField(null=True)
    last_status = models.PositiveSmallIntegerField(null=True)
    last_error = models.CharField(max_length=MAX_ERROR_LENGTH, blank=True, default="")
    next_attempt_at = models.DateTimeField(null=True)
    leased_until = models.DateTimeField(null=True)

    objects = ChatQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        indexes = [
            models.Index(
                fields=["next_attempt_at"],
                name="chat_due",
                condition=Q(next_attempt_at__isnull=False),
            )
        ]
        constraints = [models.UniqueConstraint(fields=["public_id"], name="chat_public_id")]

    def __str__(self) -> str:
        return self.public_id

    @property
    def associated_data(self) -> str:
        return f"{self.public_id}:chat"

    @property
    def label(self) -> str:
        """What pages and notices call the chat. It never contains more of the URL than the host."""
        service = Service(self.service).label
        return f"{service}: {self.name}" if self.name else f"{service} ({self.host})"

    @property
    def outcome(self) -> str:
        """What became of the last attempt, if that failed."""
        if self.last_status:
            return f"It answered {self.last_status}."
        return Fault(self.last_error).sentence if self.last_error else ""

    def as_record(self) -> dict[str, Any]:
        """What its owner may export."""
        return {
            "service": self.service,
            "name": self.name,
            "host": self.host,
            "createdAt": to_rfc3339(self.created_at),
            "lastSentAt": to_rfc3339(self.last_sent_at),
            "problem": self.problem or None,
        }


class ChatCode(models.Model):
    """The code with which a user proves to the bot of Telegram who it is. Only its digest is kept.

    A new code replaces the user's last one. It is deleted when it is used.
    """

    user = models.OneToOneField("desks.User", models.CASCADE, primary_key=True, related_name="+")
    digest = models.CharField(max_length=64, unique=True)
    expires_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.user_id} until {self.expires_at}"


class ChatMessage(models.Model):
    """A notice that waits to be sent to a chat. Its row is deleted when it is sent."""

    chat = models.ForeignKey(Chat, models.CASCADE, related_name="messages", db_index=False)
    kind = models.CharField(max_length=16, choices=NoticeKind.choices())
    priority = models.PositiveSmallIntegerField(default=USUAL)
    subject = models.CharField(max_length=MAX_SUBJECT)
    body = models.TextField()

    class Meta:
        ordering = ["priority", "id"]
        indexes = [models.Index(fields=["chat", "priority", "id"], name="message_chat")]

    def __str__(self) -> str:
        return f"{self.chat_id} ({self.kind})"
