"""The outbox: writes notices, and hands them out to be sent.

A notice is written in the transaction of what it tells, so it exists exactly if that happened. A
process takes notices for ``LEASE``. If it ends before it sent them, another one takes them then:
a notice is sent at least once, with the same Message-ID.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from allauth.account.models import EmailAddress
from django.conf import settings
from django.db import connection, transaction
from django.db.models import F

from desks.models import Bookmark, Notice, NoticeChoice
from desks.models.notice_kinds import FIRST, NoticeKind
from desks.notices.pace import allowed, interval

LEASE = timedelta(minutes=2)
MAX_BATCH = 20
PACE = "the pace of notices"
MAX_WAITING = 1000  # notices
# How long to wait after each failed attempt. After the last one the notice is given up.
WAITS = tuple(timedelta(minutes=minutes) for minutes in (1, 5, 30, 120, *(360 for _ in range(11))))


@contextmanager
def bookmarked(name: str, *, create: bool = True) -> Iterator[Bookmark | None]:
    """A transaction with the lock of a bookmark; None if another process has it.

    Without ``create`` also None if there is no such bookmark: another process ended the work.
    """
    if create:
        Bookmark.objects.get_or_create(name=name)
    with transaction.atomic():
        rows = Bookmark.objects.filter(name=name)
        if connection.features.has_select_for_update_skip_locked:
            rows = rows.select_for_update(skip_locked=True)
        yield rows.first()


def tell_security(
    user_id: int, subject: str, body: str, *, at: datetime, address: str = ""
) -> None:
    """Writes a notice about the security of an account. Call it in the transaction of the change.

    ``address`` is where it goes if that is not the user's address when it is sent.
    """
    Notice.objects.create(
        user_id=user_id,
        kind=NoticeKind.SECURITY,
        priority=FIRST,
        subject=subject,
        body=body,
        due_at=at,
        address=address,
    )


def wanted(notices: Iterable[Notice]) -> list[Notice]:
    """The notices whose readers have not turned their kind off."""
    found = list(notices)
    choices = NoticeChoice.objects.in_bulk({notice.user_id for notice in found})
    return [
        notice
        for notice in found
        if notice.user_id not in choices or notice.kind not in choices[notice.user_id].off
    ]


def is_full() -> bool:
    """Whether so many notices wait that those to many users wait to be written."""
    return Notice.objects.unmailed().count() >= MAX_WAITING


def turn_off(user_id: int, kind: str) -> None:
    """Turns a kind of notice off, as an unsubscribe link asks."""
    with transaction.atomic():
        choice, _ = NoticeChoice.objects.select_for_update().get_or_create(user_id=user_id)
        if kind not in choice.off:
            choice.off = [*choice.off, kind]
            choice.save(update_fields=["off"])


def take(now: datetime) -> list[Notice]:
    """Takes the next notices to send, as many as the pace allows. The lease begins at ``now``.

    The pace (``NOTICE_RATE``) is of all processes together.
    """
    if not Notice.objects.due(now).exists():
        return []
    between = interval(settings.NOTICE_RATE)
    with bookmarked(PACE) as pace:
        if pace is None:
            return []
        count, paced_to = allowed(pace.at, now, between, MAX_BATCH)
        notices = list(Notice.objects.due(now).lock().select_related("user")[:count])
        taken = [notice.pk for notice in notices]
        Notice.objects.filter(pk__in=taken).update(due_at=now + LEASE, attempts=F("attempts") + 1)
        pace.at = paced_to + between * len(notices)
        pace.save(update_fields=["at"])
    return notices


def address_of(notice: Notice) -> str | None:
    """Where a notice goes: None if its reader is gone or has no verified address."""
    if notice.address:
        return notice.address
    user = notice.user
    if user.closed_at is not None or not user.is_active:
        return None
    verified = EmailAddress.objects.filter(user=user, email=user.email, verified=True)
    return user.email if notice.kind == NoticeKind.SECURITY or verified.exists() else None


def end_mail(notice: Notice, now: datetime, *, has_chats: bool) -> None:
    """Notes that the mail was sent or given up, and deletes the notice.

    If its reader has chats, it stays until they have their copies.
    """
    rows = Notice.objects.filter(pk=notice.pk)
    if not has_chats:
        rows.delete()
        return
    with transaction.atomic():
        rows.update(mailed_at=now)  # the lock: a process that shares it now sees it, or comes first
        rows.filter(is_shared=True).delete()


def postpone(notice: Notice, now: datetime) -> bool:
    """Tries to mail a notice again later. Returns False if that is given up."""
    if notice.attempts >= len(WAITS):
        return False
    Notice.objects.filter(pk=notice.pk).update(due_at=now + WAITS[notice.attempts])
    return True
