"""Reads the log: its head, pages of it without gaps and duplicates, times in it, and what is new.

The order of the reads of a page is essential: the head first, then the reader's visible spans, then
the events up to that head. In any other order, a withdrawal between two statements would show fills
that never happened.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Annotated, NamedTuple, TypedDict

from django.db import DEFAULT_DB_ALIAS, connection

from events.actors import ActorRecord
from events.http.cursors import log_cursor
from events.json_schema import (
    EXAMPLE_USER_ID,
    DateTime,
    Example,
    JsonObject,
    JsonSchema,
    Position,
    one_of,
    pattern,
)
from events.kinds import Kind
from events.models import SEARCHED, Event, Head, Identity
from events.statements import HEAD, UnionAll, adapt_datetime, fetch_all, fetch_one, parse_datetime
from events.times import to_rfc3339
from events.unavailable_reasons import give_way

EVENT_TABLE = Event._meta.db_table
HEAD_COLUMNS = tuple(field.attname for field in Head._meta.concrete_fields)
HEAD_AND_EVENT = f"""SELECT {", ".join(f"head.{column}" for column in HEAD_COLUMNS)},
{", ".join(f"event.{column}" for column in Identity._fields)}
FROM {HEAD} AS head
LEFT JOIN {EVENT_TABLE} AS event ON event.position = COALESCE(%s, head.position)"""
MAX_SPANS_PER_PAGE = 20
# A statement has a part for each span and kind if these are no more, otherwise one for each span.
# SQLite takes at most 500 parts, and PostgreSQL needs seconds to plan as many.
MAX_PARTS = 100
# With several conditions one index finds the events of the first, and the others are checked row by
# row. So are the kinds that have no parts of their own. A page checks at most so many rows of each
# span.
MAX_CHECKED_PER_PAGE = 2000
MAX_PAGES_AHEAD = 2  # when it is only counted what is ahead
MAX_POSITION = 2**63 - 1
EVENTS_BETWEEN_PAUSES = 50  # while a page is made


class Span(NamedTuple):
    """A range of one topic that a reader sees: positions between ``opened`` and ``closed``.

    Both bounds are exclusive. ``topic`` None means the whole log, with all topics.
    """

    topic: str | None
    opened: int = 0
    closed: int = MAX_POSITION


WHOLE_LOG = (Span(None),)


class Window(NamedTuple):
    """The first and the last position to read, both included, and the direction."""

    low: int
    high: int
    descending: bool


# Returns the spans that a reader sees in a window. Called after the head is read. It may stop after
# MAX_SPANS_PER_PAGE + 1 spans that have an end.
Visibility = Callable[[Window], Sequence[Span]]


@dataclass(frozen=True, slots=True)
class Query:
    """What to read. ``after`` is a position, exclusive; None reads from the start of the order.

    ``first`` and ``last`` bound the positions, both included. ``having`` maps columns of
    ``SEARCHED`` to the value that an event must have. It is for readers of topics, not for a reader
    of the whole log.
    """

    after: int | None = None
    first: int = 1
    last: int = MAX_POSITION
    having: Mapping[str, str] = field(default_factory=dict)
    limit: int = 100
    kinds: Sequence[str] = ()
    signal: str | None = None
    descending: bool = False


@dataclass(slots=True)
class Page:
    """Events in the requested order. ``examined`` is the last position that was read.

    ``last`` tells the last event of the log from another one. None if the log is empty.
    """

    events: list[Event]
    examined: int
    more: bool
    head: Head = field(repr=False)
    last: Identity | None = field(repr=False)

    @property
    def next(self) -> str:
        """The cursor of the last position that was read, as ``cursor`` makes it."""
        return self.cursor(self.examined)

    def cursor(self, position: int) -> str:
        """The cursor of a position.

        Takes a statement, unless the first or the last event of the page or of the log is there.
        """
        ends = [event.identity for event in (*self.events[:1], *self.events[-1:])]
        known = {event.position: event for event in (*ends, self.last) if event}
        event = known.get(position) or read_identity(position)
        return log_cursor(self.head.epoch, position, event)


class IndexRange(NamedTuple):
    """One range of an index: positions from ``low`` to ``high``, both included.

    ``key`` are the columns before the position in the index, with their values.
    """

    key: Mapping[str, str]
    low: int
    high: int


def read_head(database: str = DEFAULT_DB_ALIAS) -> Head:
    """The head of the log, as the database of this alias has it."""
    return Head.objects.using(database).get()


def read_identity(position: int) -> Identity | None:
    """What tells the event at this position from another one. None if there is no event."""
    return read_end(position)[1] if position else None


def read_end(
    position: int | None = None, database: str = DEFAULT_DB_ALIAS
) -> tuple[Head, Identity | None]:
    """The head of the log, and what tells the event at this position from another one.

    ``position`` None: the last event of the log. None if there is no event. Takes one statement.
    """
    row = fetch_one(HEAD_AND_EVENT, [position], database)
    if row is None:
        raise Head.DoesNotExist
    of_head, of_event = row[: len(HEAD_COLUMNS)], row[len(HEAD_COLUMNS) :]
    head, event = Head.from_db(database, HEAD_COLUMNS, of_head), Identity(*of_event)
    head.at = parse_datetime(head.at)
    is_there = event.position is not None
    return head, event._replace(at=parse_datetime(event.at)) if is_there else None


def read_page(query: Query, visibility: Visibility) -> Page:
    """One page of the visible events.

    Takes three statements, however large the log is, and a fourth with several conditions or with
    many kinds and spans.
    """
    head, last = read_end()
    window = _window(query, head.position)
    if window.low > window.high:
        end = 0 if query.descending else window.high  # there is nothing up to it
        return Page([], max(query.after or 0, end), False, head, last)
    branches, window, is_cut = _branches_in(window, query, visibility)
    events: list[Event] = []
    if branches:
        # Raw SQL, because the ORM cannot limit the parts of a union on SQLite.
        found = Event.objects.raw(*_first_of("*", branches, query))
        events = list(give_way(found.iterator(), EVENTS_BETWEEN_PAUSES))
    if len(events) > query.limit:
        events = events[: query.limit]
        return Page(events, events[-1].position, True, head, last)
    return Page(events, window.low if window.descending else window.high, is_cut, head, last)


def _branches_in(
    window: Window, query: Query, visibility: Visibility
) -> tuple[list[IndexRange], Window, bool]:
    """What is to be read of a window, the window that one page examines, and whether it is cut."""
    spans, window, is_cut = limit_spans(visibility(window), window)
    branches = branches_of(spans, query, window)
    is_checked = any(_checks_rows(branch, query) for branch in branches)
    if is_checked and (limited := _limit_rows(branches, window)):
        return branches_of(spans, query, limited), limited, True
    return branches, window, is_cut


def _window(query: Query, head: int) -> Window:
    low, high = query.first, min(head, query.last)
    if query.after is None:
        return Window(low, high, query.descending)
    if query.descending:
        return Window(low, min(high, query.after - 1), True)
    return Window(max(low, query.after + 1), high, False)


def limit_spans(spans: Sequence[Span], window: Window) -> tuple[list[Span], Window, bool]:
    """Limits the spans that have an end to ``MAX_SPANS_PER_PAGE``, and the window to match.

    Such spans never overlap (they are a reader's elections on cards), so the window ends where the
    first omitted span begins. Returns the spans, the window, and whether any span was omitted.
    """
    overlapping = {s for s in spans if s.opened < window.high and s.closed > window.low}
    endless = {span for span in overlapping if span.opened == 0 and span.closed == MAX_POSITION}
    ended = sorted(overlapping - endless, key=lambda span: span.opened, reverse=window.descending)
    included, omitted = ended[:MAX_SPANS_PER_PAGE], ended[MAX_SPANS_PER_PAGE:]
    if omitted and window.descending:
        window = window._replace(low=max(window.low, omitted[0].closed))
    elif omitted:
        window = window._replace(high=min(window.high, omitted[0].opened))
    return [*endless, *included], window, bool(omitted)


def _checks_rows(branch: IndexRange, query: Query) -> bool:
    """Whether there are more conditions than the branch's index answers."""
    return len(query.having) + bool(query.kinds) > len(branch.key.keys() - {"topic"})


def _limit_rows(branches: Sequence[IndexRange], window: Window) -> Window | None:
    """The window in which no branch has more than ``MAX_CHECKED_PER_PAGE`` rows to check.

    None if the whole window is one.
    """
    order = "DESC" if window.descending else "ASC"
    union = UnionAll()
    for branch in branches:
        part, params = in_order("position", branch, MAX_CHECKED_PER_PAGE, order)
        union.add(f"{part} LIMIT 1 OFFSET %s", [*params, MAX_CHECKED_PER_PAGE - 1])
    last = [position for (position,) in union.rows()]
    if not last:
        return None
    return window._replace(low=max(last)) if window.descending else window._replace(high=min(last))


def branches_of(spans: Sequence[Span], query: Query, window: Window) -> list[IndexRange]:
    """One range of an index for each span and key. Empty ranges are omitted."""
    keys = _keys(query, len(spans))
    ranges = [
        (s.topic, max(window.low, s.opened + 1), min(window.high, s.closed - 1)) for s in spans
    ]
    return [
        IndexRange({**({} if topic is None else {"topic": topic}), **values}, low, high)
        for topic, low, high in ranges
        if low <= high
        for values in keys
    ]


def _keys(query: Query, spans: int) -> list[dict[str, str]]:
    """The columns of the index after the topic, with their values: a searched one, or the kind.

    No column if each kind of so many spans would be more than ``MAX_PARTS``.
    """
    for column in SEARCHED:
        if column in query.having:
            return [{column: query.having[column]}]
    if len(query.kinds) * spans > MAX_PARTS:
        return [{}]
    return [{"kind": kind} for kind in query.kinds] or [{}]


def _first_of(
    columns: str, branches: Sequence[IndexRange], query: Query
) -> tuple[str, list[object]]:
    """The statement that reads the first events of all branches, one more than the limit."""
    order = "DESC" if query.descending else "ASC"
    union = UnionAll()
    for branch in branches:
        union.add(*_branch_sql(columns, branch, query, order))
    return f"{union} ORDER BY position {order} LIMIT %s", [*union.values, query.limit + 1]


def _branch_sql(
    columns: str, branch: IndexRange, query: Query, order: str
) -> tuple[str, list[str | int]]:
    """The SQL of one branch, and its parameters."""
    limit = query.limit + 1
    if not _checks_rows(branch, query):
        return in_order(columns, branch, limit, order, query.signal)
    found, params = in_order("*", branch, MAX_CHECKED_PER_PAGE, order, query.signal)
    checks, values = _row_condition(branch, query)
    limited = f"SELECT {columns} FROM ({found}) AS found WHERE {checks}"
    return f"{limited} ORDER BY position {order} LIMIT %s", [*params, *values, limit]


def _row_condition(branch: IndexRange, query: Query) -> tuple[str, list[str | int]]:
    """The SQL of the conditions that the branch's index does not answer, and its parameters."""
    columns = [column for column in query.having if column not in branch.key]
    conditions = [f"{column} = %s" for column in columns]
    if query.kinds:
        conditions.append(f"kind IN ({', '.join(['%s'] * len(query.kinds))})")
    return " AND ".join(conditions), [*(query.having[column] for column in columns), *query.kinds]


def in_order(
    columns: str, branch: IndexRange, limit: int, order: str = "ASC", signal: str | None = None
) -> tuple[str, list[str | int]]:
    """The SQL that reads the first rows of one range, and its parameters.

    It reads no more than ``limit`` entries of the index, whatever they are.
    """
    where, params = _range_condition(branch, order)
    if signal is not None:
        where, params = f"{where} AND signal_id = %s", [*params, signal]
    ordered = ", ".join(f"{column} {order}" for column in (*branch.key, "position"))
    found = f"SELECT * FROM {EVENT_TABLE} WHERE {where} ORDER BY {ordered} LIMIT %s"
    inside = f"WHERE position BETWEEN %s AND %s ORDER BY position {order}"
    bounds = [limit, branch.low, branch.high]
    return f"SELECT {columns} FROM ({found}) AS entries {inside}", [*params, *bounds]


def latest_of_each(
    columns: str, topic: str, column: str, values: Sequence[str], window: Window, limit: int
) -> tuple[str, list[object]]:
    """The SQL that reads the last rows of a topic for each value of a searched column.

    It reads what ``in_order`` reads of each value. PostgreSQL plans it once for all of them: with
    a part for each of 50 values the plan took longer than the rows. The value is a range of one, so
    that the order needs the column, and no other index than that of topic and column has it.
    """
    if connection.vendor != "postgresql":
        union = UnionAll()
        for value in values:
            branch = IndexRange({"topic": topic, column: value}, window.low, window.high)
            union.add(*in_order(columns, branch, limit, "DESC"))
        return str(union), union.values
    found = (
        f"SELECT * FROM {EVENT_TABLE} WHERE topic = %s "
        f"AND {column} BETWEEN one.value AND one.value AND {column} IS NOT NULL "
        f"AND position <= %s ORDER BY {column} DESC, position DESC LIMIT %s"
    )
    return (
        f"SELECT {columns} FROM unnest(%s::text[]) AS one (value) "
        f"CROSS JOIN LATERAL ({found}) AS entries WHERE position >= %s"
    ), [list(values), topic, window.high, limit, window.low]


def _range_condition(branch: IndexRange, order: str) -> tuple[str, list[str | int]]:
    """The SQL condition that leads to the range in its index, and its parameters.

    With ``topic = …`` PostgreSQL may read another index instead, and skip any number of other
    topics' events: it knows that the order needs no topic. ``= ANY`` is no such equality to it.
    With two columns before the position, the second one is a range of one value for the same
    reason. The condition ends with that value, not with the position: a comparison of rows that
    were to end there would read on in silence.
    """
    keys: list[tuple[str, str]] = [*branch.key.items()]
    between, bounds = "position BETWEEN %s AND %s", [branch.low, branch.high]
    if connection.vendor != "postgresql":
        equal = "".join(f"{column} = %s AND " for column, _ in keys)
        return f"{equal}{between}", [*branch.key.values(), *bounds]
    if not keys:
        return between, [*bounds]
    (first, value), *others = keys
    where = f"{first} = ANY(ARRAY[%s])"
    if not others:
        return f"{where} AND {between}", [value, *bounds]
    [(second, of_second)] = others
    begins, ends, begin = (">=", "<=", branch.low) if order == "ASC" else ("<=", ">=", branch.high)
    where += f" AND ({second}, position) {begins} (%s, %s) AND {second} {ends} %s"
    if second in SEARCHED:  # they have partial indexes
        where += f" AND {second} IS NOT NULL"
    return where, [value, of_second, begin, of_second]


TIME_IN_THE_MIDDLE = f"(SELECT at FROM {EVENT_TABLE} WHERE position = (low + high) / 2)"
# A binary search for each time, all in one statement: it reads about log2(head) events by their
# primary key. ``low`` never passes the position that is searched for.
SEARCH_TIMES = f"""
WITH RECURSIVE search (number, time, low, high) AS (
    SELECT number, time, CAST(1 AS bigint), head.position + 1
    FROM {HEAD} AS head, ({{asked}}) AS asked
    UNION ALL
    SELECT number, time,
           CASE WHEN {TIME_IN_THE_MIDDLE} < time THEN (low + high) / 2 + 1 ELSE low END,
           CASE WHEN {TIME_IN_THE_MIDDLE} < time THEN high ELSE (low + high) / 2 END
    FROM search WHERE low < high
)
SELECT number, max(low) FROM search GROUP BY number"""


def first_positions(times: Sequence[datetime]) -> list[int]:
    """For each time, the position of the first event that is not before it.

    That is the position after the head if there is no such event yet.
    """
    if not times:
        return []
    time = "CAST(%s AS timestamptz)" if connection.vendor == "postgresql" else "%s"
    asked = " UNION ALL ".join([f"SELECT %s AS number, {time} AS time"] * len(times))
    values = [value for number, at in enumerate(times) for value in (number, adapt_datetime(at))]
    found = dict(fetch_all(SEARCH_TIMES.format(asked=asked), values))
    return [int(found[number]) for number in range(len(times))]


def limit_to_times(query: Query, since: datetime | None, until: datetime | None) -> Query:
    """The query of the events that are not before ``since`` and are before ``until``.

    A time that the log has not reached has no position yet. So nothing is read after the head as
    it is now: the page ends there, and its cursor continues there.
    """
    if since is None and until is None:
        return query
    head = read_head().position
    found = first_positions([time for time in (since, until) if time])
    first = found[0] if since else query.first
    return replace(query, first=first, last=min(head, found[-1] - 1) if until else head)


class Ahead(NamedTuple):
    """The kinds of visible events by position, in order: all up to the position ``examined``.

    ``more`` is whether there may be others behind it.
    """

    kinds: dict[int, str]
    examined: int
    more: bool


def kinds_ahead(query: Query, visibility: Visibility) -> Ahead:
    """What is visible after the query's position: as many events as its limit, or fewer.

    It examines no more than ``MAX_PAGES_AHEAD`` pages, however few of their events it finds.
    """
    head = read_head().position
    found = Ahead({}, query.after or 0, more=(query.after or 0) < head)
    for _ in range(MAX_PAGES_AHEAD):
        left = query.limit - len(found.kinds)
        if not (found.more and left):
            break
        window = Window(found.examined + 1, head, descending=False)
        branches, window, is_cut = _branches_in(window, query, visibility)
        some = replace(query, limit=left)
        rows = fetch_all(*_first_of("position, kind", branches, some)) if branches else []
        found.kinds.update(rows[:left])
        is_full = len(rows) > left
        examined = rows[left - 1][0] if is_full else window.high
        found = found._replace(examined=examined, more=is_full or is_cut)
    return found


def read_at(positions: Collection[int], visibility: Visibility) -> dict[int, Event]:
    """The visible ones of the events at these positions."""
    events = Event.objects.in_bulk(positions)
    visible, left = dict[int, Event](), sorted(events)
    while left:
        window = Window(left[0], left[-1], descending=False)
        spans, window, _ = limit_spans(visibility(window), window)
        visible |= {
            position: events[position]
            for position in left
            if position <= window.high
            and any(
                span.opened < position < span.closed
                and span.topic in (None, events[position].topic)
                for span in spans
            )
        }
        left = [position for position in left if position > window.high]
    return visible


EventId = Annotated[str, pattern("evt_[1-9][0-9]*"), Example("evt_8")]
KindName = Annotated[str, one_of(Kind.values)]


class EventRecord(TypedDict):
    """An event. The platform sees some members of ``signal`` and ``data`` that desks do not see."""

    id: Annotated[EventId, "evt_ followed by the position."]
    position: Annotated[Position, "The position in the log: consecutive integers without gaps."]
    kind: Annotated[KindName, Example(Kind.DESK_CONNECTED.value)]
    at: DateTime
    actor: Annotated[
        ActorRecord | None,
        "Null if the caller was not authenticated. A desk sees only its own user, tokens and bots' "
        "secrets here, and null instead of any other actor.",
    ]
    userId: Annotated[
        Annotated[str, JsonSchema(pattern="^usr_")] | None,
        "The desk that the event is addressed to.",
        Example(EXAMPLE_USER_ID),
    ]
    signal: Annotated[JsonObject | None, "The signal that the event is about."]
    data: Annotated[
        JsonObject, "Details. The members depend on the kind.", Example({"venue": "Kraken"})
    ]


def serialize_event(event: Event, *, platform: bool) -> EventRecord:
    """The event as JSON. The platform sees more of some events than a desk does."""
    content = event.content_for(platform=platform)
    actor = event.actor_for(platform=platform)
    return {
        "id": event.id,
        "position": event.position,
        "kind": event.kind,
        "at": to_rfc3339(event.at),
        "actor": actor and actor.to_dict(),
        "userId": event.user_id,
        "signal": content["signal"],
        "data": content["data"],
    }
