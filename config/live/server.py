"""Runs the live server: the feed, for as many readers as the machine holds."""

import asyncio
import logging
import os
import resource
import signal
import socket
import threading
from contextlib import suppress

import uvloop
from django.conf import settings

from config.environment import host_and_port
from config.live.connection import Connection, Workload
from config.monitoring import LIVE_SEATS
from config.replica.patroni import nodes
from events.databases import reads_replica
from events.live.hub import hub
from tokens.callers import uses

logger = logging.getLogger(__name__)

# Connections that wait to be accepted. The kernel's own limit is often 4096.
BACKLOG = 4096
# Bytes that the kernel holds for a reader that does not read, in addition to those of the server.
SEND_BUFFER = 64 * 1024
# Seconds after which a client that confirms nothing is gone.
GONE_AFTER = 60
# Seconds over which a stop ends the readers, and until it ends what is left. The process exits
# within 5 s.
STOPPING, STOPPED = 3.2, 4.3
# Open files that no reader takes: the database's, Redis', and those of requests being checked.
SPARE_FILES = 512


def serve(host: str, port: int) -> None:
    """Serves until SIGTERM or SIGINT. Raises ``OSError`` if it cannot listen."""
    if reads_replica():
        standbys = settings.DATABASES["default"]
        nodes.watch(standbys["HOST"], standbys["PORT"], settings.PATRONI_PORT)
        threading.Thread(target=uses.keep_writing, daemon=True).start()
    with (
        _listener(host, port) as listener,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        logger.info("Listening at: http://%s", host_and_port(host, port))
        runner.run(_run(listener))


async def _run(listener: socket.socket) -> None:
    """Serves until SIGTERM or SIGINT. Then it ends the readers, spread over ``STOPPING``."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    workload = Workload(loop, readers=_most_readers())
    server = await loop.create_server(lambda: Connection(workload), sock=listener, backlog=BACKLOG)
    logger.info("Started server process [%d]", os.getpid())
    await stop.wait()
    hub.stop(STOPPING)
    server.close()
    with suppress(TimeoutError):
        async with asyncio.timeout(STOPPED):
            while workload.connections:
                # A copy: the loop may just have accepted some.
                for connection in list(workload.connections):
                    connection.stop()
                await asyncio.sleep(0.1)


def _listener(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    # The connections inherit both.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, GONE_AFTER * 1000)
    return listener


def _most_readers() -> int:
    """The readers that this process may hold: as many as it may have open files."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    readers = max(1, most - SPARE_FILES)
    LIVE_SEATS.set(readers)
    return readers
