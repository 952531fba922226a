"""Chats to which a user's notices go beside the mail.

The rows lie below ``tokens`` because a notice about security, which tokens and accounts write, has
a row for each chat. Their tables keep the names that they had in ``signals``.
"""

from typing import Any

from django.db import models
from django.db.models import Q

from desks.ids import MAX_ID_LENGTH, new_chat_id
from events.http.name_rules import MAX_NAME_LENGTH
from events.times import to_rfc3339

MAX_CHATS = 5  # of a user
MAX_HOST_LENGTH = 260  # a host name, a colon and a port


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
    def delete_locked(self) -> None:
        """Deletes the chats. Who sends to one of them at this moment records nothing any more."""
        list(self.select_for_update().values_list("pk"))
        self.delete()


class Chat(models.Model):
    """A chat of a user. ``ciphertext`` is its URL, and ``host`` the part of it that is shown.

    For Telegram the sealed text is the number of the chat, and ``host`` the name of the bot.

    Nothing is sent to the chat before ``next_attempt_at``, nor by another process before
    ``leased_until``. ``problem`` is empty while notices are sent.
    """

    ciphertext = models.BinaryField()  # tokens.models.secret encrypts and decrypts it
    key_id = models.CharField(max_length=8)
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
    last_error = models.CharField(max_length=32, blank=True, default="")
    next_attempt_at = models.DateTimeField(null=True)
    leased_until = models.DateTimeField(null=True)

    objects = ChatQuerySet.as_manager()

    class Meta:
        app_label = "signals"
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
        """Binds the ciphertext to its row."""
        return f"{self.public_id}:chat"

    @property
    def label(self) -> str:
        """What pages and notices call the chat. It never contains more of the URL than the host."""
        service = self.get_service_display()
        return f"{service}: {self.name}" if self.name else f"{service} ({self.host})"

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

    class Meta:
        app_label = "signals"

    def __str__(self) -> str:
        return f"{self.user_id} until {self.expires_at}"
