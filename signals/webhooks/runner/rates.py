"""How fast messages go to one host and for one desk, all runners together.

A session waits here before each message. What a host may get is shared out among the desks that
wait for it, one message each in turn, so the webhooks of one desk do not hold up those of another.
The platform's webhooks belong to staff, and are not counted.
"""

import asyncio
import hashlib
import random
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import NamedTuple

from django.conf import settings

from desks.notices.pace import interval
from events.http.limits import OFF
from signals.outbound.database import in_database
from signals.outbound.schedule import forget_unused, spend

NAME = "the pace of webhooks "  # the beginning of the name of a bookmark
PATIENCE = 2.0  # seconds that a session waits: meanwhile it keeps others from having one
TOGETHER = 0.01  # seconds between two transactions, so that one counts for many sessions
AGAIN = 0.1  # seconds until the next look while a rate is used up, on average


class Ask(NamedTuple):
    """A message that is to be sent: the names of the bookmarks of its host and of its desk."""

    host: str
    desk: str


def ask_for(host: str, desk_id: int) -> Ask:
    """The message of a desk to a host. Its ports are counted together."""
    digest = hashlib.blake2b(host.encode(), digest_size=16).hexdigest()
    return Ask(f"{NAME}at {digest}", f"{NAME}of desk {desk_id}")


def take(asks: Sequence[Ask]) -> tuple[list[Ask], set[str]]:
    """Which of these may be sent now, and the bookmarks whose rate refuses others."""
    of_host, of_desk = _intervals()
    intervals = {ask.host: of_host for ask in asks} | {ask.desk: of_desk for ask in asks}
    return spend(asks, {name: between for name, between in intervals.items() if between})


def forget_old() -> None:
    """Deletes the bookmarks of hosts and desks to which nothing was sent for long."""
    forget_unused(NAME, max(_intervals()))


def _intervals() -> tuple[timedelta, timedelta]:
    """The time between two messages to one host, and for one desk; zero for ``off``."""
    return interval(settings.DELIVERY_HOST_RATE), interval(settings.DELIVERY_DESK_RATE)


class Rates:
    """The sessions that wait to send, by host and desk. It belongs to one event loop."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[str, deque[asyncio.Future[None]]]] = {}
        self._used_up: dict[str, float] = {}  # bookmarks, and when to look at them again
        self._news = asyncio.Event()
        self._granting: asyncio.Task[None] | None = None

    async def wait(self, host: str, desk_id: int | None) -> bool:
        """Waits until a message may be sent. False if it would take longer than ``PATIENCE``.

        ``desk_id`` is None for the platform. ``host`` is empty if nothing will be sent.
        """
        is_off = settings.DELIVERY_HOST_RATE == settings.DELIVERY_DESK_RATE == OFF
        if desk_id is None or not host or is_off:
            return True
        ask = ask_for(host, desk_id)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(ask.host, {}).setdefault(ask.desk, deque()).append(turn)
        self._news.set()
        if self._granting is None:
            self._granting = asyncio.create_task(self._grant())
        try:
            async with asyncio.timeout(PATIENCE):
                await turn
        except TimeoutError:
            return False
        return True

    async def _grant(self) -> None:
        """Grants turns while somebody waits: those of all who wait in one transaction."""
        try:
            while asks := list(self._in_turn()):
                self._news.clear()
                now = time.monotonic()
                self._used_up = {name: at for name, at in self._used_up.items() if at > now}
                if open_ := [ask for ask in asks if not self._used_up.keys() & set(ask)]:
                    granted, used_up = await in_database(take, open_)
                    for ask in granted:
                        self._go(ask)
                    # At random, so that no runner comes always before the others.
                    later = time.monotonic() + random.uniform(0.5, 1.5) * AGAIN  # noqa: S311 # nosec B311
                    self._used_up.update(dict.fromkeys(used_up, later))
                    await asyncio.sleep(TOGETHER)
                else:
                    pause = min(self._used_up.values()) - now
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._news.wait(), pause)
        except Exception as error:
            self._fail(error)
        finally:
            self._granting = None

    def _in_turn(self) -> Iterator[Ask]:
        """Those who wait: of each host one of each desk, then the second of each, and so on."""
        for host, desks in list(self._waiting.items()):
            for desk, turns in list(desks.items()):
                desks[desk] = deque(turn for turn in turns if not turn.done())
                if not desks[desk]:
                    del desks[desk]
            if not desks:
                del self._waiting[host]
            for number in range(max(map(len, desks.values()), default=0)):
                yield from (Ask(host, desk) for desk in desks if number < len(desks[desk]))

    def _go(self, ask: Ask) -> None:
        """Lets the first of a desk send. The desk's next one comes after all other desks."""
        desks = self._waiting[ask.host]
        turns = desks[ask.desk] = desks.pop(ask.desk)
        while turns:
            turn = turns.popleft()
            if not turn.done():  # it is, if its session waited too long meanwhile
                turn.set_result(None)
                break

    def _fail(self, error: Exception) -> None:
        """Ends the sessions that wait, as the database's errors do."""
        for desks in self._waiting.values():
            for turn in (turn for turns in desks.values() for turn in turns if not turn.done()):
                turn.set_exception(error)
        self._waiting.clear()
