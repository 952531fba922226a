"""The outbox: writes notices, and hands them out to be sent.

A notice is written as a row for the mail and a row for each chat that its reader has then. So no
channel waits for another one, and one that fails repeats no other.

A process takes rows for the ``lease`` of their channel. If it ends before it sent them, another one
takes them then: a notice is sent at least once, and as a mail with the same Message-ID.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import NamedTuple

from allauth.account.models import EmailAddress
from django.conf import settings
from django.db import transaction
from django.db.models import F

from desks.models import Bookmark, Chat, NoticeChoice, QueuedNotice
from desks.models.notice import FIRST, MAIL, NoticeKind
from desks.notices.pace import allowed, interval
from desks.notices.statements import insert

MAX_WAITING = 1000  # mails
RATE = "the rate of "  # the name of a bookmark: then the channel
# How long to wait after each failed attempt, on every channel. A mail is given up after the last.
WAITS = tuple(timedelta(minutes=minutes) for minutes in (1, 5, 30, 120, *(360 for _ in range(11))))


class Schedule(NamedTuple):
    """For how long a process takes notices, how many all take in a time, and one at once."""

    lease: timedelta
    rate: str
    at_once: int


def schedule_of(channel: str) -> Schedule:
    """The schedule of a channel (contract, section 8)."""
    if channel == MAIL:
        return Schedule(timedelta(minutes=2), settings.NOTICE_RATE, 20)
    return Schedule(timedelta(minutes=1), "25/second", 25)


@contextmanager
def bookmarked(name: str, *, create: bool = True) -> Iterator[Bookmark | None]:
    """A transaction with the lock of a bookmark; None if another process has it.

    Without ``create`` also None if there is no such bookmark: another process ended the work.
    """
    if create:
        Bookmark.objects.get_or_create(name=name)
    with transaction.atomic():
        yield Bookmark.objects.filter(name=name).select_for_update(skip_locked=True).first()


def write(notices: Iterable[QueuedNotice]) -> None:
    """Writes notices for every channel, but not those of a kind that the reader has turned off."""
    with transaction.atomic(savepoint=False):
        for notice in unless_off(notices):
            insert(notice)


def unless_off(notices: Iterable[QueuedNotice]) -> list[QueuedNotice]:
    """The notices whose readers have not turned their kind off. Security cannot be turned off."""
    found = list(notices)
    may_be_off = {notice.user_id for notice in found if notice.kind != NoticeKind.SECURITY}
    choices = NoticeChoice.objects.in_bulk(may_be_off)
    return [
        notice
        for notice in found
        if notice.user_id not in choices or notice.kind not in choices[notice.user_id].off
    ]


def tell_security(
    user_id: int, subject: str, body: str, *, at: datetime, address: str = ""
) -> None:
    """Writes a notice about the security of an account. Call it in the transaction of the change.

    ``address`` is where it goes if that is not the user's address when it is sent.
    """
    notice = QueuedNotice(
        user_id=user_id,
        kind=NoticeKind.SECURITY,
        priority=FIRST,
        subject=subject,
        body=body,
        due_at=at,
        address=address,
    )
    write([notice])


def write_test(chat: Chat, subject: str, body: str, *, at: datetime) -> None:
    """Writes a test for one chat, also if it is off. One waits at most."""
    if chat.queued_notices.filter(kind=NoticeKind.TEST).exists():
        return
    chat.queued_notices.create(
        user_id=chat.user_id,
        channel=chat.service,
        kind=NoticeKind.TEST,
        priority=FIRST,
        subject=subject,
        body=body,
        due_at=at,
    )


def is_full() -> bool:
    """Whether so many notices wait that those to many users wait to be written."""
    return QueuedNotice.objects.filter(channel=MAIL).count() >= MAX_WAITING


def turn_off(user_id: int, kind: str) -> None:
    """Turns a kind of notice off, as an unsubscribe link asks."""
    with transaction.atomic():
        choice, _ = NoticeChoice.objects.select_for_update().get_or_create(user_id=user_id)
        if kind not in choice.off:
            choice.off = [*choice.off, kind]
            choice.save(update_fields=["off"])


def take(channel: str, now: datetime) -> list[QueuedNotice]:
    """Takes the next notices of a channel, as many as its rate allows. The lease begins at ``now``.

    ``due_at`` of a notice becomes the end of its lease. Its chat is leased with it, because a chat
    is sent one notice at a time.
    """
    schedule = schedule_of(channel)
    until, between = now + schedule.lease, interval(schedule.rate)
    with bookmarked(f"{RATE}{channel}") as mark:
        if mark is None:
            return []
        count, used_until = allowed(mark.at, now, between, schedule.at_once)
        due = QueuedNotice.objects.due(channel, now).select_for_update(
            skip_locked=True, of=("self",)
        )
        related = ["user"] if channel == MAIL else ["user", "chat"]
        taken = list(due.select_related(*related)[:count])
        rows = QueuedNotice.objects.filter(pk__in=[notice.pk for notice in taken])
        rows.update(due_at=until, attempts=F("attempts") + 1)
        chats = [notice.chat_id for notice in taken if notice.chat_id]
        if chats:
            Chat.objects.filter(pk__in=chats).update(leased_until=until)
        mark.at = used_until + between * len(taken)
        mark.save(update_fields=["at"])
    for notice in taken:
        notice.due_at, notice.attempts = until, notice.attempts + 1
    return taken


def address_of(notice: QueuedNotice) -> str | None:
    """Where a mail goes: None if its reader is gone or has no verified address."""
    if notice.address:
        return notice.address
    user = notice.user
    if user.closed_at is not None or not user.is_active:
        return None
    verified = EmailAddress.objects.filter(user=user, email=user.email, verified=True)
    return user.email if notice.kind == NoticeKind.SECURITY or verified.exists() else None


def end(notice: QueuedNotice) -> None:
    """Deletes a notice that was sent or given up."""
    QueuedNotice.objects.filter(pk=notice.pk).delete()


def retry(notice: QueuedNotice, now: datetime) -> bool:
    """Tries to send a notice again later. Gives it up and returns False after the last attempt."""
    if notice.attempts > len(WAITS):
        end(notice)
        return False
    again = now + WAITS[notice.attempts - 1]
    QueuedNotice.objects.filter(pk=notice.pk).update(due_at=again)
    return True
