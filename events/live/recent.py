"""The events that the hub applied last, with the bytes of their versions.

A reader that comes back joins from here: what it has not read, and which topics it sees by then,
is found without a query.
"""

import time
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple

from events.live.frames import Version, event_frame
from events.live.readers import MAX_UNSENT, WHOLE_LOG, Change, Reader, Rule, Topic, View
from events.live.roster import changed
from events.models import Event, Head

KEPT = 2000  # events
QUIET_AFTER = 5  # seconds
BATCH = 200  # events that one query reads
PART = MAX_UNSENT // 2  # bytes


class LiveEvent:
    """An event, each of its versions, which is encoded once, and what it changes."""

    __slots__ = ("_changes", "_epoch", "_frames", "at", "event", "position", "topic")

    def __init__(self, event: Event, epoch: str) -> None:
        self.event = event
        self.position, self.topic = event.position, event.topic
        self.at = event.at.timestamp()
        self._epoch = epoch
        self._frames: dict[Version, bytes] = {}
        self._changes: dict[Rule, Sequence[Change]] = {}

    def frame(self, version: Version) -> bytes:
        """The same bytes for every reader of a version."""
        if version not in self._frames:
            self._frames[version] = event_frame(self.event, self._epoch, version)
        return self._frames[version]

    def changes(self, rule: Rule) -> Sequence[Change]:
        """What readers with this rule begin or cease to see behind the event."""
        if rule not in self._changes:
            self._changes[rule] = tuple(rule(self.event))
        return self._changes[rule]

    def passes(self, view: View) -> bool:
        """Whether the filter of a reader of its topic lets it pass."""
        return view.matches is None or view.matches(self.event)

    def give_to(self, reader: Reader) -> None:
        """Delivers the event to a reader of its topic, unless it is filtered out or was read."""
        if reader.position is None or self.position <= reader.position:
            return
        if self.passes(reader.view):
            reader.deliver(self.frame(reader.view.version), self.at)


class Missed(NamedTuple):
    """Events that a reader has not read: all of them, or the first.

    ``position`` is how far that is, and ``topics`` are those that the reader sees there.
    """

    events: list[LiveEvent]
    position: int
    topics: tuple[Topic, ...]
    is_all: bool

    def frames(self, version: Version) -> bytes:
        return b"".join(live.frame(version) for live in self.events)


class Recent:
    """The last events, without gaps, after ``begin``, up to ``end``. The hub's lock guards it.

    ``is_recalled``: it began with those that the log had by then.
    """

    def __init__(self, begin: int, events: Iterable[LiveEvent] = ()) -> None:
        self._begin = self.end = begin
        self.is_recalled = False
        self._moved_at = time.monotonic()
        self._events: list[LiveEvent] = []
        for live in events:
            self.append(live)

    @property
    def is_quiet(self) -> bool:
        """Whether nothing came for a while."""
        return time.monotonic() > self._moved_at + QUIET_AFTER

    def append(self, live: LiveEvent) -> None:
        self._moved_at = time.monotonic()
        self.end = live.position
        self._events.append(live)
        if len(self._events) > KEPT:
            self._begin = self._events.pop(0).position

    def reaches(self, position: int) -> bool:
        """Whether every event after this position is here."""
        return position >= self._begin

    def since(self, head: Head | None, epoch: str) -> list[Event] | None:
        """The events after this head of the log of ``epoch``. None if they are not all here."""
        if head is None or head.epoch != epoch or not self.reaches(head.position):
            return None
        return [live.event for live in self._after(head.position)]

    def missed(self, view: View, position: int, topics: tuple[Topic, ...]) -> Missed:
        """What a reader has not read that sees ``topics`` at ``position``: about ``PART`` bytes."""
        found: list[LiveEvent] = []
        size, end = 0, max(self.end, position)
        sees_all = WHOLE_LOG in topics
        for live in self._after(position):
            if (sees_all or live.topic in topics) and live.passes(view):
                found.append(live)
                size += len(live.frame(view.version))
            if changes := live.changes(view.rule):
                topics = changed(topics, changes)
            if size >= PART:
                end = live.position
                break
        return Missed(found, end, topics, is_all=end >= self.end)

    def _after(self, position: int) -> list[LiveEvent]:
        """The events after this position, in order."""
        return self._events[bisect_right(self._events, position, key=attrgetter("position")) :]


def read_after(position: int) -> list[Event]:
    """The next events of the log after this position. One statement."""
    return list(Event.objects.filter(position__gt=position).order_by("position")[:BATCH])


def recall(end: int, epoch: str) -> Recent:
    """The last events of the log up to ``end``. One statement."""
    last = list(Event.objects.filter(position__lte=end).order_by("-position")[:KEPT])
    begin = last[-1].position - 1 if len(last) == KEPT else 0
    recent = Recent(begin, (LiveEvent(event, epoch) for event in reversed(last)))
    recent.end, recent.is_recalled = end, True
    return recent
