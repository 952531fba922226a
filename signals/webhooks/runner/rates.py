"""How fast messages go to one host and for one desk, all runners together.

A session waits here before each message. What a host may get is divided among the desks that
wait for it, one message each in turn, so the webhooks of one desk do not hold up those of another.
The platform's webhooks belong to staff, and are not counted.
"""

import asyncio
import hashlib
import random
import time
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from django.conf import settings

from events.http.limits import OFF
from signals.outbound.database import in_database
from signals.outbound.schedule import forget_unused, interval, spend

NAME = "webhooks "  # the beginning of the name of a rate
PATIENCE = 2.0  # seconds that a session waits: meanwhile it keeps others from having one
TOGETHER = 0.01  # seconds between two looks, so that one transaction counts for many sessions
AGAIN = 0.1  # seconds until the next look while a rate is used up, on average


class Ask(NamedTuple):
    """A message that is to be sent: the names of the rates of its host and of its desk."""

    host: str
    desk: str


def ask_for(host: str, desk_id: int) -> Ask:
    """The message of a desk to a host. Its ports are counted together."""
    digest = hashlib.blake2b(host.encode(), digest_size=16).hexdigest()
    return Ask(f"{NAME}at {digest}", f"{NAME}of desk {desk_id}")


def take(asks: Sequence[Ask]) -> tuple[list[Ask], set[str]]:
    """Which of these may be sent now, and the rates that refuse others."""
    of_host, of_desk = _intervals()
    intervals = {ask.host: of_host for ask in asks} | {ask.desk: of_desk for ask in asks}
    return spend(asks, {name: between for name, between in intervals.items() if between})


def forget_old() -> None:
    """Deletes the rates of hosts and desks to which nothing was sent for long."""
    forget_unused(NAME, max(_intervals()))


def _intervals() -> tuple[timedelta, timedelta]:
    """The time between two messages to one host, and for one desk; zero for ``off``."""
    return interval(settings.DELIVERY_HOST_RATE), interval(settings.DELIVERY_DESK_RATE)


Turn = asyncio.Future[None]  # it is done once a session may send, or waits no more


class Rates:
    """The sessions that wait to send. It belongs to one event loop."""

    def __init__(self) -> None:
        self._waiting: dict[Turn, Ask] = {}
        self._sent: dict[Ask, float] = {}  # when a desk had its last turn at a host
        self._used_up: dict[str, float] = {}  # rates, and when to look at them again
        self._granting: asyncio.Task[None] | None = None

    async def wait(self, host: str, desk_id: int | None) -> bool:
        """Waits until a message may be sent. False if it would take longer than ``PATIENCE``.

        ``desk_id`` is None for the platform. ``host`` is empty if nothing will be sent.
        """
        is_off = settings.DELIVERY_HOST_RATE == settings.DELIVERY_DESK_RATE == OFF
        if desk_id is None or not host or is_off:
            return True
        turn: Turn = asyncio.get_running_loop().create_future()
        self._waiting[turn] = ask_for(host, desk_id)
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
            while waiting := self._in_turn():
                now = time.monotonic()
                self._used_up = {name: at for name, at in self._used_up.items() if at > now}
                asked = [turn for turn in waiting if not self._used_up.keys() & {*waiting[turn]}]
                if asked:
                    await self._take(asked)
                await asyncio.sleep(TOGETHER)
        except Exception as error:  # it ends the sessions, as the database's errors do
            for turn in self._waiting:
                if not turn.done():
                    turn.set_exception(error)
        finally:
            self._granting = None
            self._sent.clear()

    def _in_turn(self) -> dict[Turn, Ask]:
        """Those who wait: of each desk one, then the second of each, and so on.

        Among the first ones comes first whose desk had its last turn at the host longest ago.
        """
        self._waiting = {turn: ask for turn, ask in self._waiting.items() if not turn.done()}
        numbers = Counter[Ask]()

        def place(one: tuple[Turn, Ask]) -> tuple[int, float]:
            numbers[one[1]] += 1
            return numbers[one[1]], self._sent.get(one[1], 0.0)

        return dict(sorted(self._waiting.items(), key=place))

    async def _take(self, turns: Sequence[Turn]) -> None:
        """Lets those send whose rates allow it."""
        asks = [self._waiting[turn] for turn in turns]
        granted, used_up = await in_database(take, asks)
        now, left = time.monotonic(), Counter(granted)
        for turn, ask in zip(turns, asks, strict=True):
            # It is done if its session waited too long meanwhile.
            if left[ask] and not turn.done():
                left[ask] -= 1
                self._sent[ask] = now
                turn.set_result(None)
        # At random, so that no runner comes always before the others.
        later = now + random.uniform(0.5, 1.5) * AGAIN  # noqa: S311 # nosec B311
        self._used_up.update(dict.fromkeys(used_up, later))
