"""A connection of the live server: one request, and its answer or its stream.

The server bounds what a client may send before its answer, and what it may leave untaken, so that
a client that reaches it directly cannot hold memory for long. A reader that has caught up is its
connection and its entries in the hub: no task, no thread, no database connection.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from django.db import close_old_connections
from gunicorn.http.errors import ParseException

from config.live.served_paths import PROBES, Answer, respond
from config.problems import to_refusal
from config.server.request_heads import Environ, environ_of
from config.server.worker import refusal
from events.http.refusals import Unavailable
from events.live import metrics
from events.live.hub import hub
from events.live.opening import Stream
from events.live.streams import MAX_UNSENT, Reader, ReaderSpec
from events.unavailable_reasons import Wait

logger = logging.getLogger(__name__)

HEAD_TIMEOUT = 10  # seconds from the connection to the end of the request's head
BATCH = 500  # connections that the event loop writes to before it looks at its other work
TAKING = 30  # seconds that a client has to take an answer, or a page while it catches up
RETRY_AFTER = 5  # seconds after which a reader without a place asks again
ENDING = 1  # seconds that a client has to take the last frame of its stream
# Threads that check requests, and as many in which readers catch up, whatever THREADS is. Two of
# the first may wait for a replica (events/replica.py); the others go on.
POOL_SIZE = 4


class Workload:
    """What the process serves: its connections, and the thread pools that answer them.

    Requests are checked and readers catch up in two small pools, which work for a bounded number
    at a time, in the order of arrival.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *, readers: int) -> None:
        self.loop = loop
        self.connections: set[Connection] = set()
        self._readers = readers  # at most
        self._woken: deque[Connection] = deque()  # those for which frames wait
        self._is_awake = False
        self._checking = ThreadPoolExecutor(POOL_SIZE, thread_name_prefix="checking")
        self._catching_up = ThreadPoolExecutor(POOL_SIZE, thread_name_prefix="catching-up")
        self._probing = ThreadPoolExecutor(1, thread_name_prefix="probing")

    def admit(self) -> None:
        """Raises ``Unavailable`` if there is no place for another reader."""
        if hub.readers >= self._readers:
            raise Unavailable(
                Wait.READERS, "This server has no place for another reader.", RETRY_AFTER
            )

    def answer(self, path: str, answer: Callable[[], Answer | None]) -> Awaitable[Answer | None]:
        """What ``answer`` returns in a thread."""
        pool = self._probing if path in PROBES else self._checking
        return self.loop.run_in_executor(pool, answer)

    def read(self, stream: Stream) -> Awaitable[bytes | None]:
        """What follows for a reader that catches up."""
        return self.loop.run_in_executor(self._catching_up, _read, stream)

    def wake(self, connection: "Connection") -> None:
        """Lets the event loop write what waits for a connection. Any thread may call it."""
        self._woken.append(connection)
        if not self._is_awake:
            self._is_awake = True
            with suppress(RuntimeError):  # the event loop has ended
                self.loop.call_soon_threadsafe(self._write)

    def _write(self) -> None:
        """Writes to some connections, and then lets the event loop look at its other work."""
        self._is_awake = False  # before the queue is read: who comes later wakes the loop again
        for _ in range(min(BATCH, len(self._woken))):
            self._woken.popleft().write_frames()
        if self._woken and not self._is_awake:
            self._is_awake = True
            self.loop.call_soon(self._write)


def _read(stream: Stream) -> bytes | None:
    try:
        return stream.read()
    finally:
        close_old_connections()


class LiveReader(Reader):
    """A reader of the hub whose frames the event loop writes to a connection."""

    __slots__ = ("_connection",)

    def __init__(self, spec: ReaderSpec, connection: "Connection") -> None:
        super().__init__(spec)
        self._connection = connection

    def wake(self) -> None:
        self._connection.workload.wake(self._connection)

    def cut(self) -> None:
        connection = self._connection
        with suppress(RuntimeError):  # the event loop has ended
            connection.workload.loop.call_soon_threadsafe(connection.transport.abort)


class Connection(asyncio.Protocol):
    """A client. The first head that it sends is its request, and all that follows is dropped.

    Bytes that are no request get the answer that gunicorn's worker gives.
    """

    __slots__ = (
        *("_deadline", "_head", "_is_asked", "_reader", "_resumed", "_task"),
        *("transport", "workload"),
    )
    _deadline: asyncio.TimerHandle
    transport: asyncio.Transport

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self._head = b""  # until it is complete
        self._is_asked = False  # whether the head is complete
        self._task: asyncio.Task[None] | None = None
        self._reader: Reader | None = None  # since the stream has begun
        self._resumed: asyncio.Future[None] | None = None  # while the client takes too little

    # --- The request ------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        self.workload.connections.add(self)
        self._deadline = self.workload.loop.call_later(HEAD_TIMEOUT, transport.abort)
        if transport.get_extra_info("peername") is None:  # reset already: nobody is there to answer
            transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._is_asked:  # what comes behind the head is not read
            return
        self._head += data
        name = self.transport.get_extra_info
        try:
            environ = environ_of(self._head, name("peername"), name("sockname"))
        except ParseException as error:
            logger.info("Not a request: %s", type(error).__name__)
            self._begin()
            self.transport.write(refusal(error))
            self._close(TAKING)
            return
        if environ is not None:
            self._begin()
            self._task = self.workload.loop.create_task(self._serve(environ))

    def _begin(self) -> None:
        """The head is read: its answer begins."""
        self._is_asked, self._head = True, b""
        self._deadline.cancel()

    # --- The answer -------------------------------------------------------------------------------

    async def _serve(self, environ: Environ) -> None:
        try:
            answer = await self.workload.answer(environ["PATH_INFO"], lambda: self._answer(environ))
            if answer is not None:
                await self._write(answer)
        except Exception:
            logger.exception("A request was not answered.")
            self.transport.abort()
        finally:
            self._task = None

    def _answer(self, environ: Environ) -> Answer | None:
        """The answer; None if the client left while the request waited for a thread."""
        return None if self.transport.is_closing() else respond(environ, self._new_reader)

    def _new_reader(self, spec: ReaderSpec) -> Reader:
        self.workload.admit()
        return LiveReader(spec, self)

    async def _write(self, answer: Answer) -> None:
        stream = answer.stream
        if self.transport.is_closing():
            if stream is not None:
                stream.close()
            return
        self.transport.write(answer.head + answer.body)
        if stream is None:
            self._close(TAKING)
            return
        self._reader = stream.reader
        self.write_frames()  # those that came before the answer
        if answer.is_behind:
            await self._catch_up(stream)

    async def _catch_up(self, stream: Stream) -> None:
        await self._taken()
        while not self.transport.is_closing():
            try:
                page = await self.workload.read(stream)
            except Exception as error:  # the reader comes back, and may be refused then
                to_refusal(error)  # logs it
                self._close(ENDING)
                return
            if page is None or self.transport.is_closing():  # the client may have left meanwhile
                return
            self.transport.write(page)
            await self._taken()

    async def _taken(self) -> None:
        """Waits until most of what was written is sent. Cuts a reader that takes too long."""
        if self._resumed is not None:
            try:
                await asyncio.wait_for(self._resumed, TAKING)
            except TimeoutError:
                metrics.CUT.inc()
                self.transport.abort()

    def write_frames(self) -> None:
        """Writes the frames that wait. Cuts a reader that leaves too much untaken."""
        reader = self._reader
        if reader is None or self.transport.is_closing():
            return
        frames, is_over = reader.waiting()
        self.transport.write(frames)
        if frames and self.transport.get_write_buffer_size() > MAX_UNSENT:
            metrics.CUT.inc()
            self.transport.abort()
        elif is_over:
            self._close(ENDING)

    # --- The end ----------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        self._resumed = self.workload.loop.create_future()

    def resume_writing(self) -> None:
        resumed, self._resumed = self._resumed, None
        if resumed and not resumed.done():
            resumed.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        self.workload.connections.discard(self)
        self.resume_writing()
        reader, self._reader = self._reader, None
        if reader is not None:
            hub.dismiss(reader)

    def stop(self) -> None:
        """Ends a connection without a request. The hub ends the readers one after the other."""
        if not self._is_asked:
            self.transport.abort()

    def _close(self, seconds: float) -> None:
        """Ends the connection when what was written is sent, and after ``seconds`` in any case."""
        self.transport.close()
        self._deadline.cancel()
        self._deadline = self.workload.loop.call_later(seconds, self.transport.abort)
