"""Pages of events for sessions. Those of many sessions are read together.

One event may concern a thousand subscriptions. A page of the feed for each would be three thousand
statements; read together, a hundred sessions take three. A subscription that is far behind, or of
the platform, reads the feed's own page. Both ways find the same events.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from desks.feed.visibility import desks_spans
from events.feed import Query, Span, Window, read_head, read_page, serialize_event
from events.models import Event
from events.statements import listed
from signals.outbound.database import read_database
from signals.webhooks.messages import Message, event_message
from signals.webhooks.models import Subscription

PAGE = 50  # events
TOGETHER = 100  # sessions
REACH = 10_000  # positions behind the head
MOST_EVENTS = 1000  # of all sessions that are read together


class Item(NamedTuple):
    """An event that is to be delivered."""

    position: int
    message: Message


class Batch(NamedTuple):
    """A page of the subscriber's view, as messages. ``examined`` is the last position read."""

    items: list[Item]
    examined: int
    more: bool


class PageRequest(NamedTuple):
    """A session wants the page after this position."""

    row: Subscription
    position: int


def read_alone(request: PageRequest) -> Batch | None:
    """The page of one session; None if the log does not know the cursor."""
    row, position = request
    page = read_page(Query(after=position, kinds=tuple(row.kinds), limit=PAGE), row.visibility)
    if page.head.epoch != row.cursor_epoch or position > page.head.position:
        return None
    platform, epoch = row.is_platform, page.head.epoch
    items = [
        Item(event.position, event_message(serialize_event(event, platform=platform), epoch))
        for event in page.events
    ]
    return Batch(items, page.examined, page.more)


def read_together(requests: Sequence[PageRequest]) -> dict[int, Batch]:
    """The pages of desks' sessions that are near the head, by subscription. Three statements.

    Empty if they have too many events for one query. The order of the reads is the feed's: the
    head, the spans, the events.
    """
    head = read_head()
    near = [
        request
        for request in requests
        if request.row.desk
        and request.row.cursor_epoch == head.epoch
        and head.position - REACH <= request.position <= head.position
    ]
    if not near:
        return {}
    window = Window(min(request.position for request in near) + 1, head.position, descending=False)
    of_desk = desks_spans({request.row.desk for request in near if request.row.desk}, window)
    spans = {row.pk: of_desk[row.desk.pk] for row, _ in near if row.desk}
    topics = {span.topic for found in spans.values() for span in found if span.topic}
    events = Event.objects.filter(
        topic__in=listed(topics), position__gte=window.low, position__lte=window.high
    )
    found = list(events.order_by("position")[: MOST_EVENTS + 1])
    if len(found) > MOST_EVENTS:
        return {}
    return dict(_pages(near, spans, found, window.high, head.epoch))


def _pages(
    requests: Sequence[PageRequest],
    spans: Mapping[int, Sequence[Span]],
    events: Sequence[Event],
    last: int,
    epoch: str,
) -> Iterator[tuple[int, Batch]]:
    """Yields each subscription with what it sees of these events, all up to the position ``last``.

    An event is encoded once for all desks.
    """
    of_topic: defaultdict[str | None, list[Item]] = defaultdict(list)
    kinds = {event.position: event.kind for event in events}
    for event in events:
        message = event_message(serialize_event(event, platform=False), epoch)
        of_topic[event.topic].append(Item(event.position, message))
    for row, position in requests:
        items = sorted(
            item
            for span in spans[row.pk]
            for item in of_topic[span.topic]
            if max(position, span.opened) < item.position < span.closed
            and (not row.kinds or kinds[item.position] in row.kinds)
        )
        if len(items) > PAGE:
            yield row.pk, Batch(items[:PAGE], items[PAGE - 1].position, more=True)
        else:
            yield row.pk, Batch(items, last, more=False)


class Pages:
    """Reads the pages of sessions: together what is wanted while another read is under way."""

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[PageRequest, asyncio.Future[Batch | None]]] = {}
        self._reading: asyncio.Task[None] | None = None

    async def read(self, row: Subscription, position: int) -> Batch | None:
        """The page of a session after a position; None if the log does not know the cursor."""
        request = PageRequest(row, position)
        answer: asyncio.Future[Batch | None] = asyncio.get_running_loop().create_future()
        self._waiting[row.pk] = request, answer
        if self._reading is None:
            self._reading = asyncio.create_task(self._read_waiting())
        return await answer or await read_database(read_alone, request)

    async def _read_waiting(self) -> None:
        while self._waiting:
            some = {pk: self._waiting.pop(pk) for pk in list(self._waiting)[:TOGETHER]}
            try:
                found = await read_database(
                    read_together, [request for request, _ in some.values()]
                )
            except Exception as error:
                for _, answer in some.values():
                    if not answer.done():
                        answer.set_exception(error)
                continue
            for pk, (_, answer) in some.items():
                if not answer.done():  # it is, if the session was cancelled
                    answer.set_result(found.get(pk))
        self._reading = None
