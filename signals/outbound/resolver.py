"""Resolves names in threads of its own, so that a name server that hangs holds up no other name."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from ipaddress import ip_address

from signals.outbound.addresses import Address

# Lookups at a time in one process: one that hangs keeps its place until the system gives up. Names
# that were quick last have places of their own, so neither slow nor new ones take any from them.
MAX_QUICK, MAX_NEW, MAX_SLOW = 96, 96, 64
QUICK = 1.0  # seconds
MAX_REMEMBERED = 10_000  # names

Lookup = Callable[[str, int], list[Address]]


def look_up(host: str, port: int) -> list[Address]:
    """All addresses of a name, in the system's order. Blocks. Raises ``OSError``."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(ip_address(entry[4][0]) for entry in found))


class Resolver:
    """Runs lookups: one at a time for each name. It belongs to one event loop."""

    def __init__(self, lookup: Lookup = look_up) -> None:
        self._lookup = lookup
        self._was_slow: dict[str, bool] = {}  # names, the one looked up last at the end
        self._places = {
            False: asyncio.Semaphore(MAX_QUICK),
            None: asyncio.Semaphore(MAX_NEW),
            True: asyncio.Semaphore(MAX_SLOW),
        }
        self._running: dict[str, asyncio.Task[list[Address]]] = {}

    async def resolve(self, host: str, port: int) -> list[Address]:
        """All addresses of a name. Raises ``OSError`` if it has none."""
        running = self._running.get(host)
        if running is None:
            running = self._running[host] = asyncio.create_task(self._look_up(host, port))
            running.add_done_callback(partial(self._ended, host))
        return await asyncio.shield(running)

    def _ended(self, host: str, running: asyncio.Task[list[Address]]) -> None:
        del self._running[host]
        if not running.cancelled():
            running.exception()  # nobody may wait for it any more

    async def _look_up(self, host: str, port: int) -> list[Address]:
        async with self._places[self._was_slow.get(host)]:
            began = time.monotonic()
            try:
                return await _in_thread(self._lookup, host, port)
            finally:
                self._remember(host, is_slow=time.monotonic() - began > QUICK)

    def _remember(self, host: str, *, is_slow: bool) -> None:
        self._was_slow.pop(host, None)
        if len(self._was_slow) >= MAX_REMEMBERED:
            del self._was_slow[next(iter(self._was_slow))]
        self._was_slow[host] = is_slow


async def _in_thread(lookup: Lookup, host: str, port: int) -> list[Address]:
    """Runs the lookup in a daemon thread: one that hangs does not keep the process from ending."""
    found: Future[list[Address]] = Future()
    found.set_running_or_notify_cancel()  # the lookup cannot be cancelled

    def run() -> None:
        try:
            found.set_result(lookup(host, port))
        except (OSError, ValueError) as error:
            found.set_exception(OSError(str(error)))

    threading.Thread(target=run, name="resolver", daemon=True).start()
    return await asyncio.wrap_future(found)
