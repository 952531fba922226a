"""The runner of subscriptions: finds what is due, leases it, and starts sessions.

Any number of processes may run it. Each hears of every new event and tries to lease whom it
concerns; the database gives each subscription to one of them.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress

from django.db import DatabaseError, InterfaceError

from events.live.hub import hub
from events.models import Head
from signals.outbound.database import in_database, wait_in_database
from signals.outbound.transport import Client
from signals.webhooks.runner import news
from signals.webhooks.runner.leases import Leased, due, lease
from signals.webhooks.runner.lines import Lines
from signals.webhooks.runner.pages import Pages
from signals.webhooks.runner.rates import Rates, forget_old
from signals.webhooks.runner.saver import Saver
from signals.webhooks.runner.sessions import Session
from signals.webhooks.runner.wanted import MOST_SESSIONS, Wanted

DUE_INTERVAL = 1.0  # seconds
TRIM_INTERVAL = 5.0  # seconds
QUIET_INTERVAL = 600.0  # seconds
RETRY = 0.5  # seconds until the next attempt while the database is down
LONGEST_WAIT = 1.0  # seconds for news, so that a stop is noticed
DRAIN = 15.0  # seconds: a message that is in flight takes 10

log = logging.getLogger(__name__)


async def deliver_subscriptions(stop: asyncio.Event) -> None:
    """Delivers until ``stop`` is set; then lets what is in flight end."""
    await Runner(Client(), stop).run()


class Runner:
    """What is wanted, what runs, and the loops that feed them."""

    def __init__(self, client: Client, stop: asyncio.Event) -> None:
        self._stop = stop
        self._lines = Lines(client)
        self._pages = Pages()
        self._saver = Saver()
        self._rates = Rates()
        self._wanted = Wanted()
        self._sessions: dict[int, Session] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._again: set[int] = set()
        self._position: int | None = None

    async def run(self) -> None:
        saver = asyncio.create_task(self._saver.run())
        loops = [
            asyncio.create_task(self._repeat(*each))
            for each in (
                (self._follow, 0.0),
                (self._lease_wanted, 0.0),
                (self._find_due, DUE_INTERVAL),
                (self._look_behind, QUIET_INTERVAL),
                (self._lines.close_old, DUE_INTERVAL),
                (self._saver.trim, TRIM_INTERVAL),
            )
        ]
        await self._stop.wait()
        self._changed.set()
        await asyncio.gather(*loops)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=DRAIN)
        saver.cancel()
        with suppress(DatabaseError, InterfaceError):
            await self._saver.trim()
        await self._lines.close_old(all_of_them=True)

    async def _repeat(self, step: Callable[[], Awaitable[None]], pause: float) -> None:
        """Repeats a step until the end. While the database is down it tries again."""
        while not self._stop.is_set():
            wait = pause
            try:
                await step()
            except (DatabaseError, InterfaceError) as error:
                log.warning("The database is unavailable: %s", type(error).__name__)
                wait = RETRY
            except Exception:  # an error of ours must not end this loop while the others go on
                log.exception("A step of the runner failed.")
                wait = RETRY
            if wait:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stop.wait(), wait)

    def _want(self, ids: Collection[int]) -> None:
        news = set(ids)
        running = news & self._sessions.keys()
        for pk in running:
            self._sessions[pk].has_news = True
        self._wanted.add(pk for pk in ids if pk not in running)
        self._changed.set()

    async def _follow(self) -> None:
        """Hears of new events."""
        if self._position is None:
            self._position = await in_database(news.head)
            self._want(await in_database(news.behind))
        newest = await wait_in_database(hub.wait_beyond, self._position, LONGEST_WAIT)
        if newest < self._position:  # the database was restored
            self._position = None
        elif newest > self._position:
            found = await in_database(news.with_news, self._position, newest)
            self._position = newest
            self._want(found)

    async def _find_due(self) -> None:
        found = await in_database(due, MOST_SESSIONS)
        for pk, is_failing in found:
            if is_failing:
                self._wanted.is_known(pk, is_well=False)
        self._want([pk for pk, _ in found if pk not in self._sessions])

    async def _look_behind(self) -> None:
        """Finds what was missed, if anything was, and lets the cursors of the quiet catch up."""
        head = await in_database(Head.objects.get)
        self._want(await in_database(news.behind))
        await in_database(news.advance_quiet, head.epoch, head.position)
        await in_database(forget_old)

    async def _lease_wanted(self) -> None:
        """Leases what is wanted, as far as there is room. A session that ends sets ``_changed``."""
        await self._changed.wait()
        self._changed.clear()
        while not self._stop.is_set() and (ids := self._wanted.take()):
            try:
                leased, locked = await in_database(lease, ids)
            except (DatabaseError, InterfaceError):
                self._want(ids)
                raise
            for one in leased:
                self._start(one)
            # Once more for rows that somebody had locked.
            again = [pk for pk in locked if pk not in self._again]
            self._again.difference_update(ids)
            self._again.update(again)
            if again:
                asyncio.get_running_loop().call_later(RETRY, self._want, again)

    def _start(self, leased: Leased) -> None:
        endpoint = self._lines.take(leased)
        session = Session(
            leased,
            endpoint,
            pages=self._pages,
            saver=self._saver,
            rates=self._rates,
            stop=self._stop,
        )
        pk = leased.row.pk
        self._sessions[pk] = session
        self._wanted.start(pk)

        async def run() -> None:
            try:
                await session.run()
            except (DatabaseError, InterfaceError) as error:
                log.warning("A session ended: %s", type(error).__name__)
            except Exception:
                log.exception("A session ended with an error.")
            finally:
                del self._sessions[pk]
                self._wanted.end(pk, is_well=session.is_well)
                self._lines.put(leased, endpoint)
                if session.has_news:
                    self._want([pk])
                self._changed.set()

        task = asyncio.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
