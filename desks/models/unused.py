"""Tables that the release before uses while both serve. The next delivery drops them.

What that release writes there is moved into the outbox (``desks.notices.old_rows``). It also has
bookmarks for rates, for what staff were notified of and for the bot at Telegram.
"""

from django.db import models
from django.db.models import Q

from desks.ids import MAX_ID_LENGTH, new_notice_id
from desks.models.chat import Chat
from desks.models.notice import MAX_SUBJECT, USUAL, NoticeKind
from desks.models.user import MAX_ADDRESS_LENGTH


class Notice(models.Model):
    """A notice that was not mailed, or that the user's chats had no copies of."""

    public_id = models.CharField(max_length=MAX_ID_LENGTH, default=new_notice_id)
    user = models.ForeignKey("desks.User", models.PROTECT, related_name="notices")
    kind = models.CharField(max_length=16, choices=NoticeKind.choices())
    address = models.EmailField(max_length=MAX_ADDRESS_LENGTH, blank=True, default="")
    about = models.CharField(max_length=MAX_ID_LENGTH, blank=True, default="", db_default="")
    subject = models.CharField(max_length=MAX_SUBJECT)
    body = models.TextField()
    priority = models.PositiveSmallIntegerField(default=USUAL)
    due_at = models.DateTimeField()
    attempts = models.PositiveSmallIntegerField(default=0)
    is_shared = models.BooleanField(default=False, db_default=False)
    mailed_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["pk"]
        indexes = [
            models.Index(fields=["is_shared", "priority", "due_at"], name="notice_due"),
            models.Index(
                fields=["priority", "due_at"],
                name="notice_unmailed",
                condition=Q(mailed_at__isnull=True),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.public_id} ({self.kind})"


class ChatMessage(models.Model):
    """A notice that was not sent to a chat."""

    chat = models.ForeignKey(Chat, models.CASCADE, related_name="messages", db_index=False)
    kind = models.CharField(max_length=16, choices=NoticeKind.choices())
    priority = models.PositiveSmallIntegerField(default=USUAL)
    subject = models.CharField(max_length=MAX_SUBJECT)
    body = models.TextField()

    class Meta:
        app_label = "signals"
        ordering = ["priority", "id"]
        indexes = [models.Index(fields=["chat", "priority", "id"], name="message_chat")]

    def __str__(self) -> str:
        return f"{self.chat_id} ({self.kind})"


class Digest(models.Model):
    """When a user's next daily digest was due."""

    user = models.OneToOneField(
        "desks.User", models.PROTECT, primary_key=True, related_name="digest"
    )
    hour = models.PositiveSmallIntegerField()
    since = models.DateTimeField()
    position = models.BigIntegerField()
    due_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["due_at"], name="digest_due")]
        constraints = [
            models.CheckConstraint(condition=Q(hour__lte=23), name="digest_hour_is_of_a_day")
        ]

    def __str__(self) -> str:
        return f"{self.user_id} at {self.hour}"
