"""Reads a page of the log from a cursor, without gaps and without duplicates.

The order of the reads is essential: the head first, then the reader's visible spans, then the
events up to that head. In any other order, a withdrawal between two statements would show fills
that never happened.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from django.db import connection

from events.models import Event, Head

EVENT_TABLE = Event._meta.db_table
MAX_SPANS_PER_PAGE = 20
MAX_POSITION = 2**63 - 1


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
    """What to read. ``after`` is a position, exclusive; None reads from the start of the order."""

    after: int | None = None
    limit: int = 100
    kinds: Sequence[str] = ()
    signal: str | None = None
    descending: bool = False


@dataclass(slots=True)
class Page:
    """Events in the requested order. ``examined`` is the last position that was read."""

    events: list[Event]
    examined: int
    more: bool
    head: Head = field(repr=False)


class _Branch(NamedTuple):
    """One range of an index: positions from ``low`` to ``high``, both included."""

    topic: str | None
    kind: str | None
    low: int
    high: int

    @property
    def key(self) -> dict[str, str]:
        """The columns before the position in the index, with their values."""
        named = {"topic": self.topic, "kind": self.kind}
        return {column: value for column, value in named.items() if value is not None}


def read_page(query: Query, visibility: Visibility) -> Page:
    """One page of the visible events. Takes three statements, however large the log is."""
    head = Head.objects.get()
    window = _window(query, head.position)
    if window.low > window.high:
        return Page([], query.after or 0, False, head)
    spans, window, is_cut = _limit_spans(visibility(window), window)
    events = _fetch(_branches(spans, query.kinds, window), query)
    if len(events) > query.limit:
        events = events[: query.limit]
        return Page(events, events[-1].position, True, head)
    return Page(events, window.low if window.descending else window.high, is_cut, head)


def _window(query: Query, head: int) -> Window:
    if query.descending:
        return Window(1, head if query.after is None else min(head, query.after - 1), True)
    return Window((query.after or 0) + 1, head, False)


def _limit_spans(spans: Sequence[Span], window: Window) -> tuple[list[Span], Window, bool]:
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


def _branches(spans: Sequence[Span], kinds: Sequence[str], window: Window) -> list[_Branch]:
    """One range of an index for each span and kind. Empty ranges are omitted."""
    ranges = [
        (s.topic, max(window.low, s.opened + 1), min(window.high, s.closed - 1)) for s in spans
    ]
    return [
        _Branch(topic, kind, low, high)
        for topic, low, high in ranges
        if low <= high
        for kind in (kinds or (None,))
    ]


def _fetch(branches: Sequence[_Branch], query: Query) -> list[Event]:
    """The first events of all branches, one more than the limit.

    Raw SQL, because the ORM cannot limit the parts of a union on SQLite.
    """
    if not branches:
        return []
    order = "DESC" if query.descending else "ASC"
    parts: list[str] = []
    values: list[str | int] = []
    for branch in branches:
        part, params = _branch_sql(branch, query.signal, order)
        parts.append(f"SELECT * FROM ({part} LIMIT %s) AS branch")
        values += [*params, query.limit + 1]
    union = f"{' UNION ALL '.join(parts)} ORDER BY position {order} LIMIT %s"
    return list(Event.objects.raw(union, [*values, query.limit + 1]))


def _branch_sql(branch: _Branch, signal: str | None, order: str) -> tuple[str, list[str | int]]:
    """The SQL of one branch, and its parameters."""
    where, params = _range_condition(branch)
    if signal is not None:
        where, params = f"{where} AND signal_id = %s", [*params, signal]
    ordered = ", ".join(f"{column} {order}" for column in (*branch.key, "position"))
    return f"SELECT * FROM {EVENT_TABLE} WHERE {where} ORDER BY {ordered}", params


def _range_condition(branch: _Branch) -> tuple[str, list[str | int]]:
    """The SQL condition of one branch, and its parameters.

    Each database needs its own form to use the branch's index. With ``topic = …`` PostgreSQL may
    scan the primary key instead and skip any number of other topics' events. With a comparison of
    rows SQLite does not use the position.
    """
    prefix: list[str | int] = [*branch.key.values()]
    if connection.vendor != "postgresql":
        equal = "".join(f"{column} = %s AND " for column in branch.key)
        return f"{equal}position BETWEEN %s AND %s", [*prefix, branch.low, branch.high]
    key = ", ".join([*branch.key, "position"])
    placeholders = ", ".join(["%s"] * (len(prefix) + 1))
    params = [*prefix, branch.low, *prefix, branch.high]
    return f"({key}) BETWEEN ({placeholders}) AND ({placeholders})", params
