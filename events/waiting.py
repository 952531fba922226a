"""Readers that wait for what concerns them, at the price of one small query for all together.

A waiting reader holds a thread and nothing else: no transaction and no database connection. One
watcher for each process looks at the log while anybody waits, and wakes only those whose topics
something was written to: a busy log costs a quiet reader nothing.
"""

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from django.conf import settings
from django.db import DatabaseError, connection
from django.db.models import Max

from events.feed import ENDLESS, Span, View, Window
from events.metrics import WAITING_READERS
from events.models import Event, Head

LOOK_AGAIN = 0.1  # seconds between two looks at the log
WHOLE_LOG = None  # the topic of a span that shows everything

# The newest position of each topic and kind that something was written to.
News = Sequence[tuple[str | None, str, int]]


@dataclass(eq=False, slots=True)
class Waiter:
    """A reader who has seen the log up to ``position`` and waits for what its view shows next."""

    position: int
    topics: frozenset[str | None]
    kinds: frozenset[str]
    woken: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def of(cls, view: View, kinds: Sequence[str], position: int) -> "Waiter":
        """Who waits for these kinds in the topics that stand open in a view."""
        spans: Sequence[Span] = view(Window(position + 1, ENDLESS, descending=False))
        topics = frozenset(span.topic for span in spans if span.closed == ENDLESS)
        return cls(position, topics, frozenset(kinds))

    def hear(self, news: News, head: int) -> None:
        """Wakes up if something new may concern the reader, and has seen the log up to the head."""
        if any(
            position > self.position and self._minds(topic, kind) for topic, kind, position in news
        ):
            self.woken.set()
        self.position = head

    def _minds(self, topic: str | None, kind: str) -> bool:
        """Of a topic every kind matters: an election may open further topics to the reader."""
        if WHOLE_LOG in self.topics:
            return not self.kinds or kind in self.kinds
        return topic in self.topics


class WaitingRoom:
    """Who waits in this process; its watcher lives as long as anybody does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seats: Counter[str] = Counter()
        self._waiters: set[Waiter] = set()
        self._watched = False

    @contextmanager
    def seat(self, reader: str) -> Iterator[bool]:
        """A place to wait, true if there is one: so many a reader, and so many a process."""
        with self._lock:
            taken = self._seats[reader] < settings.WAITING_READERS_PER_TOKEN and (
                self._seats.total() < settings.WAITING_READERS
            )
            self._seats[reader] += taken
        try:
            yield taken
        finally:
            with self._lock:
                self._seats[reader] -= taken
                self._seats += Counter()  # forgets the names that nobody sits under

    def wait(self, waiter: Waiter, seconds: float) -> bool:
        """Waits until something concerns the waiter; false when the time is over first."""
        connection.close()
        WAITING_READERS.inc()
        with self._lock:
            self._waiters.add(waiter)
            if not self._watched:
                self._watched = True
                threading.Thread(target=self._watch, name="log-watcher", daemon=True).start()
        try:
            return waiter.woken.wait(seconds)
        finally:
            WAITING_READERS.dec()
            with self._lock:
                self._waiters.discard(waiter)

    def _watch(self) -> None:
        """Looks at the log while anybody waits; without a database it lets everybody go."""
        try:
            while waiters := self._who_waits():
                _tell(waiters)
                time.sleep(LOOK_AGAIN)
        except DatabaseError:
            with self._lock:  # whoever waited reads for itself now, and answers what it finds
                self._watched = False
                for waiter in self._waiters:
                    waiter.woken.set()
        finally:
            connection.close()

    def _who_waits(self) -> list[Waiter]:
        with self._lock:
            self._watched = bool(self._waiters)
            return list(self._waiters)


def _tell(waiters: Sequence[Waiter]) -> None:
    """Tells the waiters what was written since the one who has seen the least."""
    seen = min(waiter.position for waiter in waiters)
    head = Head.objects.values_list("position", flat=True).get()
    if head <= seen:
        return
    fresh = Event.objects.filter(position__gt=seen, position__lte=head).order_by()
    news = list(fresh.values_list("topic", "kind").annotate(newest=Max("position")))
    for waiter in waiters:
        waiter.hear(news, head)


room = WaitingRoom()
