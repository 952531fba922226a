"""The first door: streams and waiting requests in gunicorn's threads, a thread and a seat each.

What waits holds no transaction and no database connection.
"""

import socket
import threading
from collections.abc import Generator, Iterator
from contextlib import suppress
from typing import cast

from django.db import connection
from django.http import HttpRequest

from events.http.refusals import Unavailable
from events.live import metrics
from events.live.hub import hub
from events.live.opening import Opening
from events.live.readers import MAX_UNSENT, Reader, View
from events.live.seats import Sitter, seats
from events.waits import Wait

NO_SEAT = (
    "No seat is free for this stream. Open it again after the number of seconds in Retry-After, or "
    "read with wait."
)
PAUSE_WITHOUT_SEAT = 1  # second
LOOK_INTERVAL = 0.2  # seconds between two looks whether a silent client is still there
# A connection whose data nobody acknowledges for this long is closed.
UNTAKEN = 20_000  # milliseconds


class ThreadDoor:
    """Gives each stream a seat, and its thread."""

    def new_reader(self, request: HttpRequest, view: View) -> Reader:
        """A reader for this request. Raises ``Unavailable`` if there is no place for it."""
        sitter = Sitter(view.owner, view.is_platform)
        if not seats.take(sitter):
            raise Unavailable(Wait.READERS, NO_SEAT, retry_after=PAUSE_WITHOUT_SEAT)
        return ThreadReader(view, request.META.get("gunicorn.socket"))

    def leave(self, reader: Reader) -> None:
        """Frees the place of a reader."""
        seats.leave(Sitter(reader.view.owner, reader.view.is_platform))

    def body(self, opening: Opening) -> "Body":
        """The bytes of the stream. Its ``close`` must be called."""
        return Body(opening, self)


class ThreadReader(Reader):
    """A reader whose thread writes what the hub delivers."""

    __slots__ = ("_arrived", "_at", "_frames", "_is_over", "_socket", "_unsent")

    def __init__(self, view: View, connection: socket.socket | None) -> None:
        super().__init__(view)
        self._arrived = threading.Condition()
        self._frames: list[bytes] = []
        self._unsent = 0
        self._at = 0.0  # the time of the oldest event among the frames
        self._is_over = False
        self._socket = connection
        if connection is not None and connection.family in (socket.AF_INET, socket.AF_INET6):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNTAKEN)

    def deliver(self, frame: bytes, at: float) -> None:
        with self._arrived:
            if self._is_over:
                return
            if self._unsent + len(frame) > MAX_UNSENT:
                self._cut()
            else:
                self._frames.append(frame)
                self._unsent += len(frame)
                self._at = self._at or at
            self._arrived.notify()

    def beat(self, frame: bytes) -> None:
        self.deliver(frame, 0.0)

    def end(self, frame: bytes) -> None:
        self.deliver(frame, 0.0)
        with self._arrived:
            self._is_over = True
            self._arrived.notify()

    def take(self) -> tuple[bytes, float]:
        """Waits for frames; returns them, and the time of the oldest event.

        Returns no frame at the end of the stream, or if the client is gone.
        """
        with self._arrived:
            while not self._arrived.wait_for(lambda: self._frames or self._is_over, LOOK_INTERVAL):
                self._is_over = self._is_gone()
            taken, at = b"".join(self._frames), self._at
            self._frames, self._unsent, self._at = [], 0, 0.0
            return taken, at

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

    def _cut(self) -> None:
        """Closes the connection of a client that does not take its data."""
        self._frames, self._is_over = [], True
        metrics.CUT.inc()
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that writes


class Waiter(Reader):
    """A reader that only wants to know that there is an event for it."""

    counts = False
    __slots__ = ("_news",)

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self._news = threading.Event()

    def wait(self, seconds: float) -> bool:
        """Waits for news since the last call. Returns False after ``seconds``."""
        arrived = self._news.wait(seconds)
        self._news.clear()
        return arrived

    def deliver(self, frame: bytes, at: float) -> None:
        self._news.set()

    def beat(self, frame: bytes) -> None:
        """A waiting request has no heartbeat."""

    def end(self, frame: bytes) -> None:
        self._news.set()


class Body:
    """The bytes of one stream, as gunicorn asks for them."""

    def __init__(self, opening: Opening, door: ThreadDoor) -> None:
        self._opening, self._door = opening, door
        self._is_closed = False
        self._frames = self._write(opening)

    def __iter__(self) -> Iterator[bytes]:
        return self._frames

    def close(self) -> None:
        """Frees the seat, however the stream ended."""
        self._frames.close()
        hub.dismiss(self._opening.reader)
        if not self._is_closed:
            self._is_closed = True
            self._door.leave(self._opening.reader)

    def _write(self, opening: Opening) -> Generator[bytes]:
        reader = cast(ThreadReader, opening.reader)
        yield opening.first
        while page := opening.read():
            yield page
            metrics.WRITTEN.inc(len(page))
        connection.close()
        while True:
            frames, at = reader.take()
            if not frames:
                return
            yield frames  # returns when gunicorn has written them
            metrics.WRITTEN.inc(len(frames))
            metrics.observe_lag(at)
