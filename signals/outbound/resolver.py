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
# that were slow last have places of their own, so they take none from the others.
MAX_LOOKUPS, MAX_SLOW = 192, 64
QUICK = 1.0  # seconds
MAX_REMEMBERED = 10_000  # names that were slow

Lookup = Callable[[str, int], list[Address]]


def look_up(host: str, port: int) -> list[Address]:
    """All addresses of a name, in the system's order. Blocks. Raises ``OSError``."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(ip_address(entry[4][0]) for entry in found))


class Resolver:
    """Runs lookups: one at a time for each name. It belongs to one event loop."""

    def __init__(self, lookup: Lookup = look_up) -> None:
        self._lookup = lookup
        self._places = asyncio.Semaphore(MAX_LOOKUPS)
        self._places_of_slow = asyncio.Semaphore(MAX_SLOW)
        self._slow: set[str] = set()
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
        async with self._places_of_slow if host in self._slow else self._places:
            began = time.monotonic()
            try:
                return await _in_thread(self._lookup, host, port)
            finally:
                self._remember(host, is_slow=time.monotonic() - began > QUICK)

    def _remember(self, host: str, *, is_slow: bool) -> None:
        if not is_slow:
            self._slow.discard(host)
            return
        if len(self._slow) >= MAX_REMEMBERED:
            self._slow.clear()
        self._slow.add(host)


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
