"""Resolves names in threads of its own, so that a name server that hangs holds up nothing else."""

import asyncio
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address

from signals.outbound.addresses import Address

# Lookups at a time in one process. A lookup that hangs keeps its thread until the system gives up,
# but its place only for a second. Names that hung last have places of their own.
MAX_LOOKUPS, MAX_DOUBTFUL, MAX_HANGING = 64, 64, 128
QUICK = 1.0  # seconds
MAX_REMEMBERED = 10_000  # names that hung

Lookup = Callable[[str, int], list[Address]]


def look_up(host: str, port: int) -> list[Address]:
    """All addresses of a name, in the system's order. Blocks. Raises ``OSError``."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(ip_address(entry[4][0]) for entry in found))


class Resolver:
    """Runs lookups in daemon threads: one that hangs does not keep the process from ending."""

    def __init__(self, lookup: Lookup = look_up) -> None:
        self._lookup = lookup
        self._free = asyncio.Semaphore(MAX_LOOKUPS)
        self._free_for_doubtful = asyncio.Semaphore(MAX_DOUBTFUL)
        self._hanging = 0  # lookups without a place
        self._hung: dict[str, None] = {}

    async def resolve(self, host: str, port: int) -> list[Address]:
        """All addresses of a name. Raises ``OSError`` if it has none."""
        leave = await self._enter(host)
        loop = asyncio.get_running_loop()
        found: asyncio.Future[list[Address]] = loop.create_future()

        def run() -> None:
            try:
                addresses, fault = self._lookup(host, port), None
            except (OSError, ValueError) as error:
                addresses, fault = [], OSError(str(error))
            with suppress(RuntimeError):  # the loop ended meanwhile
                loop.call_soon_threadsafe(finish, addresses, fault)

        def finish(addresses: list[Address], fault: OSError | None) -> None:
            leave()
            if found.done():
                return
            if fault:
                found.set_exception(fault)
            else:
                found.set_result(addresses)

        threading.Thread(target=run, name="resolver", daemon=True).start()
        return await found

    async def _enter(self, host: str) -> Callable[[], None]:
        """Waits for a place. Returns what gives it back, to be called when the lookup ended."""
        place = self._free_for_doubtful if host in self._hung else self._free
        await place.acquire()
        has_place = True

        def hang() -> None:
            nonlocal has_place
            self._remember(host)
            if place is self._free and self._hanging < MAX_HANGING:
                has_place = False
                self._hanging += 1
                place.release()

        timer = asyncio.get_running_loop().call_later(QUICK, hang)

        def leave() -> None:
            if timer.when() > asyncio.get_running_loop().time():
                self._hung.pop(host, None)
            timer.cancel()
            if has_place:
                place.release()
            else:
                self._hanging -= 1

        return leave

    def _remember(self, host: str) -> None:
        """Notes that the name hung. The one that hung longest ago is forgotten."""
        self._hung.pop(host, None)
        self._hung[host] = None
        if len(self._hung) > MAX_REMEMBERED:
            del self._hung[next(iter(self._hung))]
