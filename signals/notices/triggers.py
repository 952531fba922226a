"""What causes a notice: an event of the log, or what has lasted or come together since.

``follow`` reads the log and saves its position in the transaction that writes the notices. So the
notices of an event are written once, whatever the number of processes, and one that was down writes
late what it missed. The other triggers tell the many desks of a retired card or of a restore, count
a bot's refusals, and tell of webhooks whose key is lost. Each of ``TRIGGERS`` writes what is due,
and returns whether there may be more. ``write_concerns`` tells staff what needs attention.
"""

import hashlib
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, transaction
from django.db.models import Exists, OuterRef, Q

from desks.models import Automation, Bookmark, Card, Desk, QueuedNotice, RefusalTold, User
from desks.models.desk import DeskQuerySet
from desks.models.notice import MAIL, NoticeKind
from desks.notices.outbox import unless_off, write
from events.feed import read_head
from events.kinds import Kind
from events.models import Event, Head
from signals.notices.models import KnownConcern
from signals.notices.sending import LEASE
from signals.notices.texts import (
    DESK_NOTICES,
    TEXTS_OF_WEBHOOKS,
    lapse_notice,
    load_routes,
    lost_key_notices,
    new_notice,
    page_url,
    refusal_notice,
    refusals_notice,
    restore_notices,
    shown,
    staff_notices,
    webhook_notices,
)
from signals.reports.overview import Concern, platform_overview
from signals.webhooks.models import Subscription

logger = logging.getLogger(__name__)

KINDS = [*DESK_NOTICES, *TEXTS_OF_WEBHOOKS, Kind.SIGNAL_REFUSED, Kind.CARD_RETIRED]
PER_PAGE = 500  # events
OLD = timedelta(days=1)  # what is older comes in a list
MAX_LINES = 20  # of that list
LATE_WAIT = timedelta(minutes=1)  # until that list is sent
# The name of a bookmark. Whoever reads the log, counts refusals, or notifies of their number, holds
# its lock.
LOG = "notices of desks"


@contextmanager
def bookmarked(name: str) -> Iterator[Bookmark | None]:
    """A transaction with the lock of a bookmark; None if another process has it."""
    Bookmark.objects.get_or_create(name=name)
    with transaction.atomic():
        yield Bookmark.objects.filter(name=name).select_for_update(skip_locked=True).first()


def follow(now: datetime) -> bool:
    """Writes the notices of the next events. Returns whether there may be more."""
    head = read_head()
    mark = Bookmark.objects.filter(name=LOG).first()
    if mark and (mark.epoch, mark.position) == (head.epoch, head.position):
        return False
    load_routes()
    with bookmarked(LOG) as mark:
        if mark is None:
            return False
        head = read_head()  # anew: another process may have gone beyond the first one
        if mark.epoch != head.epoch or mark.position > head.position:
            events, mark.epoch, mark.position = [], head.epoch, head.position  # nothing is old news
        else:
            events = _read(mark, head)
        _write(events, now)
        mark.save()
    return len(events) == PER_PAGE


def _read(mark: Bookmark, head: Head) -> list[Event]:
    """The next events that have notices. Moves the bookmark beyond them."""
    new = Event.objects.filter(position__gt=mark.position, position__lte=head.position)
    events = list(new.filter(kind__in=KINDS).order_by("position")[:PER_PAGE])
    mark.position = events[-1].position if len(events) == PER_PAGE else head.position
    return events


def _write(events: Sequence[Event], now: datetime) -> None:
    for event in events:
        if event.kind == Kind.CARD_RETIRED:
            Bookmark.objects.create(name=f"{LAPSED}{event.content['data']['cardId']}", at=event.at)
    found = Desk.objects.select_related("user").filter(
        public_id__in={event.topic for event in events}
    )
    desks = {desk.public_id: desk for desk in found}
    bots = Automation.objects.in_bulk({event.bot_id for event in events if event.bot_id})
    refusals = Refusals({event.bot_id for event in events if event.kind == Kind.SIGNAL_REFUSED})
    # The end of a secret can be decided again. Only the last decision has a notice.
    ends = {secret: event for event in events if (secret := _ended_secret(event))}
    QueuedNotice.objects.filter(about__in=ends, due_at__gt=now).delete()
    notices: list[QueuedNotice] = []
    for event in events:
        if ends.get(_ended_secret(event), event) is not event:
            continue
        try:
            notices += _notices_of(event, desks, bots, refusals)
        except DatabaseError:  # all are written again later
            raise
        except Exception:  # one event must not hold up what follows it in the log
            logger.exception("Event %d has no notice: it cannot be written.", event.position)
    refusals.save()
    write(notice for notice in notices if notice.due_at >= now - OLD)
    _write_late([notice for notice in notices if notice.due_at < now - OLD], now)


def _ended_secret(event: Event) -> str:
    """The id of the secret whose end the event records, or an empty text."""
    data = event.content.get("data", {}) if event.kind == Kind.SECRET_ENDED else {}
    return str(data.get("id", ""))


def _notices_of(
    event: Event,
    desks: Mapping[str, Desk],
    bots: Mapping[str, Automation],
    refusals: "Refusals",
) -> Iterable[QueuedNotice]:
    desk = desks.get(event.topic or "")
    if event.kind in TEXTS_OF_WEBHOOKS and (desk or event.topic is None):
        return webhook_notices(event, desk.user if desk else None)
    if desk is None:
        return ()
    write_one = {**DESK_NOTICES, Kind.SIGNAL_REFUSED: refusals.notice_of}[event.kind]
    notice = write_one(event, desk.user, bots.get(event.bot_id or ""))
    return [notice] if notice else ()


def _write_late(notices: Iterable[QueuedNotice], now: datetime) -> None:
    """Adds old notices to the list of what a user missed, which waits for others a minute.

    A list that is full is followed by another one.
    """
    for notice in unless_off(notices):
        entry = f"- {notice.subject} ({shown(notice.due_at, notice.user)})"
        late = QueuedNotice.objects.filter(user=notice.user, kind=NoticeKind.MISSED)
        rows = late.filter(attempts=0, due_at__gt=now)  # nobody has it yet, on any channel
        last, due_at = rows.select_for_update(of=("self",)).order_by("pk").last(), now + LATE_WAIT
        if last is None or last.body.count("\n- ") >= MAX_LINES:
            body = f"These notices are more than a day late:\n\n{entry}\n\n{page_url('activity')}"
            write([new_notice(notice.user, NoticeKind.MISSED, "Late notices", body, due_at)])
            continue
        beginning, _, link = last.body.rpartition("\n\n")
        body = f"{beginning}\n{entry}\n\n{link}"
        rows.filter(public_id=last.public_id).update(body=body, due_at=due_at)


# --- What many desks are notified of, a few at a time: their card was retired; a restore ----------

# The names of bookmarks, each of which exists until all owners have their notice. ``position`` is
# the last desk whose owner has it.
LAPSED = "lapsed "  # then the id of the retired card
RESTORED = "webhooks after a restore"  # ``at`` is when the epoch began
DESKS_AT_ONCE = 500
MAX_WAITING = 1000  # mails that nobody has tried to send


def write_to_many(now: datetime) -> bool:
    """Writes to the next desks. Returns whether there may be more.

    It waits while many mails wait for their first attempt, taken or not: a card can have a million
    desks.
    """
    marks = Bookmark.objects.filter(Q(name__startswith=LAPSED) | Q(name=RESTORED))
    if not marks.exists():
        return False
    # One attempt: taken by a process, and not begun.
    untried = QueuedNotice.objects.filter(channel=MAIL, attempts__lte=1, due_at__lte=now + LEASE)
    if untried.count() >= MAX_WAITING:
        return False
    load_routes()
    with transaction.atomic():
        mark = marks.select_for_update(skip_locked=True).order_by("name").first()
        if mark is None:
            return False
        if mark.name == RESTORED:
            desks = _write_of_restore(mark, now)
        else:
            desks = _write_of_lapse(mark, now)
        if len(desks) < DESKS_AT_ONCE:
            mark.delete()
        else:
            mark.position = desks[-1].pk
            mark.save(update_fields=["position"])
    return True


def _write_of_lapse(mark: Bookmark, now: datetime) -> list[Desk]:
    card = Card.objects.get(pk=mark.name.removeprefix(LAPSED))
    desks = _next(mark, Desk.objects.filter(enrolled=card))
    published = Card.objects.published().first()
    write(lapse_notice(desk.user, card, published, now) for desk in desks)
    return desks


def _write_of_restore(mark: Bookmark, now: datetime) -> list[Desk]:
    """Begins with staff, if the platform has webhooks."""
    restored = Subscription.objects.filter(created_at__lte=mark.at, cursor_epoch=read_head().epoch)
    if not mark.position and restored.filter(desk=None).exists():
        write(restore_notices(None, now))
    of_desk = restored.filter(desk=OuterRef("pk"))
    desks = _next(mark, Desk.objects.filter(Exists(of_desk)))
    write(notice for desk in desks for notice in restore_notices(desk.user, now))
    return desks


def _next(mark: Bookmark, desks: DeskQuerySet) -> list[Desk]:
    some = desks.active().filter(pk__gt=mark.position).order_by("pk")
    return list(some.select_related("user")[:DESKS_AT_ONCE])


# --- Refusals of a bot: the first one at once, then their number at most once an hour -------------

SUMMARY = timedelta(hours=1)
SUMMARIES_AT_ONCE = 100


class Refusals:
    """The refusals of some bots: which one has a notice, and how many came since."""

    def __init__(self, bot_ids: Collection[str | None]) -> None:
        self._rows = RefusalTold.objects.in_bulk([bot_id for bot_id in bot_ids if bot_id])

    def notice_of(self, event: Event, user: User, bot: Automation | None) -> QueuedNotice | None:
        """The notice of a refusal, or None: then it is counted for the next summary."""
        if bot is None:
            return None
        row = self._rows.get(bot.pk)
        if row is None or (not row.count and row.told_at <= event.at - SUMMARY):
            self._rows[bot.pk] = RefusalTold(bot=bot, told_at=event.at)
            return refusal_notice(event, user, bot.name)
        row.count += 1
        row.due_at = row.told_at + SUMMARY
        return None

    def save(self) -> None:
        for row in self._rows.values():
            row.save()


def summarise_refusals(now: datetime) -> None:
    """Writes the summaries that are due, but none of a bot that was removed meanwhile."""
    due = RefusalTold.objects.filter(due_at__lte=now)
    if not due.exists():
        return
    with bookmarked(LOG) as mark:
        rows = list(due.select_related("bot__desk__user")[:SUMMARIES_AT_ONCE]) if mark else []
        write(
            refusals_notice(row.bot.desk.user, row.bot, row.count, now)
            for row in rows
            if row.bot.removed_at is None
        )
        due.filter(pk__in=[row.pk for row in rows]).update(told_at=now, count=0, due_at=None)


# --- What staff are notified of: once when it begins, and again if it ended in between ------------

EVERY = timedelta(minutes=5)  # between two looks
OVER = timedelta(hours=6)  # what ended so long ago can have a notice again
SUBJECT = "The service needs attention"


def write_concerns(now: datetime) -> None:
    """Notifies staff of what began to need attention since the last look.

    It is what the first page of the control area says of engines, refusals and tokens.
    """
    found = {_key(concern): concern for concern in platform_overview(now).notified}
    with transaction.atomic():
        new = set()
        for key in sorted(found):  # so that two processes wait for each other in one order
            _, is_new = KnownConcern.objects.update_or_create(key=key, defaults={"seen_at": now})
            if is_new:
                new.add(key)
        entries = [
            f"- {concern.sentence}\n  {settings.BASE_URL}{concern.url}"
            for key, concern in found.items()
            if key in new
        ]
        KnownConcern.objects.filter(seen_at__lt=now - OVER).delete()
        if entries:
            write(staff_notices(SUBJECT, "\n\n".join(entries), now))


def _key(concern: Concern) -> UUID:
    about = f"{concern.label} {concern.url}"
    return UUID(hashlib.sha256(about.encode()).hexdigest()[:32])


# --- Webhooks whose key is lost -------------------------------------------------------------------

# A URL or a secret whose key is not configured any more cannot be decrypted, so nothing can be
# sent. That may be a mistake of a minute, so it has a notice once it has lasted.
LASTING = timedelta(hours=1)
ROWS_AT_ONCE = 100


def write_lost_keys(now: datetime) -> bool:
    """Writes, once, of webhooks that could not be decrypted for an hour, and still cannot be.

    Returns whether there may be more.
    """
    with transaction.atomic():
        lost = Subscription.objects.filter(key_lost_at__lte=now - LASTING, key_loss_told_at=None)
        free = lost.select_for_update(of=("self",), skip_locked=True).select_related("desk__user")
        rows = [row for row in free.order_by("pk")[:ROWS_AT_ONCE] if row.lacks_key(now)]
        write(notice for row in rows for notice in lost_key_notices(row, now))
        noted = Subscription.objects.filter(pk__in=[row.pk for row in rows])
        noted.update(key_loss_told_at=now)
    return len(rows) == ROWS_AT_ONCE


TRIGGERS: tuple[Callable[[datetime], bool | None], ...] = (
    follow,
    summarise_refusals,
    write_to_many,
    write_lost_keys,
)
