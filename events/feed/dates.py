"""Finds where a time is in the log. Times never run back along the positions."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from django.db import connection

from events.feed.head import read_head
from events.feed.reading import Query
from events.models import Event, Head
from events.statements import adapt_datetime, fetch_all

MIDDLE = f"(SELECT at FROM {Event._meta.db_table} WHERE position = (low + high) / 2)"
# A binary search for each time, all in one statement: it reads about log2(head) events by their
# primary key. ``low`` never passes the position that is searched for.
SEARCH = f"""
WITH RECURSIVE search (number, time, low, high) AS (
    SELECT number, time, CAST(1 AS bigint), head.position + 1
    FROM {Head._meta.db_table} AS head, ({{asked}}) AS asked
    UNION ALL
    SELECT number, time,
           CASE WHEN {MIDDLE} < time THEN (low + high) / 2 + 1 ELSE low END,
           CASE WHEN {MIDDLE} < time THEN high ELSE (low + high) / 2 END
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
    found = dict(fetch_all(SEARCH.format(asked=asked), values))
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
