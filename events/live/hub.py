"""The hub: reads each new event once a process, and hands it to everybody who sees it.

One thread polls the head of the log while anybody reads, and a little longer. It applies events
singly, in the order of their positions. An event costs as much as it has readers; nobody else is
touched. If the database fails, the readers stay, and the hub goes on from its position.
"""

import logging
import threading
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import cycle
from operator import attrgetter
from typing import NamedTuple

from django.conf import settings
from django.db import DatabaseError, OperationalError, connections
from django.utils import timezone

from events import losses, replica
from events.feed import read_end
from events.http.cursors import log_cursor
from events.http.refusals import CursorLost, RateLimited, Unavailable
from events.kinds import Kind
from events.live import metrics
from events.live.frames import EndReason, Version, end_frame, event_frame, position_frame
from events.live.streams import (
    ALL_TOPICS,
    HEARTBEAT,
    MAX_UNSENT,
    WAIT_FOR_PLACE,
    Credential,
    CredentialKind,
    Reader,
    ReaderSpec,
    Topic,
)
from events.models import Event, Head, Identity
from events.unavailable_reasons import Wait

logger = logging.getLogger(__name__)

POLL_INTERVAL = 0.05  # seconds between two queries of the head
RETRY_INTERVAL = 0.5  # seconds, while the database is down
STARTING = 5  # seconds that a reader waits for the first query
REST = 3  # seconds without use after which the thread ends
CHECK_INTERVAL = 4  # seconds between two checks of all credentials
KEPT = 2000  # events
BATCH = 200  # events that one query reads
PART = MAX_UNSENT // 2  # bytes


# --- Events, and what they change -----------------------------------------------------------------


class Change(NamedTuple):
    """Readers of the topic ``readers_of`` begin, or cease, to see ``topic``.

    ``readers_of`` None with ``opens`` False: all readers of ``topic`` cease to see it.
    """

    topic: str
    opens: bool
    readers_of: str | None = None


def topic_change(event: Event) -> Change | None:
    """Which readers begin or cease to see a card's topic behind this event. None: nobody does."""
    if event.kind not in (Kind.ELECTION_MADE, Kind.ELECTION_WITHDRAWN, Kind.CARD_RETIRED):
        return None
    card_id = event.content["data"].get("cardId")
    if card_id is None:  # an election on a bot
        return None
    if event.kind == Kind.CARD_RETIRED:
        return Change(card_id, opens=False)
    return Change(card_id, opens=event.kind == Kind.ELECTION_MADE, readers_of=event.topic)


def changed(topics: tuple[Topic, ...], change: Change | None) -> tuple[Topic, ...]:
    """The topics of one reader after this change."""
    if change is None or (change.readers_of is not None and change.readers_of not in topics):
        return topics
    topics = tuple(topic for topic in topics if topic != change.topic)
    return (*topics, change.topic) if change.opens else topics


class LiveEvent:
    """An event, each of its versions, which is encoded once, and what it changes."""

    __slots__ = ("_epoch", "_frames", "at", "change", "event", "position", "topic")

    def __init__(self, event: Event, epoch: str) -> None:
        self.event = event
        self.position, self.topic = event.position, event.topic
        self.at = event.at.timestamp()
        self._epoch = epoch
        self.change = topic_change(event)
        self._frames: dict[Version, bytes] = {}

    def frame(self, version: Version) -> bytes:
        """The same bytes for every reader of a version."""
        if version not in self._frames:
            self._frames[version] = event_frame(self.event, self._epoch, version)
        return self._frames[version]

    def passes(self, spec: ReaderSpec) -> bool:
        """Whether the filter of a reader of its topic lets it pass."""
        return spec.matches is None or spec.matches(self.event)

    def give_to(self, reader: Reader) -> None:
        """Delivers the event to a reader of its topic, unless it is filtered out or was read."""
        if reader.position is None or self.position <= reader.position:
            return
        if self.passes(reader.spec):
            reader.deliver(self.frame(reader.spec.version), self.at)


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
    """The last events, without gaps, after ``begin``, up to ``end``. The hub's lock guards it."""

    def __init__(self, begin: int, events: Iterable[LiveEvent] = ()) -> None:
        self._begin = self.end = begin
        self._events: list[LiveEvent] = []
        for live in events:
            self.append(live)

    @property
    def last(self) -> Event | None:
        """The last of these events. None if there are none."""
        return self._events[-1].event if self._events else None

    @property
    def identity(self) -> Identity | None:
        """What tells the event at the end from another one. None if no event is there."""
        last = self.last
        return last.identity if last and last.position == self.end else None

    def cursor(self, epoch: str) -> str:
        """The cursor of the end, in the log of this epoch."""
        return log_cursor(epoch, self.end, self.identity)

    def append(self, live: LiveEvent) -> None:
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

    def missed(self, spec: ReaderSpec, position: int, topics: tuple[Topic, ...]) -> Missed:
        """What a reader has not read that sees ``topics`` at ``position``: about ``PART`` bytes."""
        found: list[LiveEvent] = []
        size, end = 0, max(self.end, position)
        sees_all = ALL_TOPICS in topics
        for live in self._after(position):
            if (sees_all or live.topic in topics) and live.passes(spec):
                found.append(live)
                size += len(live.frame(spec.version))
            topics = changed(topics, live.change)
            if size >= PART:
                end = live.position
                break
        return Missed(found, end, topics, is_all=end >= self.end)

    def _after(self, position: int) -> list[LiveEvent]:
        """The events after this position, in order."""
        return self._events[bisect_right(self._events, position, key=attrgetter("position")) :]


def recall(end: int, epoch: str) -> Recent:
    """The last events of the log up to ``end``. One statement."""
    last = list(Event.objects.filter(position__lte=end).order_by("-position")[:KEPT])
    begin = last[-1].position - 1 if len(last) == KEPT else 0
    recent = Recent(begin, (LiveEvent(event, epoch) for event in reversed(last)))
    recent.end = end
    return recent


# --- The readers: what ends them, what they see, and when they get heartbeats ---------------------


class Credentials:
    """The readers of each credential: a token, or a session. A stream ends with it.

    The log says when a token is revoked, a clock when it expires. Besides, one statement for all
    credentials of a kind looks for those that ended in any other way.
    """

    def __init__(self) -> None:
        self._readers: dict[CredentialKind, dict[str, set[Reader]]] = {}
        self._expiries: dict[Credential, datetime] = {}  # few: desks' tokens and sessions have none

    def add(self, reader: Reader) -> None:
        credential = reader.spec.credential
        self._readers.setdefault(credential.kind, {}).setdefault(credential.id, set()).add(reader)
        if credential.expires_at is not None:
            self._expiries[credential] = credential.expires_at

    def remove(self, reader: Reader) -> None:
        credential = reader.spec.credential
        readers = self._of(credential.kind, credential.id)
        readers.discard(reader)
        if not readers:
            self._readers.get(credential.kind, {}).pop(credential.id, None)
            self._expiries.pop(credential, None)

    def ended_by(self, event: Event) -> Iterator[Reader]:
        """The readers whose credential this event ends."""
        for kind in self._readers:
            yield from self.readers_of(kind, kind.ended_by(event))

    def expired(self, now: datetime) -> Iterator[Reader]:
        """The readers whose credential has expired."""
        for credential, expires_at in self._expiries.items():
            if expires_at <= now:
                yield from self._of(credential.kind, credential.id)

    def ids(self) -> dict[CredentialKind, list[str]]:
        """The ids of all credentials, by kind."""
        return {kind: list(readers) for kind, readers in self._readers.items() if readers}

    def readers_of(self, kind: CredentialKind, ids: Iterable[str]) -> Iterator[Reader]:
        """The readers of these credentials."""
        for credential_id in ids:
            yield from self._of(kind, credential_id)

    def _of(self, kind: CredentialKind, credential_id: str) -> set[Reader]:
        return self._readers.get(kind, {}).get(credential_id, set())


class Topics:
    """The readers of each topic. ``Reader.topics`` holds the same from the reader's side."""

    def __init__(self) -> None:
        self._readers: dict[Topic, set[Reader]] = {}

    def __len__(self) -> int:
        return len(self._readers)

    def show(self, reader: Reader, topics: tuple[Topic, ...]) -> None:
        """Lets a reader see these topics, and no others, from the next event on."""
        for topic in set(reader.topics).difference(topics):
            readers = self._readers[topic]
            readers.discard(reader)
            if not readers:
                del self._readers[topic]
        for topic in topics:
            self._readers.setdefault(topic, set()).add(reader)
        reader.topics = topics

    def readers_of(self, topic: Topic) -> Iterator[Reader]:
        """The readers who see an event of this topic."""
        yield from self._readers.get(topic, ())
        if topic is not ALL_TOPICS:
            yield from self._readers.get(ALL_TOPICS, ())

    def apply(self, change: Change) -> None:
        """Changes what the readers see, from the next event on."""
        for reader in list(self._readers.get(change.readers_of or change.topic, ())):
            self.show(reader, changed(reader.topics, change))


class Roster:
    """The admitted readers. ``seconds`` has those of each second between two heartbeats."""

    def __init__(self) -> None:
        self.topics = Topics()
        self.credentials = Credentials()
        self.beaten_until = 0.0
        self.seconds: list[set[Reader]] = [set() for _ in range(HEARTBEAT)]
        self._next_second = cycle(range(HEARTBEAT))
        self._streams = Counter[str]()  # how many are open, by owner

    def __len__(self) -> int:
        return sum(map(len, self.seconds))

    def add(self, reader: Reader) -> None:
        """Adds a reader. Raises ``RateLimited`` if its owner has ``LIMIT_STREAMS`` streams."""
        limit, owner = settings.LIMIT_STREAMS, reader.spec.owner
        if reader.counts and limit is not None and self._streams[owner] >= limit:
            raise RateLimited(WAIT_FOR_PLACE)
        self._streams[owner] += reader.counts
        reader.second = next(self._next_second)
        self.seconds[reader.second].add(reader)
        self.credentials.add(reader)
        metrics.READERS.inc()

    def knows(self, reader: Reader) -> bool:
        return reader in self.seconds[reader.second]

    def remove(self, reader: Reader) -> None:
        """Forgets a reader. Does nothing if it is not here."""
        if not self.knows(reader):
            return
        self.seconds[reader.second].discard(reader)
        self._streams[reader.spec.owner] -= reader.counts
        if not self._streams[reader.spec.owner]:
            del self._streams[reader.spec.owner]
        self.credentials.remove(reader)
        self.topics.show(reader, ())
        metrics.READERS.dec()

    def everybody(self) -> list[Reader]:
        return [reader for readers in self.seconds for reader in readers]

    def end(self, readers: Iterable[Reader], reason: EndReason | None = None) -> None:
        """Ends readers for this reason; None for the one of their kind of credential."""
        for reader in list(readers):
            reader.end(end_frame(reason or reader.spec.credential.kind.end_reason))
            self.remove(reader)

    def beat(self, cursor: str, position: int) -> None:
        """Gives heartbeats with this cursor to the readers of every second that has passed.

        One that still reads the log gets none: it gets pages.
        """
        now = time.monotonic() // 1
        frame = position_frame(cursor)
        for second in range(int(max(self.beaten_until, now - HEARTBEAT)), int(now)):
            for reader in self.seconds[second % HEARTBEAT]:
                if reader.position is not None and reader.position <= position:
                    reader.beat(frame)
        self.beaten_until = now


# --- The hub --------------------------------------------------------------------------------------


class Hub:
    """The readers of this process. Every method may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._started = threading.Condition(self._lock)  # whether the thread has read the log
        self._thread: threading.Thread | None = None
        self._is_ready = False
        self._roster = Roster()
        self._recent = Recent(0)
        self._checked_at = 0.0
        self._rests_at = 0.0
        self.is_stopping = False
        self.epoch = ""

    @property
    def position(self) -> int:
        """How far it has applied the log."""
        return self._recent.end

    @property
    def readers(self) -> int:
        """The number of admitted readers."""
        return len(self._roster)

    def admit(self, reader: Reader) -> str:
        """Takes a reader in. From now on it ends with its credential.

        Returns the epoch of the log that it follows from now on. It ends with that log, too.

        Raises ``RateLimited`` beyond ``LIMIT_STREAMS``, ``Unavailable`` during a stop, and
        ``OperationalError`` if the log cannot be read.
        """
        with self._lock:
            if self.is_stopping:
                raise Unavailable(Wait.READERS)
            self._roster.add(reader)
            self._start()
            if not self._started.wait_for(lambda: self._is_ready or not self._thread, STARTING):
                logger.warning("The hub did not read the log in time.")
            if not self._is_ready:
                self.dismiss(reader)
                raise OperationalError("The log cannot be read.")
            epoch, since = self.epoch, self._recent.since(reader.spec.since, self.epoch)
        # The hub may have applied the end of the credential before it knew the reader.
        if reader.spec.credential.has_ended(since):
            with self._lock:
                self._roster.end([reader])
        return epoch

    @property
    def head(self) -> Head | None:
        """The head of the log a moment ago. None: not known."""
        with self._lock:
            return Head(position=self.position, epoch=self.epoch) if self._is_ready else None

    def reaches(self, position: int) -> bool:
        """Whether the hub still has every event after this position."""
        return self._recent.reaches(position)

    def attach(self, reader: Reader, position: int, topics: tuple[Topic, ...]) -> Missed | None:
        """Delivers to the reader what comes after ``position``, where it sees ``topics``.

        If that is too much at once, returns its first part and delivers nothing. Returns None if
        the hub no longer has every event after that position: the reader must first read on in the
        log. A reader that has ended meanwhile gets nothing.
        """
        with self._lock:
            if not self._recent.reaches(position):
                return None
            missed = self._recent.missed(reader.spec, position, topics)
            if missed.is_all and self.knows(reader):
                reader.position = position
                self._roster.topics.show(reader, missed.topics)
                for live in missed.events:
                    live.give_to(reader)
            return missed

    def dismiss(self, reader: Reader) -> None:
        """Forgets a reader. Does nothing if the hub does not know it."""
        with self._lock:
            self._roster.remove(reader)

    def knows(self, reader: Reader) -> bool:
        """Whether the reader is admitted, and neither ended nor dismissed."""
        return self._roster.knows(reader)

    def stop(self, seconds: float) -> None:
        """Ends all readers, spread over ``seconds``, and takes no new ones. It takes no lock.

        A thread of its own ends them, because the hub's may wait for the database.
        """
        self.is_stopping = True
        threading.Thread(target=self._end_all, args=(seconds,), daemon=True).start()

    def _end_all(self, seconds: float) -> None:
        began = time.monotonic()
        for number, readers in enumerate(self._roster.seconds, start=1):
            with self._lock:
                self._roster.end(readers, EndReason.RESTARTING)
            # On a busy machine each pause lasts longer, and all of them together do not.
            time.sleep(max(0, began + number * seconds / HEARTBEAT - time.monotonic()))

    def _start(self) -> None:
        if self._thread is None:
            self._is_ready = False
            thread = threading.Thread(target=self._run, name="log-hub", daemon=True)
            thread.start()  # raises if the process may have no more threads
            self._thread = thread

    def _run(self) -> None:
        try:
            while self._is_used():
                time.sleep(self._look_for_events())
        except Exception:
            logger.exception("The hub failed. Its readers come back by their cursors.")
        finally:
            connections.close_all()
            with self._lock:
                if self._thread is threading.current_thread():  # an error of ours ended it
                    self._thread, self._is_ready = None, False
                    self._roster.end(self._roster.everybody(), EndReason.RESTARTING)
                    self._started.notify_all()

    def _is_used(self) -> bool:
        with self._lock:
            if self._thread is not threading.current_thread():
                return False
            now = time.monotonic()
            if self.readers:
                self._rests_at = now + REST
            elif now >= self._rests_at:
                self._thread, self._is_ready = None, False
            return self._thread is not None

    def _look_for_events(self) -> float:
        """One look at the log and at the clock; returns the seconds until the next one."""
        pause = POLL_INTERVAL
        try:
            self._poll()
            self._check_credentials()
        except DatabaseError as error:
            logger.warning("The hub cannot read the log: %s", type(error).__name__)
            connections.close_all()
            pause = RETRY_INTERVAL
        with self._lock:
            if not self._is_ready:  # it never read the log: whoever asks next tries again
                self._thread = None
                self._started.notify_all()
            self._roster.end(self._roster.credentials.expired(timezone.now()))
            self._roster.beat(self._recent.cursor(self.epoch), self.position)
        metrics.TOPICS.set(len(self._roster.topics))
        return pause

    def _poll(self) -> None:
        head, there = read_end(self.position)
        if self._is_ready:
            replica.require(self.position, self.epoch, head)
        is_another = head.epoch != self.epoch or head.position < self.position
        if not self._is_ready or is_another or self._has_lost_its_end(there):
            self._begin(head)
        while self.position < head.position:
            events = Event.objects.filter(position__gt=self.position).order_by("position")[:BATCH]
            for event in events:
                self._apply(event)
            if not events:  # positions without events
                with self._lock:
                    self._recent = Recent(head.position)
        with self._lock:
            self._is_ready = True
            self._started.notify_all()

    def _has_lost_its_end(self, there: Identity | None) -> bool:
        """Whether the last event that was applied is lost. ``there`` is at its position now."""
        expected = self._recent.identity
        if expected is None or there == expected:
            return False
        try:
            replica.find(self._recent.cursor(self.epoch))
        except CursorLost:
            return True
        return False

    def _begin(self, head: Head) -> None:
        """Begins at the head of this log. Readers of another one are ended."""
        recent = recall(head.position, head.epoch)
        with self._lock:
            if self._is_ready:
                self._roster.end(self._roster.everybody(), EndReason.CURSOR_LOST)
            self.epoch, self._recent = head.epoch, recent
            self._roster.beaten_until = time.monotonic() // 1
        if recent.last:
            losses.memory.note(recent.last, head.epoch)

    def _apply(self, event: Event) -> None:
        with self._lock:
            self._roster.end(self._roster.credentials.expired(event.at))
            self._roster.end(self._roster.credentials.ended_by(event))
            live = LiveEvent(event, self.epoch)
            for reader in self._roster.topics.readers_of(live.topic):
                live.give_to(reader)
            if live.change is not None:
                self._roster.topics.apply(live.change)
            self._recent.append(live)
        losses.memory.note(event, self.epoch)

    def _check_credentials(self) -> None:
        if time.monotonic() < self._checked_at + CHECK_INTERVAL:
            return
        self._checked_at = time.monotonic()
        with self._lock:
            kinds = self._roster.credentials.ids()
        for kind, ids in kinds.items():
            ended = kind.find_ended(ids)
            with self._lock:
                self._roster.end(self._roster.credentials.readers_of(kind, ended))


hub = Hub()
