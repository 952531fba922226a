"""Streams that are open, and their limits (contract, section 4, streams).

A reader is the hub's side of a stream: what it may see, what it asked for, and where its bytes go.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from events.live import metrics
from events.live.frames import EndReason, Version
from events.models import Event, Head

Topic = str | None
ALL_TOPICS = None  # the topic of a reader of all topics. Nobody else reads events without a topic.
HEARTBEAT = 15  # seconds between two heartbeats of a reader
WAIT_FOR_PLACE = 15  # seconds after which an owner with too many streams may try again
# Bytes that may wait for a reader. One that leaves more untaken is cut; it resumes by its cursor.
MAX_UNSENT = 64 * 1024


class CredentialKind(Protocol):
    """Tokens, or sessions: how the hub learns that one ended."""

    end_reason: EndReason
    # Whether the log has an event of each end that is not an expiry, as far as the service itself
    # ends a credential.
    is_recorded: bool

    def ended_by(self, event: Event) -> Iterable[str]:
        """The ids that this event of the log ends."""

    def find_ended(self, ids: Collection[str]) -> Collection[str]:
        """Those of these ids that are no longer valid. A statement or two."""


class Credential(NamedTuple):
    """What a reader presented. ``expires_at`` None: it does not expire by itself."""

    kind: CredentialKind
    id: str
    expires_at: datetime | None

    def has_ended(self, events: Iterable[Event] | None) -> bool:
        """Whether it has ended since it was read.

        ``events`` are those of the log since then; None: unknown, which takes a statement.
        """
        if events is None or not self.kind.is_recorded:
            return bool(self.kind.find_ended([self.id]))
        return any(self.id in self.kind.ended_by(event) for event in events)


@dataclass(frozen=True, slots=True)
class ReaderSpec:
    """What a reader may see of the log, and what it asked for.

    ``credential`` is what the reader presented: the stream ends with it. ``owner`` is whose streams
    are counted together: a desk, a platform token or a member of staff. ``matches`` is the reader's
    filter; None lets every event pass. ``since`` is the head of the log as the hub knew it before
    the credential was read; None: it knew none.
    """

    credential: Credential
    owner: str
    is_platform: bool
    version: Version
    matches: Callable[[Event], bool] | None = None
    since: Head | None = None


class Reader:
    """One open stream: what it may see, and the frames that wait to be written to it.

    The hub calls ``deliver``, ``beat`` and ``end`` under its lock, in the order in which the bytes
    belong. Whoever writes the stream takes what waits with ``waiting``. A subclass defines how the
    writer is woken, and how the connection of a client that takes too little is cut.
    """

    counts = True  # whether ``LIMIT_STREAMS`` counts it
    # ``position`` is where the hub took over: it delivers later events. None: it has not yet.
    # ``second`` is that, of those between two heartbeats, in which the reader gets its own.
    __slots__ = (
        *("_at", "_frames", "_is_over", "_lock", "_unsent"),
        *("position", "second", "topics", "spec"),
    )

    def __init__(self, spec: ReaderSpec) -> None:
        self.spec = spec
        self.position: int | None = None
        self.topics: tuple[Topic, ...] = ()
        self.second = 0
        self._is_over = False  # nothing comes after the frames that wait
        self._lock = threading.Lock()
        self._frames: list[bytes] = []
        self._unsent = 0
        self._at = 0.0  # the time of the oldest event among the frames

    def deliver(self, frame: bytes, at: float) -> None:
        """Takes an event's frame. ``at`` is the event's time, in Unix seconds."""
        self._put(frame, at)

    def beat(self, frame: bytes) -> None:
        """Takes a heartbeat, unless other frames wait: they say as much."""
        if not self._frames:
            self._put(frame)

    def end(self, frame: bytes) -> None:
        """Takes the last frame."""
        self._put(frame, is_last=True)

    def waiting(self) -> tuple[bytes, bool]:
        """Takes the frames that wait, to write them, and says whether nothing comes after them."""
        with self._lock:
            frames, at, is_over = b"".join(self._frames), self._at, self._is_over
            self._frames, self._unsent, self._at = [], 0, 0.0
        metrics.WRITTEN.inc(len(frames))
        if at:  # not only a heartbeat
            metrics.LAG.observe(max(0.0, time.time() - at))
        return frames, is_over

    def wake(self) -> None:
        """Wakes the writer. It is called in any thread, and must neither block nor call the hub."""
        raise NotImplementedError

    def cut(self) -> None:
        """Closes the connection of a client that leaves too much untaken. Called like ``wake``."""
        raise NotImplementedError

    def close(self) -> None:
        """Frees what the reader occupies."""

    def _put(self, frame: bytes, at: float = 0.0, *, is_last: bool = False) -> None:
        with self._lock:
            if self._is_over:
                return
            self._frames.append(frame)
            self._unsent += len(frame)
            self._at = self._at or at
            is_cut = self._unsent > MAX_UNSENT
            self._is_over = is_last or is_cut
            if is_cut:
                self._frames = []
        if is_cut:
            metrics.CUT.inc()
            self.cut()
        self.wake()
