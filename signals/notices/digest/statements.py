"""The SQL that counts the signals of a digest."""

from collections.abc import Iterable

from events.feed.reading import EVENT_TABLE, IndexRange, range_condition
from events.statements import fetch_all

# The number of the range, the kind, the bot, the code, how many events, and the last of them.
Row = tuple[int, str, str | None, str, int, int]


def count_events(ranges: Iterable[IndexRange], limit: int) -> list[Row]:
    """Counts the events of each range in one statement: the newest, up to the limit."""
    parts: list[str] = []
    values: list[str | int] = []
    for number, each in enumerate(ranges):
        where, params = range_condition(each)
        ordered = ", ".join(f"{column} DESC" for column in (*each.key, "position"))
        events = f"SELECT * FROM {EVENT_TABLE} WHERE {where} ORDER BY {ordered} LIMIT %s"
        parts.append(
            f"SELECT {number}, kind, bot_id, code, count(*), max(position)"
            f" FROM ({events}) AS found GROUP BY kind, bot_id, code"
        )
        values += [*params, limit]
    return fetch_all(" UNION ALL ".join(parts), values) if parts else []
