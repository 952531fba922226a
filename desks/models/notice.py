"""Notices that wait to be sent, and of which kinds each user gets some."""

from datetime import datetime
from typing import Self

from django.db import models
from django.db.models import Exists, OuterRef, Q

from desks.ids import MAX_ID_LENGTH, new_notice_id
from desks.models.chat import Chat
from desks.models.user import MAX_ADDRESS_LENGTH
from events.choices import TextEnum

MAX_SUBJECT = 200
MAIL = "mail"  # the channel that every user has; the others are the services of chats


class NoticeKind(TextEnum):
    """What a notice is about, as its reader chooses it."""

    SECURITY = "security"
    SILENCE = "silence"
    REFUSALS = "refusals"
    CONSENT = "consent"
    ENDINGS = "endings"
    OPERATIONS = "operations"
    DIGEST = "digest"
    MISSED = "missed"
    TEST = "test"


# What each kind that can be turned off is about, for the owner of a desk and for staff.
OF_A_DESK = {
    NoticeKind.SILENCE: "A bot that is expected falls silent, or sends again",
    NoticeKind.REFUSALS: "A bot's signals are refused: at once, then at most once an hour",
    NoticeKind.CONSENT: "The card that you enrolled in was retired",
    NoticeKind.ENDINGS: "A signing secret is about to end, a webhook fails, works again or is "
    "disabled, a chat was disabled, or webhooks may repeat or miss events after a restore",
}
OF_STAFF = {
    NoticeKind.OPERATIONS: "An engine is silent, many signals are refused, a token ends soon, or a "
    "webhook of the platform fails, works again, is disabled, or may repeat or miss events after a "
    "restore",
}
# What is not written any more. Some may wait to be sent, and mails that were sent have a link.
NO_MORE = {
    NoticeKind.DIGEST: "A digest each day of what happened on your desk",
}
# The order in which notices are sent, if many wait.
FIRST, USUAL, LAST = 0, 1, 2


class QueuedNoticeQuerySet(models.QuerySet["QueuedNotice"]):
    def ready(self, now: datetime) -> Self:
        """What is due, without that of chats that cannot be sent anything now."""
        is_next = Q(chat__next_attempt_at=None) | Q(chat__next_attempt_at__lte=now)
        is_free = Q(chat__leased_until=None) | Q(chat__leased_until__lte=now)
        return self.filter(is_next, is_free, due_at__lte=now)

    def due(self, channel: str, now: datetime) -> Self:
        """What can be sent on a channel now, in this order: of each chat its next notice only."""
        if channel == MAIL:
            rows = self.filter(channel=MAIL, due_at__lte=now)
        else:
            is_before = Q(priority__lt=OuterRef("priority")) | Q(
                priority=OuterRef("priority"), pk__lt=OuterRef("pk")
            )
            before = QueuedNotice.objects.filter(is_before, chat=OuterRef("chat"), due_at__lte=now)
            rows = self.ready(now).filter(~Exists(before), channel=channel)
        return rows.order_by("priority", "due_at", "pk")


class QueuedNotice(models.Model):
    """A notice that waits to be sent on one channel: by mail, or to a chat. Then it is deleted.

    ``address`` is where the mail goes if that is not the user's present address. ``due_at`` is when
    to send it, or to try again. ``public_id`` is in the Message-ID, so every attempt has the same
    one; the rows of one notice have it in common. ``attempts`` is 0 until a process took the row;
    then it is the number of the attempt that is made or comes next. ``about`` is the id of a secret
    whose later end makes the notice untrue, or empty.

    The database does not check ``chat``: writing a notice under the log's lock must not wait for
    the lock of a chat. A row whose chat was removed meanwhile is deleted when it is due.
    """

    public_id = models.CharField(max_length=MAX_ID_LENGTH, default=new_notice_id)
    user = models.ForeignKey("desks.User", models.PROTECT, related_name="queued_notices")
    channel = models.CharField(max_length=8, default=MAIL)
    chat = models.ForeignKey(
        Chat,
        models.CASCADE,
        null=True,
        related_name="queued_notices",
        db_index=False,
        db_constraint=False,
    )
    kind = models.CharField(max_length=16, choices=NoticeKind.choices())
    address = models.EmailField(max_length=MAX_ADDRESS_LENGTH, blank=True, default="")
    about = models.CharField(max_length=MAX_ID_LENGTH, blank=True, default="")
    subject = models.CharField(max_length=MAX_SUBJECT)
    body = models.TextField()
    priority = models.PositiveSmallIntegerField(default=USUAL)
    due_at = models.DateTimeField()
    attempts = models.PositiveSmallIntegerField(default=0)

    objects = QueuedNoticeQuerySet.as_manager()

    class Meta:
        ordering = ["pk"]
        indexes = [
            models.Index(fields=["channel", "priority", "due_at"], name="queued_due"),
            models.Index(
                fields=["chat", "priority", "id"],
                name="queued_chat",
                condition=Q(chat__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.public_id} ({self.kind}, {self.channel})"


class NoticeChoice(models.Model):
    """What a user chose. ``off`` lists the kinds that the user turned off."""

    user = models.OneToOneField(
        "desks.User", models.PROTECT, primary_key=True, related_name="notice_choice"
    )
    off = models.JSONField(default=list)

    def __str__(self) -> str:
        return f"{self.user_id}"


class RefusalTold(models.Model):
    """When the last notice of a bot's refusals was written, and what came since.

    ``due_at`` is when to write of the ``count`` refusals since.
    """

    bot = models.OneToOneField(
        "desks.Automation", models.PROTECT, primary_key=True, related_name="refusals_told"
    )
    told_at = models.DateTimeField()
    count = models.PositiveIntegerField(default=0)
    due_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["due_at"],
                name="refusals_due",
                condition=models.Q(due_at__isnull=False),
            )
        ]

    def __str__(self) -> str:
        return f"{self.bot_id}: {self.count}"


class Bookmark(models.Model):
    """How far a writer of notices has come: a position of the log, or a desk; and when.

    The lock of its row lets one process at a time continue the work. The watch for silent bots has
    one too, which needs no lock (``desks.expectations``): several processes may watch.
    """

    name = models.CharField(primary_key=True, max_length=64)
    epoch = models.CharField(max_length=8, blank=True, default="")
    position = models.BigIntegerField(default=0)
    at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.name}: {self.position}"
