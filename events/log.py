"""A turn at the log: the only way to write events.

``with log.turn(actor=…) as turn`` opens a transaction. Its first statement locks the counter row
until the commit, and reads the last position from it. So positions are in commit order and have no
gaps, on PostgreSQL and on SQLite. Three rules keep this true:

* Nothing is locked or written before the turn, and only SQL runs inside it.
* Reads inside a turn start after the lock is taken. At READ COMMITTED they see everything that
  earlier turns committed.
* Events are inserted together, last before the commit, and with them the counter is set to the
  position of the last.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from typing import Any

from django.db import OperationalError, connection, transaction
from django.utils import timezone

from events import confirmation, losses, tracing
from events.actors import Actor
from events.kinds import Kind
from events.models import Event
from events.statements import (
    LOCK_COUNTER,
    SET_COUNTER,
    adapt_datetime,
    execute,
    fetch_one,
    parse_datetime,
)
from events.times import truncate_to_milliseconds
from events.unavailable_reasons import Wait
from events.writer_queue import WaitEnded, wait_for_turn

MOST_LINKS = 64  # of a span: as many as the signals of a batch

_thread = threading.local()


class Turn:
    """A writer's exclusive use of the log, from its first position to the commit.

    ``position`` is the position of the next event. Nobody else can take it: this turn holds the
    lock. ``at`` is the time of all events of the turn, and never earlier than that of an
    event before. Both are known before anything is written, so other rows can store the position.
    Compare times of expiry with ``at``. ``epoch`` is the log's.
    ``actor`` is who causes the events; None if the caller is not authenticated.
    ``before_commit`` is a list of functions that write their rows last in the transaction.
    """

    def __init__(self, actor: Actor | None, *, although_halted: bool = False) -> None:
        self.actor = actor
        self.before_commit: list[Callable[[], None]] = []
        row = fetch_one(LOCK_COUNTER[connection.vendor], {"although_halted": although_halted})
        if row is None:
            raise WaitEnded(Wait.NEW_EPOCH)
        self._counted, self._last_at, self.epoch = row
        self.position = self._first = self._counted + 1
        self._last_event: Event | None = None
        self._appended: list[Event] = []

    @cached_property
    def at(self) -> datetime:
        """The clock is read at the first use.

        Use it after the signals of the turn are taken: then none of them was sent later.
        """
        return max(parse_datetime(self._last_at), truncate_to_milliseconds(timezone.now()))

    def append(self, kind: Kind, **content: Any) -> Event:
        """Appends the next event and returns it. For ``content`` see ``build_event``.

        All appended events are inserted at the end of the turn, in one statement.
        """
        event = self.build_event(kind, **content)
        self._appended.append(event)
        self.mark_written(event)
        return event

    def build_event(
        self,
        kind: Kind,
        *,
        topic: str | None,
        data: Mapping[str, object],
        platform_data: Mapping[str, object] | None = None,
        signal: Mapping[str, Any] | None = None,
        platform_signal: Mapping[str, Any] | None = None,
    ) -> Event:
        """The event of this position, without writing it.

        Every reader of ``topic`` sees ``data`` and ``signal``. The platform sees ``platform_data``
        in addition to ``data``, and ``platform_signal`` instead of ``signal``.
        """
        return Event(
            position=self.position,
            kind=kind,
            at=self.at,
            actor_type=self.actor and self.actor.type,
            actor_id=self.actor and self.actor.id,
            topic=topic,
            signal_id=(platform_signal or signal or {}).get("id"),
            content={"signal": signal, "data": data},
            platform_content=(
                {"signal": platform_signal or signal, "data": {**data, **(platform_data or {})}}
                if platform_data or platform_signal
                else None
            ),
        )

    def mark_written(self, event: Event) -> None:
        """Takes the position for an event that the caller writes with its own statement.

        Raises ``ValueError`` if the event has another position than the turn.
        """
        if event.position != self.position:
            raise ValueError(f"{event} does not have the turn's position {self.position}.")
        self.position += 1
        self._last_event = event

    def take_counter_parameters(self) -> Mapping[str, object]:
        """The parameters of ``SET_COUNTER``, for a caller that executes it with its last events.

        The turn then does not set the counter itself, unless more events follow.
        """
        self._counted = self.position - 1
        return {"position": self._counted, "at": adapt_datetime(self.at)}

    def _close(self) -> None:
        """Inserts the appended events, and sets the counter to the last position in use."""
        Event.objects.bulk_create(self._appended)
        if self._counted != self.position - 1:
            execute(SET_COUNTER, self.take_counter_parameters())

    def _remember(self) -> None:
        """Remembers the last event of a turn that is committed."""
        if self._last_event:
            losses.memory.note(self._last_event, self.epoch)

    def _describe(self, span: tracing.Span) -> None:
        """Notes in the span what was committed, and links it to the traces of the events."""
        span.note({"signals.events": self.position - self._first})
        for position in range(self._first, self.position)[:MOST_LINKS]:
            span.link(position, self.epoch)


@contextmanager
def turn(*, actor: Actor | None, although_halted: bool = False) -> Iterator[Turn]:
    """A turn at the log. Inside another turn it joins that turn, so that actions compose.

    ``actor`` is who causes the events; None if the caller is not authenticated. An action inside
    another one has the same actor.
    ``although_halted`` takes a turn also if the log is halted.

    Raises ``OperationalError`` if the lock is not free in time or the log is halted, and
    ``ValueError`` for another actor inside a turn. Nothing is written then. Raises
    ``OperationalError`` too if the commit is not confirmed in time; it may have been written then.
    """
    current_turn: Turn | None = getattr(_thread, "turn", None)
    if current_turn is not None:
        if actor != current_turn.actor:
            raise ValueError(f"The actor of the turn is {current_turn.actor}, not {actor}.")
        yield current_turn
        return
    confirmation.require()
    with tracing.span("turn") as span, wait_for_turn(), transaction.atomic(durable=True):
        try:
            _thread.turn = current = Turn(actor, although_halted=although_halted)
        except OperationalError:
            confirmation.doubted.set()
            raise
        span.describe = current._describe
        transaction.on_commit(current._remember)
        try:
            yield current
            for callback in current.before_commit:
                callback()
            current._close()
        finally:
            _thread.turn = None
