"""Counts the events that a reader has not seen yet, up to a limit."""

from collections.abc import Sequence

from events.feed.head import read_head
from events.feed.reading import (
    EVENT_TABLE,
    IndexRange,
    Query,
    Visibility,
    Window,
    branches_of,
    limit_spans,
    range_condition,
)
from events.statements import fetch_one


def count_ahead(after: int, kinds: Sequence[str], visibility: Visibility, most: int) -> int:
    """The number of visible events of these kinds after a position; of all kinds without any.

    Counting stops at ``most``. It reads at most so many rows of each range of an index.
    """
    head, query, found = read_head().position, Query(kinds=kinds), 0
    is_cut = True
    while is_cut and found < most and after < head:
        window = Window(after + 1, head, descending=False)
        spans, window, is_cut = limit_spans(visibility(window), window)
        found += _count(branches_of(spans, query, window), most - found)
        after = window.high
    return found


def _count(branches: Sequence[IndexRange], most: int) -> int:
    if not branches:
        return 0
    parts: list[str] = []
    values: list[str | int] = []
    for branch in branches:
        where, params = range_condition(branch)
        parts.append(
            f"SELECT * FROM (SELECT position FROM {EVENT_TABLE} WHERE {where} LIMIT %s) AS branch"
        )
        values += [*params, most]
    union = " UNION ALL ".join(parts)
    row = fetch_one(f"SELECT count(*) FROM ({union}) AS found", values)
    return min(int(row[0]), most)
