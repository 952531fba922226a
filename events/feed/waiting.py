"""Long polling: readers wait for events that concern them, with one small query for all of them.

A waiting reader holds a thread, but no transaction and no database connection. Each process has one
watcher thread, which polls the log while any reader waits. It wakes only the readers of the topics
that have new events, so a busy log costs a quiet reader nothing.
"""

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from django.conf import settings
from django.db import DatabaseError, connection
from django.db.models import Max

from events.feed.metrics import WAITING_READERS
from events.feed.reading import MAX_POSITION, Span, Visibility, Window
from events.models import Event, Head

POLL_INTERVAL = 0.1  # seconds between two queries of the log
ANY_TOPIC = None  # the topic of a span that covers the whole log

# Topic, kind and highest position of the new events.
NewEvents = Sequence[tuple[str | None, str, int]]


@dataclass(eq=False, slots=True)
class Waiter:
    """A reader that has seen the log up to ``position`` and waits for the next visible event."""

    position: int
    topics: frozenset[str | None]
    kinds: frozenset[str]
    woken: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def of(cls, visibility: Visibility, kinds: Sequence[str], position: int) -> "Waiter":
        """A waiter for these kinds, in the topics whose spans are still open."""
        spans: Sequence[Span] = visibility(Window(position + 1, MAX_POSITION, descending=False))
        topics = frozenset(span.topic for span in spans if span.closed == MAX_POSITION)
        return cls(position, topics, frozenset(kinds))

    def notify(self, new_events: NewEvents, head: int) -> None:
        """Wakes the reader if a new event may concern it. Sets its position to the head."""
        if any(
            position > self.position and self._concerns(topic, kind)
            for topic, kind, position in new_events
        ):
            self.woken.set()
        self.position = head

    def _concerns(self, topic: str | None, kind: str) -> bool:
        """Whether the reader may be interested in an event of this topic and kind.

        A desk is woken by every kind, because an election can open another topic to it.
        """
        if ANY_TOPIC in self.topics:
            return not self.kinds or kind in self.kinds
        return topic in self.topics


class Reader(NamedTuple):
    """The owner of a seat: a token's public id, and whether it is a platform token."""

    public_id: str
    is_platform: bool


class WaitingRoom:
    """The waiting readers of this process. The watcher thread runs while any reader waits."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seats: Counter[Reader] = Counter()
        self._waiters: set[Waiter] = set()
        self._is_watching = False

    @contextmanager
    def seat(self, reader: Reader) -> Iterator[bool]:
        """Takes a seat while the block runs. Yields False if no seat is free for this reader.

        A token has ``WAITING_READERS_PER_TOKEN`` seats and a process has ``WAITING_READERS``. Desks
        can take half of them, so that customers cannot keep the engine from waiting.
        """
        with self._lock:
            taken = self._has_free_seat(reader)
            self._seats[reader] += taken
        try:
            yield taken
        finally:
            with self._lock:
                self._seats[reader] -= taken
                self._seats += Counter()  # removes readers without a seat

    def _has_free_seat(self, reader: Reader) -> bool:
        taken_by_desks = sum(
            seats for (_, is_platform), seats in self._seats.items() if not is_platform
        )
        return (
            self._seats[reader] < settings.WAITING_READERS_PER_TOKEN
            and self._seats.total() < settings.WAITING_READERS
            and (reader.is_platform or taken_by_desks < settings.WAITING_READERS // 2)
        )

    def wait(self, waiter: Waiter, seconds: float) -> bool:
        """Waits until the waiter is woken. Returns False after ``seconds``."""
        connection.close()
        WAITING_READERS.inc()
        with self._lock:
            self._waiters.add(waiter)
            if not self._is_watching:
                self._is_watching = True
                threading.Thread(target=self._watch, name="log-watcher", daemon=True).start()
        try:
            return waiter.woken.wait(seconds)
        finally:
            WAITING_READERS.dec()
            with self._lock:
                self._waiters.discard(waiter)

    def _watch(self) -> None:
        """Polls the log while any reader waits. On a database error it wakes all readers."""
        try:
            while waiters := self._current_waiters():
                _notify(waiters)
                time.sleep(POLL_INTERVAL)
        except DatabaseError:
            with self._lock:  # each reader now reads for itself, and answers with the error
                self._is_watching = False
                for waiter in self._waiters:
                    waiter.woken.set()
        finally:
            connection.close()

    def _current_waiters(self) -> list[Waiter]:
        with self._lock:
            self._is_watching = bool(self._waiters)
            return list(self._waiters)


def _notify(waiters: Sequence[Waiter]) -> None:
    """Notifies the waiters of all events since the lowest position among them."""
    seen = min(waiter.position for waiter in waiters)
    head = Head.objects.values_list("position", flat=True).get()
    if head <= seen:
        return
    fresh = Event.objects.filter(position__gt=seen, position__lte=head).order_by()
    new_events = list(fresh.values_list("topic", "kind").annotate(newest=Max("position")))
    for waiter in waiters:
        waiter.notify(new_events, head)


waiting_room = WaitingRoom()
