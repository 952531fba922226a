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
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, NamedTuple

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from desks.models import Bookmark
from desks.notices.pace import allowed, interval
from events.http.limits import OFF
from events.statements import listed
from signals.outbound.database import in_database

NAME = "the pace of webhooks "  # the beginning of the name of a bookmark
PATIENCE = 2.0  # seconds that a session waits: meanwhile it keeps others from having one
TOGETHER = 0.01  # seconds between two transactions, so that one counts for many sessions
AGAIN = 0.1  # seconds until the next look while a rate is used up, on average
OLD = timedelta(hours=1)  # of a bookmark that nobody used since


class Ask(NamedTuple):
    """A message that is to be sent: the names of the bookmarks of its host and of its desk."""

    host: str
    desk: str


def ask_for(host: str, desk_id: int) -> Ask:
    """The message of a desk to a host. Its ports are counted together."""
    digest = hashlib.blake2b(host.encode(), digest_size=16).hexdigest()
    return Ask(f"{NAME}at {digest}", f"{NAME}of desk {desk_id}")


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


def take(asks: Sequence[Ask]) -> tuple[list[Ask], set[str]]:
    """Which of these may be sent now, and the bookmarks whose rate refuses others.

    The first ones come first. A rate that another runner counts at this moment refuses, too.
    """
    intervals = {
        **{ask.host: interval(settings.DELIVERY_HOST_RATE) for ask in asks},
        **{ask.desk: interval(settings.DELIVERY_DESK_RATE) for ask in asks},
    }
    intervals = {name: between for name, between in intervals.items() if between}
    granted, used_up = [], set[str]()
    with transaction.atomic():
        rows, free = _locked(set(intervals)), dict[str, int]()
        for name, row in rows.items():
            free[name], row.at = allowed(row.at, row.clock, intervals[name], len(asks))
        for ask in asks:
            names = [name for name in ask if name in intervals]
            if missing := {name for name in names if not free.get(name)}:
                used_up |= missing
                continue
            granted.append(ask)
            for name in names:
                free[name] -= 1
                rows[name].at += intervals[name]
        changed = sorted(intervals.keys() & {name for ask in granted for name in ask})
        Bookmark.objects.bulk_create(
            [Bookmark(name=name, at=rows[name].at) for name in changed],
            update_conflicts=True,
            unique_fields=["name"],
            update_fields=["at"],
        )
    return granted, used_up


def _locked(names: set[str]) -> dict[str, Any]:
    """The bookmarks of these names that no other runner has locked, with the database's time."""
    found = {row.name: row for row in _lock(names)}
    if missing := sorted(names - found.keys()):
        Bookmark.objects.bulk_create(
            [Bookmark(name=name) for name in missing], ignore_conflicts=True
        )
        found |= {row.name: row for row in _lock(missing)}
    return found


def _lock(names: Iterable[str]) -> QuerySet[Bookmark]:
    rows = Bookmark.objects.filter(name__in=listed(names)).annotate(clock=Now()).order_by("name")
    return _free(rows)


def _free(rows: QuerySet[Bookmark]) -> QuerySet[Bookmark]:
    """Those of these rows that nobody else has locked. Locks them."""
    if connection.features.has_select_for_update_skip_locked:
        rows = rows.select_for_update(skip_locked=True)
    return rows


def forget_old() -> None:
    """Deletes bookmarks that nobody used for long: they say no more than none.

    It waits for no row that is in use, which could wait for one that is about to be deleted.
    """
    longest = max(interval(settings.DELIVERY_HOST_RATE), interval(settings.DELIVERY_DESK_RATE))
    old = Q(at=None) | Q(at__lt=timezone.now() - max(OLD, longest))
    with transaction.atomic():
        names = [row.name for row in _free(Bookmark.objects.filter(old, name__startswith=NAME))]
        Bookmark.objects.filter(name__in=listed(names)).delete()
