"""The live server's connections: what a client may send at first, and leave untaken later."""

import asyncio
import functools
import gc
import socket
import struct
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import uvloop
from django.db import OperationalError
from django.db import connection as database
from prometheus_client import REGISTRY

from config.live import connection
from config.live.connection import Connection, LiveReader, Workload
from config.live.served_paths import Answer, respond
from config.server.request_heads import MAX_HEAD, Environ, environ_of
from events import replica
from events.http.refusals import Unavailable
from events.live.hub import hub
from events.live.streams import MAX_UNSENT, Reader, ReaderSpec
from tests.client import EVENTS
from tests.events.live.test_hub import Noting, a_spec
from tests.factories import a_platform_token
from tests.streams import wait_until

pytestmark = pytest.mark.once

PATIENCE = 60  # seconds
HEAD_TIMEOUT = connection.HEAD_TIMEOUT
FRAME = b"data: " + b"x" * 8000 + b"\n\n"
END = b"event: end\n\n"


def in_the_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Makes a test of a coroutine, which runs in the event loop of the live server."""

    @functools.wraps(test)
    def within(**fixtures: Any) -> None:
        async def bounded() -> None:
            await asyncio.wait_for(test(**fixtures), PATIENCE)

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(bounded())

    return within


def workload() -> Workload:
    return Workload(asyncio.get_running_loop(), readers=1)


# --- Before the answer --------------------------------------------------------------------------


async def closed_after(*parts: bytes) -> bytes:
    """What a client gets until its connection is closed. It sends the parts one by one, slowly."""
    loop, ours = asyncio.get_running_loop(), workload()
    server = await loop.create_server(lambda: Connection(ours), "127.0.0.1", 0)
    received = b""
    async with server:
        with socket.socket() as client, suppress(ConnectionError):
            client.setblocking(False)
            await loop.sock_connect(client, server.sockets[0].getsockname())
            for part in parts:
                await loop.sock_sendall(client, part)
                await asyncio.sleep(0)
            while part := await loop.sock_recv(client, 65536):
                received += part
    return received


@pytest.fixture(autouse=True)
def nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers every request alike, however long its head takes."""
    monkeypatch.setattr(connection, "HEAD_TIMEOUT", PATIENCE)
    answer = Answer(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n", b"")
    monkeypatch.setattr(connection, "respond", lambda environ, new_reader: answer)


HEAD = b"GET / HTTP/1.1\r\nHost: a\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param([], id="nothing"),
        pytest.param([HEAD], id="half a head"),
        pytest.param([bytes([byte]) for byte in HEAD], id="a head, byte by byte"),
    ],
)
@in_the_loop
async def test_who_does_not_finish_a_head_is_cut_off(sent, monkeypatch):
    monkeypatch.setattr(connection, "HEAD_TIMEOUT", 0.1)
    assert await closed_after(*sent) == b""


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /" + b"a" * MAX_HEAD, 414),
        (HEAD + b"A: " + b"a" * 2 * MAX_HEAD, 431),
        (HEAD + b"A: a\r\n" * MAX_HEAD, 431),
    ],
    ids=["a line", "a field", "many fields"],
)
@in_the_loop
async def test_a_head_without_an_end_is_refused_before_it_is_complete(sent, status):
    assert (await closed_after(sent)).startswith(b"HTTP/1.1 %d " % status)


@in_the_loop
async def test_what_follows_the_first_head_is_not_read(caplog):
    answers = await closed_after((HEAD + b"\r\n") * 1000)
    assert answers.count(b"HTTP/1.1 204 ") == 1
    async with a_reader() as (_, protocol, _client):
        protocol.data_received(HEAD + b"\r\n")
        served = protocol._task
        protocol.data_received(HEAD + b"\r\n")
        assert protocol._task is served
        await lost(protocol)
    assert [record.getMessage() for record in caplog.records] == []


ADDRESSES = ("127.0.0.1", 1), ("127.0.0.1", 2)  # of a client and a server


def test_a_header_with_an_underscore_imitates_no_other():
    headers = b"x_forwarded_for: 192.0.2.1\r\nx-forwarded-for: 192.0.2.2\r\n\r\n"
    environ = environ_of(HEAD + headers, *ADDRESSES)
    assert environ["HTTP_X_FORWARDED_FOR"] == "192.0.2.2"


@in_the_loop
async def test_no_client_is_asked_for_a_body():
    expecting = HEAD + b"Expect: 100-continue\r\nContent-Length: 1\r\n\r\n"
    assert (await closed_after(expecting)).startswith(b"HTTP/1.1 204 ")


@in_the_loop
async def test_a_client_that_resets_its_connection_behind_its_request_causes_no_error():
    """The loop is busy meanwhile: it looks at the connection once that is reset."""
    loop, ours = asyncio.get_running_loop(), workload()
    accepted: list[Connection] = []
    errors: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, error: errors.append(error))

    def accept() -> Connection:
        accepted.append(Connection(ours))
        return accepted[-1]

    async with await loop.create_server(accept, "127.0.0.1", 0) as server:
        with socket.create_connection(server.sockets[0].getsockname()) as client:
            client.sendall(HEAD + b"\r\n")
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        while not (accepted and hasattr(accepted[0], "transport")):
            await asyncio.sleep(0)
        await lost(accepted[0])
    assert errors == []


def ends_in(protocol: Connection, seconds: float, began: float) -> bool:
    """Whether the connection is cut so many seconds after a moment between ``began`` and now."""
    now = asyncio.get_running_loop().time()
    return began + seconds - 0.1 <= protocol._deadline.when() <= now + seconds + 0.1


@in_the_loop
async def test_a_client_has_ten_seconds_for_a_head_thirty_for_an_answer_and_one_for_the_end(
    monkeypatch,
):
    monkeypatch.setattr(connection, "HEAD_TIMEOUT", HEAD_TIMEOUT)
    began = asyncio.get_running_loop().time()
    async with a_reader() as (_, protocol, _client):
        assert ends_in(protocol, 10, began)
        protocol.data_received(b"no request\r\n\r\n")
        assert ends_in(protocol, 30, began)
    async with a_reader() as (reader, protocol, _client):
        reader.end(END)
        protocol.write_frames()
        assert ends_in(protocol, 1, began)


@asynccontextmanager
async def waiting(pools: Workload, number: int) -> AsyncIterator[list[asyncio.Future[None]]]:
    """So many requests for the feed, which wait until the block ends."""
    goes_on = threading.Event()

    def wait() -> None:
        goes_on.wait(PATIENCE)

    requests = [asyncio.ensure_future(pools.answer(EVENTS, wait)) for _ in range(number)]
    try:
        yield requests
    finally:
        goes_on.set()
        await asyncio.gather(*requests)


@in_the_loop
async def test_probes_do_not_wait_behind_readers():
    pools = workload()
    async with waiting(pools, connection.POOL_SIZE) as readers:
        await asyncio.wait_for(pools.answer("/healthz", lambda: None), PATIENCE / 2)
        assert not any(each.done() for each in readers)


@in_the_loop
async def test_readers_that_are_ahead_of_a_replica_leave_threads_to_others():
    pools = workload()
    async with waiting(pools, replica.PLACES) as ahead:
        await asyncio.wait_for(pools.answer(EVENTS, lambda: None), PATIENCE / 2)
        assert not any(each.done() for each in ahead)


@in_the_loop
async def test_beyond_its_seats_the_server_takes_no_reader():
    pools = Workload(asyncio.get_running_loop(), readers=0)
    with pytest.raises(Unavailable):
        pools.admit()


def connections_in_memory() -> int:
    """The connections of the live server and their transports."""
    gc.collect()
    names = (f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.get_objects())
    return sum(
        name in ("config.live.connection.Connection", "uvloop.loop.TCPTransport") for name in names
    )


@pytest.mark.parametrize("sent", [HEAD + b"\r\n", b"\0\r\n\r\n"], ids=["answered", "refused"])
@in_the_loop
async def test_nothing_is_kept_of_a_client_that_has_gone(sent):
    before = connections_in_memory()
    assert await closed_after(sent)
    while connections_in_memory() > before:
        await asyncio.sleep(0.01)


# --- After the answer -----------------------------------------------------------------------------


class Pages:
    """A stream whose reader has these pages to catch up with."""

    def __init__(self, reader: LiveReader, *pages: bytes) -> None:
        self.reader, self._pages = reader, iter(pages)

    is_closed = False

    def read(self) -> bytes | None:
        return next(self._pages, None)

    def close(self) -> None:
        self.is_closed = True


@asynccontextmanager
async def a_reader(*pages: bytes) -> AsyncIterator[tuple[LiveReader, Connection, socket.socket]]:
    """A reader whose stream has begun, its connection, and the client's end of it."""
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setblocking(False)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    loop, pools = asyncio.get_running_loop(), workload()
    _, protocol = await loop.connect_accepted_socket(lambda: Connection(pools), ours)
    reader = LiveReader(None, protocol)
    first, *others = pages or (b"",)
    stream: Any = Pages(reader, *others)
    writing = asyncio.ensure_future(protocol._write(Answer(b"", first, stream, bool(pages))))
    await asyncio.sleep(0)
    with theirs:
        yield reader, protocol, theirs
    await writing


def cut_readers() -> float:
    return REGISTRY.get_sample_value("signals_live_cut_readers_total")


async def lost(protocol: Connection) -> None:
    """Waits until the connection is closed."""
    while protocol in protocol.workload.connections:
        await asyncio.sleep(0)


async def received_by(client: socket.socket) -> bytes:
    """All that the client gets until its connection is closed."""
    loop, received = asyncio.get_running_loop(), b""
    while part := await loop.sock_recv(client, 65536):
        received += part
    return received


@in_the_loop
async def test_a_reader_that_takes_nothing_is_cut_at_a_bounded_buffer():
    async with a_reader() as (reader, protocol, _):
        before = cut_readers()
        for _ in range(MAX_UNSENT // len(FRAME) - 1):
            reader.deliver(FRAME, 1.0)
        await asyncio.sleep(0.05)
        assert not protocol.transport.is_closing()
        for _ in range(10):
            reader.deliver(FRAME, 1.0)
        await lost(protocol)
        assert cut_readers() == before + 1


@in_the_loop
async def test_a_reader_that_takes_nothing_of_what_comes_singly_is_cut_too():
    async with a_reader() as (reader, protocol, _):
        before = cut_readers()
        for _ in range(MAX_UNSENT // len(FRAME) + 4):
            reader.deliver(FRAME, 1.0)
            await asyncio.sleep(0.01)
        await lost(protocol)
        assert cut_readers() == before + 1


@in_the_loop
async def test_a_reader_that_the_event_loop_cannot_keep_up_with_is_cut_too():
    async with a_reader() as (reader, protocol, client):
        before = cut_readers()
        for _ in range(2 * MAX_UNSENT // len(FRAME)):
            reader.deliver(FRAME, 1.0)
        await lost(protocol)
        assert cut_readers() == before + 1
        assert await received_by(client) == b""


@in_the_loop
async def test_frames_arrive_in_order_from_another_thread_and_the_last_one_closes():
    async with a_reader() as (reader, _, client):
        frames = [b"id: %d\n\n" % number for number in range(1000)]

        def deliver() -> None:
            for frame in frames:
                reader.deliver(frame, 1.0)
            reader.end(END)

        await asyncio.get_running_loop().run_in_executor(None, deliver)
        assert await received_by(client) == b"".join(frames) + END


@in_the_loop
async def test_what_comes_before_the_answer_is_written_after_it():
    ours, theirs = socket.socketpair()
    loop, pools = asyncio.get_running_loop(), workload()
    _, protocol = await loop.connect_accepted_socket(lambda: Connection(pools), ours)
    reader = LiveReader(None, protocol)
    reader.deliver(b"id: 1\n\n", 1.0)
    reader.end(END)
    await asyncio.sleep(0.01)
    stream: Any = Pages(reader)
    await protocol._write(Answer(b"head", b"first", stream))
    theirs.setblocking(False)
    with theirs:
        assert await received_by(theirs) == b"headfirstid: 1\n\n" + END


@in_the_loop
async def test_who_takes_a_page_too_slowly_is_cut(monkeypatch):
    monkeypatch.setattr(connection, "TAKING", 0.05)
    async with a_reader(b"x" * 4 * MAX_UNSENT) as (_, protocol, _client):
        await lost(protocol)


@in_the_loop
async def test_a_reader_that_is_ended_and_takes_nothing_is_gone_soon(monkeypatch):
    monkeypatch.setattr(connection, "ENDING", 0.05)
    async with a_reader() as (reader, protocol, _):
        reader.deliver(b"x" * (MAX_UNSENT - 100), 1.0)
        await asyncio.sleep(0.01)
        reader.end(END)
        await lost(protocol)


@in_the_loop
async def test_a_stream_whose_client_left_while_it_was_opened_is_closed():
    async with a_reader() as (reader, protocol, _):
        protocol.transport.abort()
        stream: Any = Pages(reader)
        await protocol._write(Answer(b"", b"", stream))
        assert stream.is_closed


@in_the_loop
async def test_a_page_is_dropped_if_its_client_left_while_it_was_read():
    async with a_reader() as (reader, protocol, client):

        class Late(Pages):
            def read(self) -> bytes | None:
                client.close()
                wait_until(lambda: protocol not in protocol.workload.connections, "It is not lost.")
                return super().read()

        stream: Any = Late(reader, b"page")
        await protocol._write(Answer(b"", b"", stream, is_behind=True))


def is_given_back() -> bool:
    """Whether this thread has no connection to the database, or would not keep it."""
    return database.connection is None


def expect_it_back() -> None:
    """Connects to the database, and lets the connection be given back as that of a pool is."""
    database.ensure_connection()
    database.close_at = 0.0


@pytest.mark.django_db(transaction=True)
def test_a_thread_that_reads_pages_gives_its_connection_to_the_database_back():
    class FromTheDatabase(Pages):
        def read(self) -> bytes | None:
            expect_it_back()
            return super().read()

    stream: Any = FromTheDatabase(LiveReader(None, None), b"page")
    assert connection._read(stream) == b"page"
    assert is_given_back()


@pytest.fixture
def resting_hub() -> Iterator[None]:
    yield
    wait_until(lambda: hub._thread is None, "the hub does not rest")


def asking_for_a_stream() -> Environ:
    head = (
        f"GET {EVENTS} HTTP/1.1\r\nHost: testserver\r\nAccept: text/event-stream\r\n"
        f"Authorization: Bearer {a_platform_token()}\r\n\r\n"
    )
    return environ_of(head.encode(), *ADDRESSES)


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("resting_hub")
def test_a_stream_that_begins_gives_its_connection_to_the_database_back():
    def new_reader(spec: ReaderSpec) -> Reader:
        expect_it_back()
        return Noting(spec)

    answer = respond(asking_for_a_stream(), new_reader)
    assert is_given_back()
    assert hub.readers == 1
    answer.stream.close()


class Breaking(Noting):
    """A reader that the hub cannot take over."""

    @property
    def position(self) -> int | None:
        return None

    @position.setter
    def position(self, position: int | None) -> None:
        if position is not None:
            raise OperationalError("The database is away.")


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("resting_hub")
def test_a_reader_whose_first_page_cannot_be_read_is_refused_and_takes_no_seat():
    answer = respond(asking_for_a_stream(), Breaking)
    assert answer.head.startswith(b"HTTP/1.1 503 ")
    for header in (b"X-Request-Id: ", b"Cache-Control: no-store\r\n", b"X-Content-Type-Options: "):
        assert b"\r\n" + header in answer.head  # as every answer of the middleware
    assert hub.readers == 0


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("resting_hub")
@in_the_loop
async def test_the_hub_forgets_a_reader_whose_client_left():
    async with a_reader() as (_, protocol, client):
        reader = LiveReader(a_spec(), protocol)
        await asyncio.get_running_loop().run_in_executor(None, hub.admit, reader)
        protocol._reader = reader
        client.close()
        await lost(protocol)
        assert not hub.knows(reader)
