"""Places of readers: streams and requests that wait in gunicorn's threads, each with a slot.

What waits holds no transaction and no database connection.
"""

import socket
import threading
from collections import Counter
from contextlib import suppress

from django.conf import settings

from events.http.refusals import RateLimited, Unavailable
from events.live.metrics import SLOTS
from events.live.streams import WAIT_FOR_PLACE, Reader, ReaderSpec
from events.unavailable_reasons import Wait

NO_SLOT = (
    "No place is free for this stream. Open it again after the number of seconds in Retry-After, "
    "or read with wait."
)
PAUSE_WITHOUT_SLOT = 1  # second
LOOK_INTERVAL = 0.2  # seconds between two looks whether a silent client is still there
# A connection whose data nobody acknowledges for this long is closed.
UNTAKEN = 20_000  # milliseconds


class Slots:
    """How many threads of this process readers may occupy, by waiting or with a stream.

    An owner has ``WAITING_READERS_PER_TOKEN`` slots and a process has ``WAITING_READERS``. Desks
    can take half of them, so that customers cannot keep the engine from waiting; and one desk half
    of that half, or one slot, so that it cannot keep the others from waiting.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: Counter[tuple[str, bool]] = Counter()  # by owner, and whether it is a platform

    def take(self, spec: ReaderSpec) -> None:
        """Takes a slot.

        Raises ``RateLimited`` if the reader's owner has all the slots that one may have, and
        ``Unavailable`` if no slot is free for others' sake.
        """
        with self._lock:
            if self._owner_is_at_limit(spec):
                raise RateLimited(WAIT_FOR_PLACE)
            if not self._has_free_slot(spec):
                raise Unavailable(Wait.READERS, NO_SLOT, retry_after=PAUSE_WITHOUT_SLOT)
            self._taken[spec.owner, spec.is_platform] += 1
            SLOTS.inc()

    def leave(self, spec: ReaderSpec) -> None:
        """Frees a slot that was taken."""
        with self._lock:
            self._taken[spec.owner, spec.is_platform] -= 1
            self._taken += Counter()  # removes owners without a slot
            SLOTS.dec()

    def _owner_is_at_limit(self, spec: ReaderSpec) -> bool:
        most = settings.WAITING_READERS_PER_TOKEN
        if not spec.is_platform:
            most = min(most, max(1, _of_desks() // 2))
        return self._taken[spec.owner, spec.is_platform] >= most

    def _has_free_slot(self, spec: ReaderSpec) -> bool:
        if self._taken.total() >= settings.WAITING_READERS:
            return False
        if spec.is_platform:
            return True
        by_desks = sum(taken for (_, is_platform), taken in self._taken.items() if not is_platform)
        return by_desks < _of_desks()


def _of_desks() -> int:
    return int(settings.WAITING_READERS // 2)


slots = Slots()


class ThreadReader(Reader):
    """A stream that a thread of gunicorn writes to this connection.

    It has a slot until ``close``. Raises as ``Slots.take``.
    """

    __slots__ = ("_news", "_socket")

    def __init__(self, spec: ReaderSpec, connection: socket.socket | None) -> None:
        slots.take(spec)
        super().__init__(spec)
        self._news = threading.Event()
        self._socket = connection
        if connection is not None and connection.family in (socket.AF_INET, socket.AF_INET6):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNTAKEN)

    def take(self) -> bytes:
        """Waits for frames. Returns none at the end of the stream, or if the client is gone."""
        while True:
            self._news.clear()
            frames, is_over = self.waiting()
            if frames or is_over or self._is_gone():
                return frames
            self._news.wait(LOOK_INTERVAL)

    def close(self) -> None:
        slots.leave(self.spec)

    def wake(self) -> None:
        self._news.set()

    def cut(self) -> None:
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that writes

    def _is_gone(self) -> bool:
        """Whether the client has closed the connection."""
        if self._socket is None:
            return False
        try:
            return not self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True


class Waiter(ThreadReader):
    """A request that only wants to know that there is an event for it."""

    counts = False
    __slots__ = ()

    def __init__(self, spec: ReaderSpec) -> None:
        super().__init__(spec, None)

    def wait(self, seconds: float) -> bool:
        """Waits for what the hub gave since the last call: an event, or a heartbeat.

        Returns False after ``seconds``, and at once when the reader has ended.
        """
        arrived = self._is_over or self._news.wait(seconds)
        self._news.clear()
        return arrived and not self._is_over

    def _put(self, frame: bytes, at: float = 0.0, *, is_last: bool = False) -> None:
        """Keeps no frame, because the request reads the log itself. So it is never cut."""
        self._is_over |= is_last
        self.wake()
