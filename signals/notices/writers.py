"""Writes the notices of what happens: to desks, to bots, to webhooks, and to the service itself.

``follow`` reads the log and saves its position in the transaction that writes the notices. So each
event is told once, by any number of processes, and one that was down tells late what it missed.
"""

import hashlib
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.db import DatabaseError, transaction
from django.db.models import Exists, F, OuterRef, QuerySet

from desks.models import Automation, Bookmark, Card, Desk, QueuedNotice, RefusalTold, User
from desks.models.notice import NoticeKind
from desks.notices.outbox import bookmarked, is_full, unless_off, write
from events.control.lists import row_url
from events.feed import read_head
from events.kinds import Kind
from events.models import Event, Head
from signals.notices.texts import (
    TEXTS,
    disabled_because,
    lapse_notice,
    new_notice,
    notice_of,
    page,
    refusal_notice,
    refusals_notice,
    webhook_to,
)
from signals.reports import concerns
from signals.reports.concerns import heard_from, latest_events
from signals.reports.traffic import recent_traffic
from signals.webhooks.models import Subscription
from tokens.models import SigningSecret, Token

logger = logging.getLogger(__name__)

KINDS = [*TEXTS, Kind.SIGNAL_REFUSED, Kind.CARD_RETIRED]
PER_PAGE = 500  # events
OLD = timedelta(days=1)  # what is older is told in one notice
MAX_LINES = 20  # of that notice
LATE_WAIT = timedelta(minutes=1)  # until that notice is sent
LAPSED = "lapsed "  # the name of a bookmark: then the id of the retired card
DESKS_AT_ONCE = 500
# The name of a bookmark. Whoever reads the log, counts refusals, or tells their number, holds its
# lock.
LOG = "notices of desks"


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
    told = ToldRefusals({event.bot_id for event in events if event.kind == Kind.SIGNAL_REFUSED})
    # The end of a secret can be decided again. Only the last decision is told.
    ends = {secret: event for event in events if (secret := _ended_secret(event))}
    QueuedNotice.objects.filter(about__in=ends, due_at__gt=now).delete()
    notices: list[QueuedNotice] = []
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
    write(recent)
    _write_late(old, now)


def _ended_secret(event: Event) -> str:
    """The id of the secret whose end the event tells, or an empty text."""
    data = event.content.get("data", {}) if event.kind == Kind.SECRET_ENDED else {}
    return str(data.get("id", ""))


def _notices_of(
    event: Event, desks: Mapping[str, Desk], told: "ToldRefusals"
) -> Iterable[QueuedNotice]:
    if event.topic is None:
        return notices_for_staff(event) if event.kind == Kind.SUBSCRIPTION_DISABLED else ()
    if (desk := desks.get(event.topic)) is None:
        return ()
    tell = told.tell if event.kind == Kind.SIGNAL_REFUSED else notice_of
    notice = tell(event, desk.user)
    return [notice] if notice else ()


def _write_late(notices: Iterable[QueuedNotice], now: datetime) -> None:
    """Adds old notices to the one notice of what a user missed, which waits for others a minute."""
    for notice in unless_off(notices):
        line = f"- {notice.subject} ({notice.due_at:%-d %B, %H:%M} UTC)"
        late = QueuedNotice.objects.filter(user=notice.user, kind=NoticeKind.MISSED)
        rows = late.filter(attempts=0, due_at__gt=now)  # nobody has it yet, on any channel
        first, due_at = rows.select_for_update(of=("self",)).first(), now + LATE_WAIT
        if first is None:
            body = f"These notices are more than a day late:\n\n{line}\n\n{page('activity')}"
            write([new_notice(notice.user, NoticeKind.MISSED, "Late notices", body, due_at)])
            continue
        beginning, _, link = first.body.rpartition("\n\n")
        is_long = first.body.count("\n- ") >= MAX_LINES
        body = first.body if is_long else f"{beginning}\n{line}\n\n{link}"
        rows.update(body=body, due_at=due_at)


def _tell_lapse(mark: Bookmark, card: Card, now: datetime) -> None:
    lapsed = Desk.objects.active().filter(enrolled=card, pk__gt=mark.position)
    desks = list(lapsed.order_by("pk").select_related("user")[:DESKS_AT_ONCE])
    write(lapse_notice(desk.user, card, now) for desk in desks)
    if len(desks) < DESKS_AT_ONCE:
        mark.delete()
    else:
        mark.position = desks[-1].pk
        mark.save(update_fields=["position"])


# --- Refusals of a bot: the first one at once, then their number at most once an hour -------------

SUMMARY = timedelta(hours=1)
SUMMARIES_AT_ONCE = 100


class ToldRefusals:
    """What was told of some bots' refusals."""

    def __init__(self, bot_ids: Collection[str | None]) -> None:
        self._bots = Automation.objects.in_bulk([bot_id for bot_id in bot_ids if bot_id])
        self._rows = RefusalTold.objects.in_bulk(list(self._bots))

    def tell(self, event: Event, user: User) -> QueuedNotice | None:
        """The notice of a refusal, or None: then it is counted for the next summary."""
        bot = self._bots.get(event.bot_id or "")
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
    """Writes the summaries that are due."""
    due = RefusalTold.objects.filter(due_at__lte=now)
    if not due.exists():
        return
    with bookmarked(LOG) as mark:
        rows = list(due.select_related("bot__desk__user")[:SUMMARIES_AT_ONCE]) if mark else []
        notices = []
        for row in rows:
            bot = row.bot
            notices.append(refusals_notice(bot.desk.user, bot.pk, bot.name, row.count, now))
            row.told_at, row.count, row.due_at = now, 0, None
            row.save()
        write(notices)


# --- What staff are told of the service: once when it begins, and again if it ended in between ----

OPERATIONS = "notices of operations"  # the name of a bookmark
EVERY = timedelta(minutes=5)
TOLD = "told "  # the name of a bookmark: then what was told, as a hash
OVER = timedelta(hours=6)  # what ended so long ago may be told again
MAX_SENDERS = 20
SUBJECT = "The service needs attention"


def tell_operations(now: datetime) -> None:
    """Tells staff what began to need attention since the last look.

    It is what the first page of the control area says of engines, refusals and tokens.
    """
    mark = Bookmark.objects.filter(name=OPERATIONS).first()
    if mark and mark.at and mark.at > now - EVERY:
        return
    found = {_key(concern): concern for concern in _concerns(now)}
    with bookmarked(OPERATIONS) as mark:
        if mark is None or (mark.at and mark.at > now - EVERY):
            return
        mark.at = now
        mark.save(update_fields=["at"])
        told = Bookmark.objects.filter(name__startswith=TOLD)
        told.filter(name__in=found).update(at=now)
        told.filter(at__lt=now - OVER).delete()
        new = [key for key in found if not told.filter(name=key).exists()]
        Bookmark.objects.bulk_create(Bookmark(name=key, at=now) for key in new)
        lines = [f"- {found[key].sentence}\n  {settings.BASE_URL}{found[key].url}" for key in new]
        if lines:
            tell_staff(SUBJECT, "\n\n".join(lines), now)


def tell_staff(subject: str, body: str, now: datetime) -> None:
    """Writes a notice for every member of the staff who wants it."""
    told = (new_notice(user, NoticeKind.OPERATIONS, subject, body, now) for user in _staff())
    write(told)


def _concerns(now: datetime) -> Iterator[concerns.Concern]:
    next_to_expire = F("expires_at").asc(nulls_last=True)
    tokens = list(Token.objects.filter(desk=None).active(now).order_by(next_to_expire, "id"))
    senders: list[Token | SigningSecret] = [
        *(token for token in tokens[:MAX_SENDERS] if token.can_write),
        *SigningSecret.objects.filter(automation=None, ends_at=None),
    ]
    heard = heard_from([sender.public_id for sender in senders])
    yield from concerns.of_silence(senders, heard, now)
    yield from concerns.of_log(latest_events(), now)
    yield from concerns.of_refusals(recent_traffic(now))
    yield from concerns.of_expiry(tokens, now)
    yield from concerns.of_webhooks(concerns.failing_webhooks(now).count())


def _key(concern: concerns.Concern) -> str:
    """What a concern is about: the same while its numbers change."""
    about = f"{concern.label} {concern.url}"
    return TOLD + hashlib.sha256(about.encode()).hexdigest()[:32]


# --- Webhooks: what no event of a desk tells ------------------------------------------------------

# A URL or a secret whose key is not configured any more cannot be decrypted, so nothing can be
# sent. That may be a mistake of a minute, so it is told once it has lasted.
TOLD_AFTER = timedelta(hours=1)
# The name of a bookmark, which exists until all owners are told. ``at`` is when the epoch began,
# ``position`` the last desk whose owner was told.
RESTORED = "webhooks after a restore"
ROWS_AT_ONCE = 100
AFTER_RESTORE = (
    "The service was restored from a back-up. Events from after that back-up are lost. From now on "
    "your webhooks go on where they stood in the back-up: they may get events again, with another "
    "webhook-id. Events that they got shortly before may exist no more, and their positions may "
    "belong to other events. Compare what your endpoints stored with the log."
)


def notices_for_staff(event: Event) -> Iterator[QueuedNotice]:
    """The notices of a ``subscription.disabled`` of the platform: one for each member of staff."""
    data = event.content["data"]
    row = Subscription.objects.filter(public_id=data["id"]).first()
    subject = f"The platform's {webhook_to(row)} is disabled"
    body = f"{subject}: {disabled_because(data['reason'])}\n\n{_control_page(row)}"
    for user in _staff():
        yield new_notice(user, NoticeKind.OPERATIONS, subject, body, event.at)


def tell_restored(now: datetime) -> bool:
    """Tells the next owners of webhooks that the log was restored. Returns whether there are more.

    Like the notices of a retired card, it waits while many notices are not sent yet.
    """
    if not Bookmark.objects.filter(name=RESTORED).exists() or is_full():
        return False
    page("webhooks")  # loads the routes, which takes longer than a transaction may idle
    with bookmarked(RESTORED, create=False) as mark:
        if mark is None:
            return False
        restored = Subscription.objects.filter(
            created_at__lte=mark.at, cursor_epoch=read_head().epoch
        )
        notices = [] if mark.position else list(_of_restore_for_staff(restored, now))
        of_desk = Exists(restored.filter(desk=OuterRef("pk")))
        desks = Desk.objects.active().filter(of_desk, pk__gt=mark.position).order_by("pk")
        some = list(desks.select_related("user")[:DESKS_AT_ONCE])
        notices += [_of_restore(desk.user, now) for desk in some]
        write(notices)
        if len(some) < DESKS_AT_ONCE:
            mark.delete()
        else:
            mark.position = some[-1].pk
            mark.save(update_fields=["position"])
    return len(some) == DESKS_AT_ONCE


def _of_restore(user: User, now: datetime) -> QueuedNotice:
    subject = "Your webhooks may repeat or miss events"
    return new_notice(
        user, NoticeKind.ENDINGS, subject, f"{AFTER_RESTORE}\n\n{page('webhooks')}", now
    )


def _of_restore_for_staff(
    restored: QuerySet[Subscription], now: datetime
) -> Iterator[QueuedNotice]:
    """The notices about the platform's webhooks, if it has any."""
    if not restored.filter(desk=None).exists():
        return
    subject = "The platform's webhooks may repeat or miss events"
    body = AFTER_RESTORE.replace("your webhooks", "the platform's webhooks")
    for user in _staff():
        yield new_notice(
            user, NoticeKind.OPERATIONS, subject, f"{body}\n\n{_control_page(None)}", now
        )


def tell_lost_keys(now: datetime) -> bool:
    """Tells, once, of webhooks that could not be decrypted for an hour, and still cannot be.

    Returns whether there may be more.
    """
    with transaction.atomic():
        lost = Subscription.objects.filter(key_lost_at__lte=now - TOLD_AFTER, key_loss_told_at=None)
        free = lost.select_for_update(of=("self",), skip_locked=True).select_related("desk__user")
        rows = [row for row in free.order_by("pk")[:ROWS_AT_ONCE] if row.lacks_key(now)]
        write(notice for row in rows for notice in _of_lost_key(row, now))
        told = Subscription.objects.filter(pk__in=[row.pk for row in rows])
        told.update(key_loss_told_at=now)
    return len(rows) == ROWS_AT_ONCE


def _of_lost_key(row: Subscription, now: datetime) -> Iterator[QueuedNotice]:
    subject = f"The webhook to {row.host} needs its URL and a new secret"
    body = (
        f"Nothing is sent to your webhook to {row.host}: the service cannot decrypt its URL or its "
        "secret any more. Enter the URL again, and replace the secret without an overlap. Nothing "
        "is lost: events wait."
    )
    if row.desk is not None:
        link = page("webhook", row.public_id)
        yield new_notice(row.desk.user, NoticeKind.ENDINGS, subject, f"{body}\n\n{link}", now)
        return
    body = body.replace("your webhook", "the platform's webhook")
    for user in _staff():
        link = _control_page(row)
        yield new_notice(user, NoticeKind.OPERATIONS, subject, f"{body}\n\n{link}", now)


def _staff() -> list[User]:
    return list(User.objects.filter(is_staff=True, is_active=True))


def _control_page(row: Subscription | None) -> str:
    """The page of the webhook, or of all if it was removed."""
    return (
        settings.BASE_URL + row_url(row) if row else page("admin:signals_subscription_changelist")
    )
