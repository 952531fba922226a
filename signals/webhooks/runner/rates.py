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
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from events.http.rate_limits import OFF
from events.statements import listed
from signals.outbound.database import in_database
from signals.outbound.schedule import Rate, interval, spend

NAME_PREFIX = "webhooks "  # the beginning of the name of a rate
OLD = timedelta(hours=1)  # of a rate that nobody used since
MAX_WAIT = 2.0  # seconds that a session waits: meanwhile it keeps others from having one
GRANT_INTERVAL = 0.01  # seconds between two looks, so that one transaction counts for many sessions
RECHECK_INTERVAL = 0.1  # seconds until the next look while a rate is used up, on average


class RateNames(NamedTuple):
    """The names of the rates that a message counts for: its host's and its desk's."""

    host: str
    desk: str


def rate_names(host: str, desk_id: int) -> RateNames:
    """The rates of a desk's message to a host. Its ports are counted together."""
    digest = hashlib.blake2b(host.encode(), digest_size=16).hexdigest()
    return RateNames(f"{NAME_PREFIX}at {digest}", f"{NAME_PREFIX}of desk {desk_id}")


def take(messages: Sequence[RateNames]) -> tuple[list[RateNames], set[str]]:
    """Which of these may be sent now, and the rates that refuse others."""
    of_host, of_desk = _intervals()
    hosts = {names.host: of_host for names in messages}
    desks = {names.desk: of_desk for names in messages}
    return spend(messages, hosts | desks)


def forget_old() -> None:
    """Deletes the rates of hosts and desks to which nothing was sent for long: they say nothing.

    It waits for no row that is in use, which could wait for one that is about to be deleted.
    """
    old = Q(used_until=None) | Q(used_until__lt=Now() - max(OLD, *_intervals()))
    with transaction.atomic():
        rows = Rate.objects.filter(old, name__startswith=NAME_PREFIX)
        rows = rows.select_for_update(skip_locked=True, of=("self",))
        Rate.objects.filter(name__in=listed([row.name for row in rows])).delete()


def _intervals() -> tuple[timedelta, timedelta]:
    """The time between two messages to one host, and for one desk; zero for ``off``."""
    return interval(settings.DELIVERY_HOST_RATE), interval(settings.DELIVERY_DESK_RATE)


Grant = asyncio.Future[None]  # it is done once a session may send, or waits no more


class Rates:
    """The sessions that wait to send. It belongs to one event loop."""

    def __init__(self) -> None:
        self._waiting: dict[Grant, RateNames] = {}
        self._sent: dict[RateNames, float] = {}  # when a desk last got a grant at a host
        self._used_up: dict[str, float] = {}  # rates, and when to look at them again
        self._granting: asyncio.Task[None] | None = None

    async def wait(self, host: str, desk_id: int | None) -> bool:
        """Waits until a message may be sent. False if it would take longer than ``MAX_WAIT``.

        ``desk_id`` is None for the platform. ``host`` is empty if nothing will be sent.
        """
        is_off = settings.DELIVERY_HOST_RATE == settings.DELIVERY_DESK_RATE == OFF
        if desk_id is None or not host or is_off:
            return True
        grant: Grant = asyncio.get_running_loop().create_future()
        self._waiting[grant] = rate_names(host, desk_id)
        if self._granting is None:
            self._granting = asyncio.create_task(self._grant())
        try:
            async with asyncio.timeout(MAX_WAIT):
                await grant
        except TimeoutError:
            return False
        return True

    async def _grant(self) -> None:
        """Lets sessions send while any waits: all that wait are decided in one transaction."""
        try:
            while waiting := self._in_order():
                now = time.monotonic()
                self._used_up = {name: at for name, at in self._used_up.items() if at > now}
                asked = [grant for grant in waiting if not self._used_up.keys() & {*waiting[grant]}]
                if asked:
                    await self._take(asked)
                await asyncio.sleep(GRANT_INTERVAL)
        except Exception as error:  # it ends the sessions, as the database's errors do
            for grant in self._waiting:
                if not grant.done():
                    grant.set_exception(error)
        finally:
            self._granting = None
            self._sent.clear()

    def _in_order(self) -> dict[Grant, RateNames]:
        """Those who wait: of each desk one, then the second of each, and so on.

        Among the first ones comes first whose desk had its last grant at the host longest ago.
        """
        self._waiting = {grant: names for grant, names in self._waiting.items() if not grant.done()}
        numbers = Counter[RateNames]()

        def place(one: tuple[Grant, RateNames]) -> tuple[int, float]:
            numbers[one[1]] += 1
            return numbers[one[1]], self._sent.get(one[1], 0.0)

        return dict(sorted(self._waiting.items(), key=place))

    async def _take(self, grants: Sequence[Grant]) -> None:
        """Lets those send whose rates allow it."""
        messages = [self._waiting[grant] for grant in grants]
        granted, used_up = await in_database(take, messages)
        now, left = time.monotonic(), Counter(granted)
        for grant, names in zip(grants, messages, strict=True):
            # It is done if its session waited too long meanwhile.
            if left[names] and not grant.done():
                left[names] -= 1
                self._sent[names] = now
                grant.set_result(None)
        # At random, so that no runner comes always before the others.
        later = now + random.uniform(0.5, 1.5) * RECHECK_INTERVAL  # noqa: S311 # nosec B311
        self._used_up.update(dict.fromkeys(used_up, later))
