"""Runs the live server: uvicorn, with the feed's readers as connections (contract, section 8)."""

import gc
import logging
import resource
import signal
import socket
from typing import Any

import uvicorn
from django.conf import settings

from config.live.application import LiveApplication
from config.live.connections import Connection
from config.monitoring import LIVE_SEATS
from events.live.hub import hub

logger = logging.getLogger(__name__)

# Connections that wait to be accepted. The kernel's own limit is often 4096.
BACKLOG = 4096
# Bytes that the kernel holds for a reader that does not read, in addition to those of the door.
SEND_BUFFER = 64 * 1024
# Seconds after which a client that confirms nothing is gone.
GONE_AFTER = 60
# Longer than a proxy's usual keep-alive (60 s), so that no request meets a closed connection.
KEEP_ALIVE = 75
# Seconds over which a stop ends the readers, and until it ends what is left.
STOPPING, STOPPED = 3.5, 5
# Open files that no reader takes: the database's, Redis', and those of requests being checked.
SPARE_FILES = 512
MOST_THREADS = 8


class Server(uvicorn.Server):
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        hub.stop(STOPPING)
        await super().shutdown(sockets)


def serve(host: str, port: int) -> None:
    """Serves until SIGTERM or SIGINT. Raises ``OSError`` if it cannot listen."""
    with _listener(host, port) as listener:
        for stop in (signal.SIGTERM, signal.SIGINT):
            signal.signal(stop, _ignore)  # uvicorn's own handlers replace them while it serves
        application = LiveApplication(seats=_seats(), threads=_threads())
        config = uvicorn.Config(
            application,
            http=Connection,
            loop="uvloop",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=STOPPED,
        )
        logger.info("Listening at: http://%s:%d", f"[{host}]" if ":" in host else host, port)
        gc.collect()
        gc.freeze()  # what is loaded now stays: the collector need not look at it again
        Server(config).run(sockets=[listener])


def _ignore(*_: Any) -> None:
    """uvicorn raises the signal again when it has stopped. The exit status stays 0."""


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
