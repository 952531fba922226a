"""The events that the hub applied last, with the bytes of their versions.

A reader that comes back joins from here: what it has not read, and which topics it sees by then,
is found without a query.
"""

import time
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import NamedTuple

from events.live.frames import Version, event_frame
from events.live.readers import MAX_UNSENT, WHOLE_LOG, Reader, Rule, Topic, View
from events.live.roster import changed
from events.models import Event, Head

KEPT = 2000  # events
QUIET_AFTER = 5  # seconds
BATCH = 200  # events that one query reads
PART = MAX_UNSENT // 2  # bytes


class LiveEvent:
    """An event, and each of its versions, which is encoded once."""

    __slots__ = ("_epoch", "_frames", "at", "event", "position")

    def __init__(self, event: Event, epoch: str) -> None:
        self.event = event
        self.position = event.position
        self.at = event.at.timestamp()
        self._epoch = epoch
        self._frames: dict[Version, bytes] = {}

    def frame(self, version: Version) -> bytes:
        """The same bytes for every reader of a version."""
        if version not in self._frames:
            self._frames[version] = event_frame(self.event, self._epoch, version)
        return self._frames[version]

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
        self._events: deque[LiveEvent] = deque()
        self._of_topic: defaultdict[Topic, deque[LiveEvent]] = defaultdict(deque)
        self._changing: dict[Rule, deque[LiveEvent]] = {}
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
        self._of_topic[live.event.topic].append(live)
        for rule, changing in self._changing.items():
            if rule(live.event):
                changing.append(live)
        if len(self._events) > KEPT:
            self._drop(self._events.popleft())

    def _drop(self, oldest: LiveEvent) -> None:
        self._begin, topic = oldest.position, oldest.event.topic
        self._of_topic[topic].popleft()
        if not self._of_topic[topic]:
            del self._of_topic[topic]
        for changing in self._changing.values():
            if changing and changing[0] is oldest:
                changing.popleft()

    def reaches(self, position: int) -> bool:
        """Whether every event after this position is here."""
        return position >= self._begin

    def since(self, head: Head | None, epoch: str) -> list[Event] | None:
        """The events after this head of the log of ``epoch``. None if they are not all here."""
        if head is None or head.epoch != epoch or not self.reaches(head.position):
            return None
        return [live.event for live in reversed(_after(self._events, head.position))]

    def missed(self, view: View, position: int, topics: tuple[Topic, ...]) -> Missed:
        """What a reader has not read that sees ``topics`` at ``position``: about ``PART`` bytes."""
        found: list[LiveEvent] = []
        size, end = 0, max(self.end, position)
        for live in self._seen(position, topics, view.rule):
            if size >= PART:
                end = found[-1].position
                break
            if live.passes(view):
                found.append(live)
                size += len(live.frame(view.version))
        is_all = end >= self.end
        return Missed(found, end, self._topics_at(end, position, topics, view.rule), is_all)

    def _seen(self, position: int, topics: tuple[Topic, ...], rule: Rule) -> list[LiveEvent]:
        """The events after ``position`` on the topics that a reader sees at their time."""
        since = dict.fromkeys(topics, position)
        found: dict[int, LiveEvent] = {}
        for change in self._changes(rule, position):
            standing = changed(tuple(since), rule(change.event))
            for topic in since.keys() - standing:
                found |= self._between(topic, since.pop(topic), change.position)
            since |= {topic: change.position for topic in standing if topic not in since}
        for topic, begin in since.items():
            found |= self._between(topic, begin, self.end)
        return [found[number] for number in sorted(found)]

    def _between(self, topic: Topic, low: int, high: int) -> dict[int, LiveEvent]:
        """The events of a topic after ``low``, up to ``high``, by position."""
        events = self._events if topic is WHOLE_LOG else self._of_topic.get(topic, deque())
        return {live.position: live for live in _after(events, low) if live.position <= high}

    def _changes(self, rule: Rule, position: int) -> Iterator[LiveEvent]:
        """The events after this position that change what readers see, in order."""
        if rule not in self._changing:
            self._changing[rule] = deque(live for live in self._events if rule(live.event))
        return reversed(_after(self._changing[rule], position))

    def _topics_at(
        self, end: int, position: int, topics: tuple[Topic, ...], rule: Rule
    ) -> tuple[Topic, ...]:
        """What a reader sees at ``end`` that sees ``topics`` at ``position``."""
        for change in self._changes(rule, position):
            if change.position <= end:
                topics = changed(topics, rule(change.event))
        return topics


def _after(events: deque[LiveEvent], position: int) -> list[LiveEvent]:
    """The events after this position, the newest first."""
    return list(takewhile(lambda live: live.position > position, reversed(events)))


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
