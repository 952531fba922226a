"""Pages of events for sessions. Those of many sessions are read together.

One event may concern a thousand webhooks. A page of the feed for each would be three thousand
statements; read together, a hundred sessions take three. A webhook that is far behind, or of
the platform, reads the feed's own page. Both ways find the same events.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from desks.feed import desks_spans
from events.feed import Query, Span, Window, read_head, read_page, serialize_event
from events.models import Event
from events.statements import listed
from signals.webhooks.messages import Message, event_message
from signals.webhooks.models import Subscription

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
    query = Query(after=row.cursor_position, kinds=tuple(row.kinds), limit=PAGE)
    page = read_page(query, row.visibility)
    epoch = page.head.epoch
    if epoch != row.cursor_epoch or row.cursor_position > page.head.position:
        return None
    messages = [
        event_message(serialize_event(event, platform=row.is_platform), epoch)
        for event in page.events
    ]
    return Batch(messages, page.examined, page.more)


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
    kinds = {event.position: event.kind for event in events}
    for event in events:
        message = event_message(serialize_event(event, platform=False), epoch)
        of_topic[event.topic].append(message)
    for row in rows:
        messages = sorted(
            message
            for span in spans[row.pk]
            for message in of_topic[span.topic]
            if max(row.cursor_position, span.opened) < message.position < span.closed
            and (not row.kinds or kinds[message.position] in row.kinds)
        )
        if len(messages) > PAGE:
            yield row.pk, Batch(messages[:PAGE], messages[PAGE - 1].position, more=True)
        else:
            yield row.pk, Batch(messages, last, more=False)
