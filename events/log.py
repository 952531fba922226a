"""The only way to write: a turn at the log.

``with log.turn() as turn`` opens a transaction whose first statement takes the next position from
the counter row. That row stays locked until the commit, so the order of positions *is* the order
of commits, without gaps, on PostgreSQL and SQLite alike. Three rules keep it so:

* nothing is locked or written before it, and nothing but SQL stands inside it;
* what is read inside was committed by whoever had the lock before (at READ COMMITTED a statement
  sees what was committed when it began, and the reads begin after the lock is had);
* a position that no event took goes back before the commit, so that none is ever missing.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils import timezone

from events.kinds import Kind
from events.models import Event
from events.queue import turn_in_queue
from events.statements import (
    GIVE_POSITION_BACK,
    INSERT_EVENT,
    TAKE_POSITIONS,
    execute,
    fetch,
    parameters,
)
from events.times import to_millisecond

_here = threading.local()


@dataclass(frozen=True, slots=True)
class Entry:
    """One of many events that are appended together: what every reader of ``topic`` is shown."""

    kind: Kind
    topic: str | None
    data: dict[str, Any]


class Turn:
    """One writer's hold of the log, from its first position to the commit.

    ``position`` is the one that the next event gets and ``at`` is the time of all its events: both
    are known before anything is written, so that rows can name the position that made them.
    """

    def __init__(self) -> None:
        self.position = _take_positions(1)
        self.at: datetime = to_millisecond(timezone.now())
        self._taken = False

    def append(self, kind: Kind, **said: Any) -> Event:
        """Writes the next event and returns it; ``said`` is what ``event`` takes."""
        self.next_position()
        event = self.event(kind, **said)
        execute(INSERT_EVENT, parameters(event))
        self.wrote(event)
        return event

    def event(
        self,
        kind: Kind,
        *,
        topic: str | None,
        data: dict[str, Any],
        platform_data: dict[str, Any] | None = None,
        signal: dict[str, Any] | None = None,
        platform_signal: dict[str, Any] | None = None,
    ) -> Event:
        """The event that this position is for, not written yet.

        ``data`` and ``signal`` are what every reader of ``topic`` is shown. ``platform_data`` is
        what the platform sees beside ``data``; ``platform_signal`` is what it sees instead of
        ``signal``.
        """
        return Event(
            position=self.position,
            kind=kind,
            at=self.at,
            topic=topic,
            signal_id=(platform_signal or signal or {}).get("id"),
            content={"signal": signal, "data": data},
            platform_content=(
                {"signal": platform_signal or signal, "data": {**data, **(platform_data or {})}}
                if platform_data or platform_signal
                else None
            ),
        )

    def wrote(self, event: Event) -> None:
        """Whoever wrote the event by a statement of their own says so: its position is used."""
        assert event.position == self.position
        self._taken = True

    def append_many(self, entries: Sequence[Entry]) -> None:
        """Writes events at consecutive positions, of which the first is ``next_position()``.

        One statement takes all the positions, so rows that name them are known beforehand too.
        """
        if not entries:
            return
        first = self.next_position()
        self.position = _take_positions(len(entries) - 1)
        self._taken = True
        Event.objects.bulk_create(
            Event(
                position=first + index,
                kind=entry.kind,
                at=self.at,
                topic=entry.topic,
                content={"signal": None, "data": entry.data},
            )
            for index, entry in enumerate(entries)
        )

    def next_position(self) -> int:
        """The position of the next event: taken from the counter when the last one is used."""
        if self._taken:
            self.position = _take_positions(1)
            self._taken = False
        return self.position

    def _close(self) -> None:
        if not self._taken:
            execute(GIVE_POSITION_BACK)


@contextmanager
def turn() -> Iterator[Turn]:
    """A turn at the log; inside another one, a part of it, so that actions compose.

    Raises ``OperationalError`` when the lock is not had in time: nothing has been written then.
    """
    under_way: Turn | None = getattr(_here, "turn", None)
    if under_way is not None:
        yield under_way
        return
    with turn_in_queue(), transaction.atomic(durable=True):
        _here.turn = Turn()
        try:
            yield _here.turn
            _here.turn._close()
        finally:
            _here.turn = None


def _take_positions(count: int) -> int:
    """Takes so many positions from the counter and returns the last one."""
    return int(fetch(TAKE_POSITIONS, [count])[0])
