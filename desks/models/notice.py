"""Notices that wait to be sent, and what each user wants to be told."""

from datetime import datetime
from typing import Self

from django.db import connection, models
from django.db.models import Q

from desks.ids import MAX_ID_LENGTH, new_notice_id
from desks.mail_addresses import MAX_LENGTH
from desks.models.notice_kinds import USUAL, NoticeKind

MAX_SUBJECT = 200


class NoticeQuerySet(models.QuerySet["Notice"]):
    def unmailed(self) -> Self:
        """Notices whose mail waits."""
        return self.filter(mailed_at=None)

    def due(self, now: datetime) -> Self:
        """Notices that can be mailed, in the order in which to mail them."""
        return self.unmailed().filter(due_at__lte=now).order_by("priority", "due_at", "pk")

    def unshared(self, now: datetime) -> Self:
        """Notices that were due, and that the user's chats have no copies of yet.

        ``due_at`` of one that was taken to be mailed is when to try that again.
        """
        was_due = Q(due_at__lte=now) | Q(attempts__gt=0)
        return self.filter(was_due, is_shared=False).order_by("pk")

    def lock(self) -> Self:
        """Locks the rows, and leaves out those that another process has locked."""
        if not connection.features.has_select_for_update_skip_locked:
            return self
        return self.select_for_update(skip_locked=True, of=("self",))


class Notice(models.Model):
    """A notice that is not sent yet. Its row is written with what it tells, and then deleted.

    ``address`` is where it goes if that is not the user's present address. ``due_at`` is when to
    send it, or to try again. ``public_id`` is in the Message-ID, so every attempt has the same one.
    ``is_shared`` is whether the user's chats got their copies. ``mailed_at`` is when the mail was
    sent or given up. Neither waits for the other; the row is deleted after both.
    ``about`` is the id of a secret whose later end makes the notice untrue, or empty.
    """

    public_id = models.CharField(max_length=MAX_ID_LENGTH, default=new_notice_id)
    user = models.ForeignKey("desks.User", models.PROTECT, related_name="notices")
    kind = models.CharField(max_length=16, choices=NoticeKind.choices())
    address = models.EmailField(max_length=MAX_LENGTH, blank=True, default="")
    about = models.CharField(max_length=MAX_ID_LENGTH, blank=True, default="", db_default="")
    subject = models.CharField(max_length=MAX_SUBJECT)
    body = models.TextField()
    priority = models.PositiveSmallIntegerField(default=USUAL)
    due_at = models.DateTimeField()
    attempts = models.PositiveSmallIntegerField(default=0)
    is_shared = models.BooleanField(default=False, db_default=False)
    mailed_at = models.DateTimeField(null=True)

    objects = NoticeQuerySet.as_manager()

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


class NoticeChoice(models.Model):
    """What a user chose. ``off`` lists the kinds that the user does not want."""

    user = models.OneToOneField(
        "desks.User", models.PROTECT, primary_key=True, related_name="notice_choice"
    )
    off = models.JSONField(default=list)

    def __str__(self) -> str:
        return f"{self.user_id}"


class RefusalTold(models.Model):
    """When a bot's refusals were last told, and what came since.

    ``due_at`` is when to tell the ``count`` refusals since.
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
    """How far a continuing work has come: a position of the log, or another number; and when.

    The lock of its row lets one process at a time continue the work.
    """

    name = models.CharField(primary_key=True, max_length=64)
    epoch = models.CharField(max_length=8, blank=True, default="")
    position = models.BigIntegerField(default=0)
    at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.name}: {self.position}"
