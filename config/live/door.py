"""The second door of the feed: readers that are connections of an event loop.

The hub hands frames over in its own thread. The event loop writes them, and does nothing else for a
reader that waits.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, MutableSet
from contextlib import suppress
from typing import Any

from django.http import HttpRequest

from events.http.refusals import Unavailable
from events.live import metrics
from events.live.hub import hub
from events.live.opening import Opening
from events.live.readers import MAX_UNSENT, Reader, View
from events.waits import Wait

BATCH = 500  # frames that the event loop writes before it looks at its other work
TAKING = 30  # seconds that a reader has to take a page while it catches up
ENDING = 1  # seconds that a reader has to take its last frame
RETRY_AFTER = 5  # seconds after which a reader without a seat asks again


class LiveReader(Reader, asyncio.Protocol):
    """A reader of the feed, which is also the protocol of its connection.

    ``deliver``, ``beat`` and ``end`` belong to the hub, everything else to the event loop.
    ``transport`` is None until the stream begins.
    """

    __slots__ = (
        *("_connections", "_door", "_early", "_is_cut", "_put", "_resumed", "_written"),
        *("is_over", "transport"),
    )

    def __init__(self, view: View, door: "LiveDoor") -> None:
        super().__init__(view)
        self._door = door
        self._connections: MutableSet[Any] | None = None
        self._resumed: asyncio.Future[None] | None = None
        self._early: list[tuple[bytes, bool]] | None = None  # frames from before the stream began
        # The bytes that the hub put into the outbox, and those of them that the event loop wrote.
        self._put = self._written = 0
        self._is_cut = False
        self.is_over = False
        self.transport: asyncio.Transport | None = None

    def deliver(self, frame: bytes, at: float) -> None:
        self._give(frame, at)

    def beat(self, frame: bytes) -> None:
        if self._resumed is None:  # else the reader is taking a page, slowly
            self._give(frame)

    def end(self, frame: bytes) -> None:
        self._give(frame, ends=True)

    def _give(self, frame: bytes, at: float = 0.0, *, ends: bool = False) -> None:
        """Lets the event loop write a frame, up to a bound of what it has not written yet."""
        if self._is_cut:
            return
        self._put += len(frame)
        self._is_cut = self._put - self._written > MAX_UNSENT
        self._door.put(self, frame, at, ends)

    def begin(self, transport: asyncio.Transport, connections: MutableSet[Any]) -> None:
        """Takes over a connection. ``connections`` are those for which a stop of uvicorn waits."""
        self.transport, self._connections = transport, connections
        connections.add(self)
        transport.set_protocol(self)

    def write(self, data: bytes) -> None:
        """Sends the bytes after those before them."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(data)

    def flush(self) -> None:
        """Sends the frames that the hub delivered before the stream began."""
        early, self._early = self._early, None
        for frame, ends in early or ():
            metrics.WRITTEN.inc(self.write_frame(frame, ends))

    def write_frame(self, frame: bytes, ends: bool) -> int:
        """Sends a frame of the hub. Cuts a reader that leaves too much untaken.

        Returns the number of bytes.
        """
        transport = self.transport
        if transport is None:
            self._early = [*(self._early or ()), (frame, ends)]
            return 0
        self.is_over = self.is_over or ends
        self._written += len(frame)
        if transport.is_closing():
            return 0
        if not self._is_cut:
            transport.write(frame)
        if self._is_cut or transport.get_write_buffer_size() > MAX_UNSENT:
            metrics.CUT.inc()
            transport.abort()
        elif ends:
            self.close()
        return len(frame)

    def close(self) -> None:
        """Ends the connection when what was written is sent, and soon in any case."""
        if self.transport is not None:
            self.transport.close()
            asyncio.get_running_loop().call_later(ENDING, self.transport.abort)

    async def taken(self) -> None:
        """Waits until most of what was written is sent. Cuts a reader that takes too long."""
        if self._resumed is None or self.transport is None:
            return
        try:
            await asyncio.wait_for(self._resumed, TAKING)
        except TimeoutError:
            metrics.CUT.inc()
            self.transport.abort()

    # --- Called by the transport ------------------------------------------------------------------

    def pause_writing(self) -> None:
        self._resumed = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        resumed, self._resumed = self._resumed, None
        if resumed and not resumed.done():
            resumed.set_result(None)

    def data_received(self, data: bytes) -> None:
        """Drops it: a reader has nothing to say. Its next request needs another connection."""

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_over = True
        self.resume_writing()
        if self._connections is not None:
            self._connections.discard(self)
        hub.dismiss(self)

    def shutdown(self) -> None:
        """Nothing: when uvicorn stops, the hub ends the readers one after the other."""


class LiveDoor:
    """Makes readers for at most ``seats``, and writes what the hub hands over to them."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seats: int) -> None:
        self._loop = loop
        self._seats = seats
        # The frames to write: whose, the time of the event, and whether it ends the stream.
        self._outbox: deque[tuple[LiveReader, bytes, float, bool]] = deque()
        self._is_awake = False

    def new_reader(self, request: HttpRequest, view: View) -> LiveReader:
        """A reader of this door. Raises ``Unavailable`` if no seat is free."""
        if hub.readers >= self._seats:
            raise Unavailable(
                Wait.READERS, "This server has no seat for another reader.", RETRY_AFTER
            )
        return LiveReader(view, self)

    def leave(self, reader: Reader) -> None:
        """Nothing: a reader that the hub does not know takes no seat."""

    def body(self, opening: Opening) -> Iterable[bytes]:
        """Empty: the application writes the stream."""
        return ()

    def put(self, reader: LiveReader, frame: bytes, at: float, ends: bool) -> None:
        """Lets the event loop write a frame. Any thread may call it."""
        self._outbox.append((reader, frame, at, ends))
        if not self._is_awake:
            self._is_awake = True
            with suppress(RuntimeError):  # the event loop has ended
                self._loop.call_soon_threadsafe(self._write)

    def _write(self) -> None:
        """Writes some frames. The event loop sends what one reader gets at once together."""
        self._is_awake = False  # before the outbox is read: what is put later wakes the loop again
        written, oldest = 0, 0.0
        for _ in range(min(BATCH, len(self._outbox))):
            reader, frame, at, ends = self._outbox.popleft()
            written += reader.write_frame(frame, ends)
            oldest = min(oldest or at, at or oldest)
        metrics.WRITTEN.inc(written)
        metrics.observe_lag(oldest)
        if self._outbox and not self._is_awake:
            self._is_awake = True
            self._loop.call_soon(self._write)
