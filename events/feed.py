"""Reading the log from a cursor, without losing or inventing anything.

The order of the reads is the law here: the head first, then the reader's spans, then the events up
to that head. In another order a withdrawal between two statements would show fills that never were.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from django.db import connection

from events.models import Event, Head

TABLE = Event._meta.db_table
SPANS_A_PAGE = 20
ENDLESS = 2**63 - 1


class Span(NamedTuple):
    """A stretch of one topic that a reader sees: positions over ``opened`` and under ``closed``.

    ``topic`` None is the whole log, whatever an event is addressed to.
    """

    topic: str | None
    opened: int = 0
    closed: int = ENDLESS


WHOLE_LOG = (Span(None),)


class Window(NamedTuple):
    """The first and the last position that a reading reaches, and which way it goes."""

    low: int
    high: int
    descending: bool


# What a reader sees of a window. It is asked after the head was read. Where more than SPANS_A_PAGE
# spans that have an end touch the window, the ones beyond the first left out may be missing.
View = Callable[[Window], Sequence[Span]]


@dataclass(frozen=True, slots=True)
class Query:
    """What a reader asks for. ``after`` is a position, exclusive; None: where the order begins."""

    after: int | None = None
    limit: int = 100
    kinds: Sequence[str] = ()
    signal: str | None = None
    descending: bool = False


@dataclass(slots=True)
class Page:
    """Events in the order asked for; ``examined`` is the last position that the reading passed."""

    events: list[Event]
    examined: int
    more: bool
    head: Head = field(repr=False)


class _Branch(NamedTuple):
    """One range of one index: positions from ``low`` to ``high``, both included."""

    topic: str | None
    kind: str | None
    low: int
    high: int

    @property
    def key(self) -> dict[str, str]:
        """The columns before the position in the index, each with its value."""
        named = {"topic": self.topic, "kind": self.kind}
        return {column: value for column, value in named.items() if value is not None}


def read_page(query: Query, view: View) -> Page:
    """One page of what the view shows, in three statements however large the log is."""
    head = Head.objects.get()
    window = _window(query, head.position)
    if window.low > window.high:
        return Page([], query.after or 0, False, head)
    spans, window, cut = _cut(view(window), window)
    found = _fetch(_branches(spans, query.kinds, window), query)
    events, full = found[: query.limit], len(found) > query.limit
    if full:
        return Page(events, events[-1].position, True, head)
    return Page(events, window.low if window.descending else window.high, cut, head)


def _window(query: Query, head: int) -> Window:
    if query.descending:
        return Window(1, head if query.after is None else min(head, query.after - 1), True)
    return Window((query.after or 0) + 1, head, False)


def _cut(spans: Sequence[Span], window: Window) -> tuple[list[Span], Window, bool]:
    """At most so many spans with an end as one page reads, and the window that they cover wholly.

    Those spans follow one another (a reader's elections on cards never overlap), so the window ends
    where the first one left out begins.
    """
    touched = {s for s in spans if s.opened < window.high and s.closed > window.low}
    endless = {span for span in touched if span.opened == 0 and span.closed == ENDLESS}
    ended = sorted(touched - endless, key=lambda span: span.opened, reverse=window.descending)
    kept, left = ended[:SPANS_A_PAGE], ended[SPANS_A_PAGE:]
    if left and window.descending:
        window = window._replace(low=max(window.low, left[0].closed))
    elif left:
        window = window._replace(high=min(window.high, left[0].opened))
    return [*endless, *kept], window, bool(left)


def _branches(spans: Sequence[Span], kinds: Sequence[str], window: Window) -> list[_Branch]:
    """One range of an index for each span and kind; ranges that hold nothing are left out."""
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
    """The first events of all branches together, one more than the limit.

    Raw, since the ORM cannot limit the parts of a union on SQLite.
    """
    if not branches:
        return []
    order = "DESC" if query.descending else "ASC"
    parts: list[str] = []
    values: list[str | int] = []
    for branch in branches:
        part, given = _part(branch, query.signal, order)
        parts.append(f"SELECT * FROM ({part} LIMIT %s) AS branch")
        values += [*given, query.limit + 1]
    union = f"{' UNION ALL '.join(parts)} ORDER BY position {order} LIMIT %s"
    return list(Event.objects.raw(union, [*values, query.limit + 1]))


def _part(branch: _Branch, signal: str | None, order: str) -> tuple[str, list[str | int]]:
    """The statement of one branch, and its values."""
    where, given = _range(branch)
    if signal is not None:
        where, given = f"{where} AND signal_id = %s", [*given, signal]
    ordered = ", ".join(f"{column} {order}" for column in (*branch.key, "position"))
    return f"SELECT * FROM {TABLE} WHERE {where} ORDER BY {ordered}", given


def _range(branch: _Branch) -> tuple[str, list[str | int]]:
    """The condition that each database reads as a range of the branch's own index, and its values.

    Told that a topic is equal, PostgreSQL would rather walk the positions, past however many events
    of others, until it has enough; told to compare whole keys, SQLite would not see the position.
    """
    before: list[str | int] = [*branch.key.values()]
    if connection.vendor != "postgresql":
        equal = "".join(f"{column} = %s AND " for column in branch.key)
        return f"{equal}position BETWEEN %s AND %s", [*before, branch.low, branch.high]
    key = ", ".join([*branch.key, "position"])
    marks = ", ".join(["%s"] * (len(before) + 1))
    given = [*before, branch.low, *before, branch.high]
    return f"({key}) BETWEEN ({marks}) AND ({marks})", given
