"""Follows the log and writes the notices of what it tells to desks.

The position is saved in the transaction that writes the notices. So each event is told once, by
any number of processes, and one that was down tells late what it missed.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from django.db import DatabaseError

from desks.models import Bookmark, Card, Desk, Notice
from desks.models.notice_kinds import NoticeKind
from desks.notices.outbox import bookmarked, is_full, wanted
from events.feed.head import read_head
from events.kinds import Kind
from events.models import Event, Head
from signals.notices import refusals
from signals.notices.refusals import LOG
from signals.notices.texts import TOLD, lapse_notice, new_notice, notice_of, page
from signals.notices.webhooks import notices_for_staff

logger = logging.getLogger(__name__)

KINDS = [*TOLD, Kind.SIGNAL_REFUSED, Kind.CARD_RETIRED]
PER_PAGE = 500  # events
OLD = timedelta(days=1)  # what is older is told in one notice
MAX_LINES = 20  # of that notice
LAPSED = "lapsed "  # the name of a bookmark: then the id of the retired card
DESKS_AT_ONCE = 500


def follow(now: datetime) -> bool:
    """Writes the notices of the next events. Returns whether there may be more."""
    head = read_head()
    mark = Bookmark.objects.filter(name=LOG).first()
    if mark and (mark.epoch, mark.position) == (head.epoch, head.position):
        return False
    page("desk")  # loads the routes, which takes longer than a transaction may idle
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


def tell_lapses(now: datetime) -> bool:
    """Tells the next desks that their card was retired. Returns whether there may be more.

    It waits while many notices are not sent yet: a card can have a million desks.
    """
    if not Bookmark.objects.filter(name__startswith=LAPSED).exists() or is_full():
        return False
    for name in Bookmark.objects.filter(name__startswith=LAPSED).values_list("name", flat=True):
        with bookmarked(name, create=False) as mark:
            if mark is not None:
                _tell_lapse(mark, Card.objects.get(pk=name.removeprefix(LAPSED)), now)
    return True


def _read(mark: Bookmark, head: Head) -> list[Event]:
    """The next events that notices tell. Moves the bookmark beyond them."""
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
    told = refusals.Told({event.bot_id for event in events if event.kind == Kind.SIGNAL_REFUSED})
    # The end of a secret can be decided again. Only the last decision is told.
    ends = {secret: event for event in events if (secret := _ended_secret(event))}
    Notice.objects.filter(about__in=ends, due_at__gt=now).delete()
    notices: list[Notice] = []
    for event in events:
        if ends.get(_ended_secret(event), event) is not event:
            continue
        try:
            notices += _notices_of(event, desks, told)
        except DatabaseError:  # all are written again later
            raise
        except Exception:  # one event must not hold up what follows it in the log
            logger.exception("No notice tells event %d: it cannot be written.", event.position)
    told.save()
    old = [notice for notice in notices if notice.due_at < now - OLD]
    recent = [notice for notice in notices if notice.due_at >= now - OLD]
    Notice.objects.bulk_create(wanted(recent))
    _summarise(wanted(old), now)


def _ended_secret(event: Event) -> str:
    """The id of the secret whose end the event tells, or an empty text."""
    data = event.content.get("data", {}) if event.kind == Kind.SECRET_ENDED else {}
    return str(data.get("id", ""))


def _notices_of(event: Event, desks: Mapping[str, Desk], told: refusals.Told) -> Iterable[Notice]:
    if event.topic is None:
        return notices_for_staff(event) if event.kind == Kind.SUBSCRIPTION_DISABLED else ()
    if (desk := desks.get(event.topic)) is None:
        return ()
    tell = told.tell if event.kind == Kind.SIGNAL_REFUSED else notice_of
    notice = tell(event, desk.user)
    return [notice] if notice else ()


def _summarise(notices: Sequence[Notice], now: datetime) -> None:
    """Adds old notices to the one notice of what a user missed."""
    for notice in notices:
        line = f"- {notice.subject} ({notice.due_at:%-d %B, %H:%M} UTC)"
        mine = Notice.objects.filter(user=notice.user, kind=NoticeKind.MISSED)
        missed = mine.filter(is_shared=False, attempts=0).lock().first()  # nobody has it yet
        if missed is None:
            body = f"These notices are more than a day late:\n\n{line}\n\n{page('activity')}"
            missed = new_notice(notice.user, NoticeKind.MISSED, "Late notices", body, now)
        elif missed.body.count("\n- ") < MAX_LINES:
            head, _, link = missed.body.rpartition("\n\n")
            missed.body = f"{head}\n{line}\n\n{link}"
        missed.due_at = now + timedelta(minutes=1)
        missed.save()


def _tell_lapse(mark: Bookmark, card: Card, now: datetime) -> None:
    lapsed = Desk.objects.active().filter(enrolled=card, pk__gt=mark.position)
    desks = list(lapsed.order_by("pk").select_related("user")[:DESKS_AT_ONCE])
    Notice.objects.bulk_create(wanted(lapse_notice(desk.user, card, now) for desk in desks))
    if len(desks) < DESKS_AT_ONCE:
        mark.delete()
    else:
        mark.position = desks[-1].pk
        mark.save(update_fields=["position"])
