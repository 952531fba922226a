"""A network between a client and a server, which a test cuts and restores.

with network_to(server_port) as network:
    httpx2.get(f"http://127.0.0.1:{network.port}/healthz")
    network.cut()
"""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from tests.server import ADDRESS, free_port

PATIENCE = 60  # seconds
PART = 65536  # bytes


class Line:
    """A connection of a client, and the one to the server that belongs to it.

    ``asked`` is what the client sent last. A dead line loses what both sides send.
    """

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self._client, self._server = client, server
        self.asked = b""
        self.is_dead = False
        self.has_lost = threading.Event()

    async def carry(self, client: asyncio.StreamReader, server: asyncio.StreamReader) -> None:
        """Passes bytes on until either side closes."""
        directions = (self._pass_on(client, self._server), self._pass_on(server, self._client))
        tasks = [asyncio.create_task(each) for each in directions]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        self._client.close()
        self._server.close()
        await asyncio.wait(tasks)

    def cut(self) -> None:
        self._client.transport.abort()
        self._server.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while part := await reader.read(PART):
                if writer is self._server:
                    self.asked = part
                if self.is_dead:
                    self.has_lost.set()
                else:
                    writer.write(part)
                    await writer.drain()


class Network:
    """A port that leads to a server's port. Its methods belong to the thread that made it."""

    def __init__(self, target: int) -> None:
        self.port = free_port()
        self._target = target
        self._lines: set[Line] = set()
        self._listener: asyncio.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._stopped = asyncio.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        self.restore()

    def cut(self) -> None:
        """Ends every connection, and refuses new ones."""
        self._run(self._cut())

    def restore(self) -> None:
        """Accepts connections again."""
        self._run(self._listen())

    def lose(self, path: str) -> None:
        """Lets the connections on which this path was asked for go dead. Neither side is told."""
        for line in list(self._lines):
            line.is_dead = f" {path} ".encode() in line.asked

    def wait_for_a_loss(self) -> None:
        """Returns when a dead connection has lost something."""
        (dead,) = (line for line in list(self._lines) if line.is_dead)
        assert dead.has_lost.wait(PATIENCE)

    def stop(self) -> None:
        self.cut()
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(PATIENCE)

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._stopped.wait())

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    async def _listen(self) -> None:
        self._listener = await asyncio.start_server(self._connected, ADDRESS, self.port)

    async def _cut(self) -> None:
        if self._listener is not None:
            self._listener.close()
        for line in list(self._lines):
            line.cut()

    async def _connected(
        self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter
    ) -> None:
        from_server, to_server = await asyncio.open_connection(ADDRESS, self._target)
        line = Line(to_client, to_server)
        self._lines.add(line)
        await line.carry(from_client, from_server)
        self._lines.discard(line)


@contextmanager
def network_to(port: int) -> Iterator[Network]:
    """A network to the port, until the block ends."""
    network = Network(port)
    try:
        yield network
    finally:
        network.stop()
