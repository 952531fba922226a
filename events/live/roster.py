"""The readers of a hub: who is there, whose streams they are, and when each gets its heartbeat."""

import time
from collections import Counter
from collections.abc import Iterable

from django.conf import settings

from events.http.refusals import RateLimited
from events.live import metrics
from events.live.credentials import Credentials
from events.live.frames import COMMENT, EndReason, end_frame, position_frame
from events.live.readers import Reader
from events.live.topics import Topics

WAIT_FOR_PLACE = 15  # seconds after which a reader with too many streams may try again
HEARTBEAT = 15  # seconds between two heartbeats of a reader


class Roster:
    """The admitted readers. The hub's lock guards it."""

    def __init__(self) -> None:
        self.admitted = 0
        self.topics = Topics()
        self.credentials = Credentials()
        self.beaten_until = 0.0
        self.stops_at: tuple[float, float] | None = None  # when the stop began, and its length
        self._owners: Counter[str] = Counter()
        self._slots: list[set[Reader]] = [set() for _ in range(HEARTBEAT)]
        self._next_slot = 0

    def add(self, reader: Reader) -> None:
        """Adds a reader. Raises ``RateLimited`` if its owner has ``LIMIT_STREAMS`` streams."""
        limit, owner = settings.LIMIT_STREAMS, reader.view.owner
        if reader.counts and limit is not None and self._owners[owner] >= limit:
            raise RateLimited(WAIT_FOR_PLACE)
        reader.slot, self._next_slot = self._next_slot, (self._next_slot + 1) % HEARTBEAT
        self._slots[reader.slot].add(reader)
        self._owners[owner] += reader.counts
        self.credentials.add(reader)
        self.admitted += 1
        metrics.READERS.inc()

    def knows(self, reader: Reader) -> bool:
        return reader in self._slots[reader.slot]

    def remove(self, reader: Reader) -> None:
        """Forgets a reader. Does nothing if it is not here."""
        if not self.knows(reader):
            return
        self._slots[reader.slot].discard(reader)
        self._owners[reader.view.owner] -= reader.counts
        if not self._owners[reader.view.owner]:
            del self._owners[reader.view.owner]
        self.credentials.remove(reader)
        self.topics.remove(reader)
        self.admitted -= 1
        metrics.READERS.dec()

    def everybody(self) -> list[Reader]:
        return [reader for slot in self._slots for reader in slot]

    def end(self, readers: Iterable[Reader], reason: EndReason | None = None) -> None:
        """Ends readers for this reason; None for the one of their kind of credential."""
        for reader in list(readers):
            reader.end(end_frame(reason or reader.view.credential.kind.end_reason))
            self.remove(reader)

    def beat(self, epoch: str, position: int) -> None:
        """Gives heartbeats to the readers of every second that has passed."""
        now = time.monotonic() // 1
        frame = position_frame(epoch, position)
        for second in range(int(max(self.beaten_until, now - HEARTBEAT)), int(now)):
            for reader in self._slots[second % HEARTBEAT]:
                if reader.position is None:
                    reader.beat(COMMENT)
                elif reader.position <= position:
                    reader.beat(frame)
        self.beaten_until = now

    def go_on_stopping(self) -> None:
        """Ends the part of the readers whose time has come, once a stop began."""
        if self.stops_at is None:
            return
        began, seconds = self.stops_at
        part = (time.monotonic() - began) / seconds if seconds else 1.0
        for slot in self._slots[: int(part * HEARTBEAT) + 1]:
            self.end(slot, EndReason.RESTARTING)
