"""Runs the live server: the feed, for as many readers as the machine holds (contract, section 8).

Requests are checked and readers catch up in two small pools of threads, which work for a bounded
number at a time, in the order of arrival. The event loop only writes.
"""

import asyncio
import gc
import logging
import os
import resource
import signal
import socket
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import uvloop
from django.conf import settings
from django.db import close_old_connections

from config.live.connection import Connection
from config.live.requests import PROBES, Answer
from config.monitoring import LIVE_SEATS
from events.http.refusals import Unavailable
from events.live.hub import hub
from events.waits import Wait

logger = logging.getLogger(__name__)

# Connections that wait to be accepted. The kernel's own limit is often 4096.
BACKLOG = 4096
# Bytes that the kernel holds for a reader that does not read, in addition to those of the server.
SEND_BUFFER = 64 * 1024
# Seconds after which a client that confirms nothing is gone.
GONE_AFTER = 60
# Seconds over which a stop ends the readers, and until it ends what is left.
STOPPING, STOPPED = 3.5, 5
# Open files that no reader takes: the database's, Redis', and those of requests being checked.
SPARE_FILES = 512
MOST_THREADS = 8
RETRY_AFTER = 5  # seconds after which a reader without a seat asks again


class LiveServer:
    """The connections of the process. ``threads`` is the number of database connections."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, seats: int, threads: int) -> None:
        self.loop = loop
        self.connections: set[Connection] = set()
        self._seats = seats
        each = max(1, threads // 2)
        self._checking = ThreadPoolExecutor(each, thread_name_prefix="checking")
        self._catching_up = ThreadPoolExecutor(each, thread_name_prefix="catching-up")
        self._probing = ThreadPoolExecutor(1, thread_name_prefix="probing")

    def admit(self) -> None:
        """Raises ``Unavailable`` if no seat is free."""
        if hub.readers >= self._seats:
            raise Unavailable(
                Wait.READERS, "This server has no seat for another reader.", RETRY_AFTER
            )

    def answered(self, path: str, answer: Callable[[], Answer | None]) -> Awaitable[Answer | None]:
        pool = self._probing if path in PROBES else self._checking
        return self.loop.run_in_executor(pool, answer)

    def caught_up(self, read: Callable[[], bytes | None]) -> Awaitable[bytes | None]:
        return self.loop.run_in_executor(self._catching_up, _read, read)

    async def run(self, listener: socket.socket) -> None:
        """Serves until SIGTERM or SIGINT. Then it ends the readers, spread over ``STOPPING``."""
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            self.loop.add_signal_handler(number, stop.set)
        server = await self.loop.create_server(
            lambda: Connection(self), sock=listener, backlog=BACKLOG
        )
        logger.info("Started server process [%d]", os.getpid())
        await stop.wait()
        hub.stop(STOPPING)
        server.close()
        for connection in list(self.connections):
            connection.stop()
        with suppress(TimeoutError):
            async with asyncio.timeout(STOPPED):
                while self.connections:
                    await asyncio.sleep(0.1)


def serve(host: str, port: int) -> None:
    """Serves until SIGTERM or SIGINT. Raises ``OSError`` if it cannot listen."""
    with (
        _listener(host, port) as listener,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        server = LiveServer(runner.get_loop(), seats=_seats(), threads=_threads())
        logger.info("Listening at: http://%s:%d", f"[{host}]" if ":" in host else host, port)
        gc.collect()
        gc.freeze()  # what is loaded now stays: the collector need not look at it again
        runner.run(server.run(listener))


def _read(read: Callable[[], bytes | None]) -> bytes | None:
    try:
        return read()
    finally:
        close_old_connections()


def _listener(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    # The connections inherit both.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, GONE_AFTER * 1000)
    return listener


def _seats() -> int:
    """The readers that this process may hold: as many as it may have open files."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    seats = max(1, most - SPARE_FILES)
    LIVE_SEATS.set(seats)
    return seats


def _threads() -> int:
    """The threads that read the database, beside the hub's and the one that answers probes."""
    return max(2, min(MOST_THREADS, settings.THREADS - 1))
