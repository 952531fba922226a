"""Which webhooks have news, their pages of events, and how long news waits.

One event may concern a thousand webhooks. A page of the feed for each would be three thousand
statements; read together, a hundred sessions take three. A webhook that is far behind, or of
the platform, reads the feed's own page. Both ways find the same events.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import NamedTuple

from django.db import transaction
from django.db.models import Case, Count, Exists, F, Min, OuterRef, Q, Subquery, Value, When
from django.utils import timezone

from desks.ids import CARD
from desks.models import Election
from desks.visibility import desks_spans
from events.feed import Span, Window, read_head, read_page, serialize_event
from events.kinds import EVERYONE, group_of
from events.models import Event
from events.statements import listed
from signals.webhooks.messages import Message, event_message
from signals.webhooks.models import FAILING, SHOWN_STATES, State, Subscription

# With more news than this at once it is cheaper to ask who is behind.
MAX_NEWS = 5000


def with_news(after: int, until: int) -> list[int]:
    """The active webhooks that the events between these positions may concern.

    ``after`` is exclusive. A webhook may be named that has no news, never the other way round:
    an election that opens a card's topic is an event of the desk's own topic.
    """
    if until - after > MAX_NEWS:
        return behind()
    events = Event.objects.filter(position__gt=after, position__lte=until).order_by()
    news = list(events.values_list("topic", "kind").distinct())
    kinds = {name for _, kind in news for name in (kind, group_of(kind))}
    found = _concerned({topic for topic, _ in news if topic})
    return [pk for pk, chosen in found if not chosen or kinds.intersection(chosen)]


def _concerned(topics: set[str]) -> Iterable[tuple[int, list[str]]]:
    """The active webhooks that see one of these topics, with the kinds that they chose.

    A statement for each way to see one: together they would scan the table.
    """
    active = Subscription.objects.filter(state=State.ACTIVE).order_by()
    ways = [active]
    if EVERYONE not in topics:
        cards = [topic for topic in topics if topic.startswith(CARD)]
        elections = Election.objects.filter(card__in=cards)
        of_desks = active.filter(desk__public_id__in=listed(topics))
        ways = [active.filter(desk=None), of_desks]
        if cards:
            ways.append(active.filter(desk__in=elections.values("desk")))
    return chain.from_iterable(rows.values_list("pk", "kinds") for rows in ways)


def behind() -> list[int]:
    """The active webhooks for which there may be events after their cursor."""
    newest = read_head().position
    return list(
        Subscription.objects.filter(_may_have(newest), state=State.ACTIVE)
        .order_by("pk")
        .values_list("pk", flat=True)
    )


def advance_quiet(epoch: str, newest: int) -> int:
    """Moves the cursors of desks' webhooks that saw nothing up to this position.

    So their next event is among those that are read together. Returns their number. ``newest``
    must have been read before, and nobody may hold a lease: what is in flight saves its own cursor.
    It waits for no row that is in use: who has locked one may wait for another.
    """
    quiet = Subscription.objects.filter(
        ~_may_have(newest),
        state=State.ACTIVE,
        leased_until=None,
        failures=0,
        desk__isnull=False,
        cursor_epoch=epoch,
        cursor_position__lt=newest,
    )
    with transaction.atomic():
        free = quiet.select_for_update(skip_locked=True).values("pk")
        return Subscription.objects.filter(pk__in=free).update(cursor_position=newest)


def _may_have(newest: int) -> Q:
    """Whether an event up to this position may be in the view of a webhook, after its cursor.

    A desk sees its own topic, everybody's, and those of the cards that it ever elected.
    """
    later = Event.objects.filter(
        position__gt=OuterRef("cursor_position"), position__lte=newest
    ).order_by()
    cards = Election.objects.filter(desk=OuterRef(OuterRef("desk")), card__isnull=False)
    return (
        Q(Exists(later), desk=None)
        | Q(Exists(later.filter(topic=OuterRef("desk__public_id"))))
        | Q(Exists(later.filter(topic=EVERYONE)))
        | Q(Exists(later.filter(topic__in=cards.values("card"))))
    )


# --- Pages of events ------------------------------------------------------------------------------

PAGE = 50  # events
REACH = 10_000  # positions behind the head
MOST_EVENTS = 1000  # of all sessions that are read together


class Batch(NamedTuple):
    """A page of the subscriber's view. ``examined`` is the last position read."""

    messages: list[Message]
    examined: int
    more: bool


def read_alone(row: Subscription) -> Batch | None:
    """The page of one session; None if the log does not know the cursor."""
    page = read_page(row.query(after=row.cursor_position, limit=PAGE), row.visibility)
    epoch = page.head.epoch
    if epoch != row.cursor_epoch or row.cursor_position > page.head.position:
        return None
    messages = [row.message(event, epoch) for event in page.events]
    return Batch(messages, page.examined, page.more)


def read_one(row: Subscription, position: int) -> Message | None:
    """The message of one event; None if the owner does not see it any more."""
    event = row.event_at(position)
    return None if event is None else row.message(event, read_head().epoch)


def read_together(rows: Sequence[Subscription]) -> dict[int, Batch]:
    """The pages of desks' sessions that are near the head, by webhook. Three statements.

    Empty if they have too many events for one query. The order of the reads is the feed's: the
    head, the spans, the events.
    """
    head = read_head()
    near = [
        row
        for row in rows
        if row.desk
        and row.cursor_epoch == head.epoch
        and head.position - REACH <= row.cursor_position <= head.position
    ]
    if not near:
        return {}
    first = min(row.cursor_position for row in near) + 1
    window = Window(first, head.position, descending=False)
    of_desk = desks_spans({row.desk for row in near if row.desk}, window)
    spans = {row.pk: of_desk[row.desk.pk] for row in near if row.desk}
    topics = {span.topic for found in spans.values() for span in found if span.topic}
    events = Event.objects.filter(
        topic__in=listed(topics), position__gte=window.low, position__lte=window.high
    )
    found = list(events.order_by("position")[: MOST_EVENTS + 1])
    if len(found) > MOST_EVENTS:
        return {}
    return dict(_pages(near, spans, found, window.high, head.epoch))


def _pages(
    rows: Sequence[Subscription],
    spans: Mapping[int, Sequence[Span]],
    events: Sequence[Event],
    last: int,
    epoch: str,
) -> Iterator[tuple[int, Batch]]:
    """Yields each webhook with what it sees of these events, all up to the position ``last``.

    An event is encoded once for all desks.
    """
    of_topic: defaultdict[str | None, list[Message]] = defaultdict(list)
    bots = {event.position: event.bot_id for event in events}
    kinds = {event.position: {event.kind, group_of(event.kind)} for event in events}
    for event in events:
        message = event_message(serialize_event(event, platform=False), epoch)
        of_topic[event.topic].append(message)
    for row in rows:
        messages = sorted(
            message
            for span in spans[row.pk]
            for message in of_topic[span.topic]
            if max(row.cursor_position, span.opened) < message.position < span.closed
            and (not row.kinds or kinds[message.position].intersection(row.kinds))
            and row.bot in ("", bots[message.position])
        )
        if len(messages) > PAGE:
            yield row.pk, Batch(messages[:PAGE], messages[PAGE - 1].position, more=True)
        else:
            yield row.pk, Batch(messages, last, more=False)


# --- Metrics --------------------------------------------------------------------------------------

# /metrics reads the database, so that every runner says the same. No label names a webhook, a desk
# or a host.

# A delivery is recent for as long as the lag at which the alert begins: so that is never late.
RECENT = timedelta(minutes=2)


def webhooks_by_state() -> dict[str, int]:
    """The number of webhooks in each state that is shown."""
    is_failing = When(state=State.ACTIVE, failures__gt=0, then=Value(FAILING))
    rows = Subscription.objects.order_by().annotate(shown=Case(is_failing, default=F("state")))
    found = dict(rows.values_list("shown").annotate(Count("pk")))
    return {str(state): found.get(state, 0) for state in SHOWN_STATES}


def lag_seconds() -> float:
    """The age of the oldest event that waits for a runner: not for an endpoint that fails.

    It looks at the desks' own events and, for the platform's webhooks, at all. With 10,000
    webhooks it takes 30 ms. Webhooks that chose kinds or a bot are not counted: finding their next
    event is a search. Nor are those to which something was delivered a moment ago: a runner is
    working through what waits.
    """
    now = timezone.now()
    later = Event.objects.filter(position__gt=OuterRef("cursor_position")).order_by("position")
    own = later.filter(topic=OuterRef("desk__public_id")).order_by("topic", "position")
    rows = Subscription.objects.filter(state=State.ACTIVE, failures=0, kinds=[], bot="")
    rows = rows.exclude(last_delivered_at__gt=now - RECENT)
    desks = rows.filter(desk__isnull=False).annotate(first=Subquery(own.values("at")[:1]))
    platform = rows.filter(desk=None).annotate(first=Subquery(later.values("at")[:1]))
    oldest = [each.aggregate(oldest=Min(F("first")))["oldest"] for each in (desks, platform)]
    waiting: list[datetime] = [at for at in oldest if at is not None]
    return max(0.0, (now - min(waiting)).total_seconds()) if waiting else 0.0
