"""A desk's events, as its pages show them: lines to read, and the cursors between pages."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from desks.models import Desk
from events.cursors import log_cursor
from events.feed import Page, Query, read_page
from events.kinds import Kind
from events.models import Event
from tokens.models.token import desk_view


@dataclass(frozen=True, slots=True)
class Line:
    """An event, what it says to the desk's owner, and the bot that it speaks of."""

    kind: str
    at: datetime
    event_id: str
    data: dict[str, Any]
    signal: dict[str, Any] | None
    bot_id: str | None
    # Null for a bot that was removed.
    bot_name: str | None

    @property
    def is_refusal(self) -> bool:
        return self.kind == Kind.SIGNAL_REFUSED


def lines(events: Iterable[Event], bots: Mapping[str, str]) -> list[Line]:
    """The events as lines; ``bots`` are the names of the desk's bots by their ids."""
    return [_line(event, bots) for event in events]


def was_filled(desk: Desk, page: Page) -> bool:
    """Whether a signal ever filled the desk: seen on this page of the latest, or asked for."""
    if any(event.kind == Kind.SIGNAL_FILLED for event in page.events):
        return True
    query = Query(limit=1, kinds=(Kind.SIGNAL_FILLED,), descending=True)
    return page.more and bool(read_page(query, desk_view(desk)).events)


def newest_first(query: Query, page: Page) -> list[Event]:
    return page.events if query.descending else page.events[::-1]


def cursors(query: Query, page: Page) -> dict[str, str | None]:
    """The cursors of the pages with ``older`` and ``newer`` events, null where there are none."""
    positions = [event.position for event in page.events]
    on = page.examined if page.more else None
    if not query.descending:
        return {"older": _cursor(page, min(positions, default=None)), "newer": _cursor(page, on)}
    above = None if query.after is None else max(positions, default=query.after - 1)
    return {"older": _cursor(page, on), "newer": _cursor(page, above)}


def _line(event: Event, bots: Mapping[str, str]) -> Line:
    data, signal = event.content["data"], event.content["signal"]
    bot_id = (signal or data).get("botId") or data.get("owner")
    name = bots.get(bot_id) if bot_id else None
    return Line(event.kind, event.at, event.id, data, signal, bot_id, name)


def _cursor(page: Page, position: int | None) -> str | None:
    return None if position is None else log_cursor(page.head.epoch, position)
