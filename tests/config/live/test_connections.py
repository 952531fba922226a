"""The live server's connections: what a client may send at first, and leave untaken later."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
import uvicorn
import uvloop
from prometheus_client import REGISTRY

from config.live import connections, door
from config.live.connections import Connection
from config.live.door import LiveDoor, LiveReader
from events.live.readers import MAX_UNSENT

pytestmark = pytest.mark.once

PATIENCE = 10  # seconds
FRAME = b"data: " + b"x" * 8000 + b"\n\n"


def in_the_loop(test: Callable[[], Awaitable[None]]) -> None:
    """Runs a test in the event loop of the live server."""

    async def within() -> None:
        await asyncio.wait_for(test(), PATIENCE)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(within())


# --- Before the answer --------------------------------------------------------------------------


async def nothing(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def closed_after(*parts: bytes) -> bytes:
    """What a client gets until its connection is closed. It sends the parts one by one, slowly."""
    config = uvicorn.Config(nothing, http=Connection, ws="none", lifespan="off", log_config=None)
    config.load()
    state = uvicorn.server.ServerState()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(config, state, {}), "127.0.0.1", 0)
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


HEAD = b"GET / HTTP/1.1\r\nHost: a\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param([], id="nothing"),
        pytest.param([HEAD], id="half a head"),
        pytest.param([bytes([byte]) for byte in HEAD], id="a head, byte by byte"),
    ],
)
def test_who_does_not_finish_a_head_is_cut_off(sent, monkeypatch):
    monkeypatch.setattr(connections, "HEAD_TIMEOUT", 0.1)

    async def test() -> None:
        assert await closed_after(*sent) == b""

    in_the_loop(test)


def test_the_next_head_on_a_connection_has_its_time_too(monkeypatch):
    monkeypatch.setattr(connections, "HEAD_TIMEOUT", 0.1)

    async def test() -> None:
        assert (await closed_after(HEAD + b"\r\n", HEAD)).startswith(b"HTTP/1.1 204 ")

    in_the_loop(test)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /" + b"a" * connections.MAX_LINE, 414),
        (HEAD + b"A: " + b"a" * 2 * connections.MAX_HEAD, 431),
        (HEAD + b"A: a\r\n" * (connections.MAX_FIELDS + 1), 431),
    ],
    ids=["a line", "a field", "many fields"],
)
def test_a_head_without_an_end_is_refused_before_it_is_complete(sent, status):
    async def test() -> None:
        assert (await closed_after(sent)).startswith(b"HTTP/1.1 %d " % status)

    in_the_loop(test)


def test_who_asks_much_before_the_first_answer_is_cut_off():
    async def test() -> None:
        answers = await closed_after((HEAD + b"\r\n") * 1000)
        assert answers.count(b"HTTP/1.1 204 ") <= 1

    in_the_loop(test)


# --- After the answer -----------------------------------------------------------------------------


async def a_reader() -> tuple[LiveReader, socket.socket]:
    """A reader whose stream has begun, and the client's end of its connection."""
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setblocking(False)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    loop = asyncio.get_running_loop()
    reader = LiveReader(None, LiveDoor(loop, seats=1))
    transport, _ = await loop.connect_accepted_socket(asyncio.Protocol, ours)
    reader.begin(transport, set())
    return reader, theirs


def cut_readers() -> float:
    return REGISTRY.get_sample_value("signals_live_cut_readers_total")


async def lost(reader: LiveReader) -> None:
    """Waits until the reader's connection is closed."""
    while reader in reader._connections:
        await asyncio.sleep(0)


def test_a_reader_that_takes_nothing_is_cut_at_a_bounded_buffer():
    async def test() -> None:
        reader, client = await a_reader()
        before = cut_readers()
        for _ in range(MAX_UNSENT // len(FRAME) - 1):
            reader.deliver(FRAME, 1.0)
        await asyncio.sleep(0.05)
        assert not reader.is_over
        for _ in range(10):
            reader.deliver(FRAME, 1.0)
        await lost(reader)
        assert cut_readers() == before + 1
        client.close()

    in_the_loop(test)


def test_a_reader_that_the_event_loop_cannot_keep_up_with_is_cut_too():
    async def test() -> None:
        reader, client = await a_reader()
        before = cut_readers()
        for _ in range(2 * MAX_UNSENT // len(FRAME)):
            reader.deliver(FRAME, 1.0)
        await lost(reader)
        assert cut_readers() == before + 1
        assert await asyncio.get_running_loop().sock_recv(client, 65536) == b""
        client.close()

    in_the_loop(test)


def test_frames_arrive_in_order_from_another_thread_and_the_last_one_closes():
    async def test() -> None:
        reader, client = await a_reader()
        frames = [b"id: %d\n\n" % number for number in range(door.BATCH * 2)]

        def deliver() -> None:
            for frame in frames:
                reader.deliver(frame, 1.0)
            reader.end(b"event: end\n\n")

        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, deliver)
        received = b""
        while part := await loop.sock_recv(client, 65536):
            received += part
        assert received == b"".join(frames) + b"event: end\n\n"
        client.close()

    in_the_loop(test)


def test_while_a_page_is_taken_slowly_no_heartbeat_counts_against_the_reader():
    async def test() -> None:
        reader, client = await a_reader()
        reader.write(b"x" * 4 * MAX_UNSENT)
        reader.beat(b":\n\n")
        await asyncio.sleep(0.05)
        assert not reader.is_over
        taking, loop = asyncio.ensure_future(reader.taken()), asyncio.get_running_loop()
        received = 0
        while received < 4 * MAX_UNSENT:
            received += len(await loop.sock_recv(client, 65536))
        await taking
        assert received == 4 * MAX_UNSENT
        reader.close()
        client.close()

    in_the_loop(test)


def test_who_takes_a_page_too_slowly_is_cut(monkeypatch):
    monkeypatch.setattr(door, "TAKING", 0.05)

    async def test() -> None:
        reader, client = await a_reader()
        reader.write(b"x" * 4 * MAX_UNSENT)
        await reader.taken()
        await lost(reader)
        client.close()

    in_the_loop(test)


def test_a_reader_that_is_ended_and_takes_nothing_is_gone_soon(monkeypatch):
    monkeypatch.setattr(door, "ENDING", 0.05)

    async def test() -> None:
        reader, client = await a_reader()
        reader.write(b"x" * 4 * MAX_UNSENT)
        reader.end(b"event: end\n\n")
        await lost(reader)
        client.close()

    in_the_loop(test)
