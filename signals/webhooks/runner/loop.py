"""The runner of subscriptions: finds what is due, leases it, and starts sessions.

Any number of processes may run it. Each hears of every new event and tries to lease whom it
concerns; the database gives each subscription to one of them.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from itertools import islice

from django.db import DatabaseError, InterfaceError, OperationalError

from events.live.hub import hub
from events.models import Head
from signals.outbound.database import in_database, read_database, wait_in_database
from signals.outbound.transport import KEEP_ALIVE, Client, Endpoint
from signals.webhooks.models import DeliveryAttempt
from signals.webhooks.runner import news
from signals.webhooks.runner.leases import Leased, Outcome, due, finish, lease
from signals.webhooks.runner.pages import Batch, read_together
from signals.webhooks.runner.rates import Rates, forget_old
from signals.webhooks.runner.sessions import AT_ONCE, Session

MOST_SESSIONS = 1500  # at a time, in one process
MOST_SLOW = 500  # of them, with endpoints that failed last or were slow
TOGETHER = 100  # subscriptions in one lease, and sessions that are saved at once
SLOW_TOGETHER = 25  # more of them in the same lease
MOST_KEPT = 1000  # connections that are not in use

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


class Slots:
    """Who waits for a session, in order, and who has one: an endpoint that hangs costs its own.

    Subscriptions whose last delivery failed or was slow wait apart, and get a part of the sessions
    only. So however many endpoints hang, there is room for the others, and nobody waits behind
    them.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, None] = {}
        self._slow_waiting: dict[int, None] = {}
        self._slow: set[int] = set()
        self._running: dict[int, bool] = {}  # whether there is news since it began

    def add(self, ids: Iterable[int]) -> None:
        """Adds subscriptions. One that waits keeps its place, one that runs has news."""
        for pk in ids:
            if pk in self._running:
                self._running[pk] = True
            else:
                (self._slow_waiting if pk in self._slow else self._waiting).setdefault(pk)

    def add_slow(self, ids: Iterable[int]) -> None:
        """Adds subscriptions whose last delivery failed."""
        for pk in ids:
            self._slow.add(pk)
            self._waiting.pop(pk, None)
            self.add([pk])

    def take(self) -> list[int]:
        """The next ones for which there is room. Call ``end`` for each of them."""
        room = MOST_SESSIONS - len(self._running)
        slow_room = MOST_SLOW - len(self._running.keys() & self._slow)
        ids = list(islice(self._waiting, min(room, TOGETHER)))
        slow = max(0, min(room - len(ids), slow_room, SLOW_TOGETHER))
        ids += islice(self._slow_waiting, slow)
        for pk in ids:
            self._waiting.pop(pk, None)
            self._slow_waiting.pop(pk, None)
            self._running[pk] = False
        return ids

    def end(self, pk: int, *, is_slow: bool | None = None) -> None:
        """The session is over. With news meanwhile it waits again.

        ``is_slow`` is None if there was no session, because nothing could be leased.
        """
        if is_slow:
            self._slow.add(pk)
        elif is_slow is not None:
            self._slow.discard(pk)
        if self._running.pop(pk):
            self.add([pk])


class Connections:
    """Connections to endpoints that are kept between sessions, by subscription."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._kept: dict[int, tuple[Endpoint, str, float]] = {}  # the oldest first

    def take(self, leased: Leased) -> Endpoint:
        """The kept connection to this URL, or a new one."""
        endpoint, url, _ = self._kept.pop(leased.row.pk, (None, "", 0.0))
        if endpoint is not None and url == leased.url:
            return endpoint
        return self._client.endpoint(leased.url)

    def put(self, leased: Leased, endpoint: Endpoint) -> None:
        self._kept[leased.row.pk] = endpoint, leased.url, time.monotonic() + KEEP_ALIVE

    async def close_old(self, most: int = MOST_KEPT) -> None:
        """Ends the connections that nobody used for a while, and what is too many."""
        now = time.monotonic()
        while self._kept:
            pk, (endpoint, _, ends_at) = next(iter(self._kept.items()))
            if ends_at > now and len(self._kept) <= most:
                break
            del self._kept[pk]
            await endpoint.close()


class Saver:
    """Saves what sessions have done: together what ends while another save is under way."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Outcome, asyncio.Future[None]]] = []
        self._saving: asyncio.Task[None] | None = None
        self._tried: set[int] = set()  # subscriptions with attempts since trim()

    async def save(self, outcome: Outcome) -> None:
        """Returns when the outcome is saved. While the database is down, it waits."""
        saved: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((outcome, saved))
        if self._saving is None:
            self._saving = asyncio.create_task(self._save_waiting())
        await saved

    async def _save_waiting(self) -> None:
        while some := self._waiting[:TOGETHER]:
            try:
                await in_database(finish, [outcome for outcome, _ in some])
            except (OperationalError, InterfaceError) as error:
                log.warning("What was delivered waits to be saved: %s", type(error).__name__)
                await asyncio.sleep(RETRY)
                continue
            except Exception:  # their leases end by themselves
                log.exception("What was delivered could not be saved.")
            del self._waiting[: len(some)]
            for outcome, saved in some:
                if outcome.attempts:
                    self._tried.add(outcome.row.pk)
                if not saved.done():
                    saved.set_result(None)
        self._saving = None

    async def trim(self) -> None:
        """Drops the attempts beyond those that are kept: not with each delivery."""
        tried, self._tried = self._tried, set()
        if tried:
            await in_database(DeliveryAttempt.objects.trim, tried)


class Runner:
    """What waits, what runs, and the loops that feed them."""

    def __init__(self, client: Client, stop: asyncio.Event) -> None:
        self._stop = stop
        self._connections = Connections(client)
        self._saver = Saver()
        self._rates = Rates()
        self._slots = Slots()
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._position: int | None = None

    async def run(self) -> None:
        steps = (
            (self._follow, 0.0),
            (self._lease_waiting, 0.0),
            (self._find_due, DUE_INTERVAL),
            (self._look_behind, QUIET_INTERVAL),
            (self._connections.close_old, DUE_INTERVAL),
            (self._saver.trim, TRIM_INTERVAL),
        )
        loops = [asyncio.create_task(self._repeat(*each)) for each in steps]
        await self._stop.wait()
        self._changed.set()
        await asyncio.gather(*loops)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=DRAIN)
        with suppress(DatabaseError, InterfaceError):
            await self._saver.trim()
        await self._connections.close_old(most=0)

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

    def _add(self, ids: Iterable[int]) -> None:
        self._slots.add(ids)
        self._changed.set()

    async def _follow(self) -> None:
        """Hears of new events."""
        if self._position is None:
            self._position = await in_database(news.head)
            self._add(await in_database(news.behind))
        newest = await wait_in_database(hub.wait_beyond, self._position, LONGEST_WAIT)
        if newest < self._position:  # the database was restored
            self._position = None
        elif newest > self._position:
            found = await in_database(news.with_news, self._position, newest)
            self._position = newest
            self._add(found)

    async def _find_due(self) -> None:
        found = await in_database(due, MOST_SESSIONS)
        self._slots.add_slow(pk for pk, has_failed in found if has_failed)
        self._add(pk for pk, has_failed in found if not has_failed)

    async def _look_behind(self) -> None:
        """Finds what was missed, if anything was, and lets the cursors of the quiet catch up."""
        head = await in_database(Head.objects.get)
        self._add(await in_database(news.behind))
        await in_database(news.advance_quiet, head.epoch, head.position)
        await in_database(forget_old)

    async def _lease_waiting(self) -> None:
        """Leases who waits, as far as there is room. A session that ends sets ``_changed``."""
        await self._changed.wait()
        self._changed.clear()
        while not self._stop.is_set() and (ids := self._slots.take()):
            leased: list[Leased] = []
            again = ids  # if the database is down
            try:
                leased, again = await in_database(lease, ids)
            finally:
                for pk in set(ids).difference(one.row.pk for one in leased):
                    self._slots.end(pk)
                if again:
                    asyncio.get_running_loop().call_later(RETRY, self._add, again)
            await self._start(leased)

    async def _start(self, leased: Sequence[Leased]) -> None:
        """Starts a session for each, with the pages of those that can be read together."""
        batches: dict[int, Batch] = {}
        try:
            batches = await read_database(read_together, [one.row for one in leased])
        except Exception as error:  # each session reads its own page, and says more if that fails
            log.warning("Pages could not be read together: %s", type(error).__name__)
        for one in leased:
            task = asyncio.create_task(self._run(one, batches.get(one.row.pk)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _run(self, leased: Leased, batch: Batch | None) -> None:
        """Runs a session and saves what it has done."""
        pk = leased.row.pk
        endpoint = self._connections.take(leased)
        session = Session(leased, batch, endpoint, rates=self._rates, stop=self._stop)
        try:
            await session.run()
        except (DatabaseError, InterfaceError) as error:
            log.warning("A session ended: %s", type(error).__name__)
        except Exception:
            log.exception("A session ended with an error.")
        self._connections.put(leased, endpoint)
        await self._saver.save(session.outcome)
        if session.outcome.pause == AT_ONCE:
            self._slots.add([pk])
        self._slots.end(pk, is_slow=session.is_slow)
        self._changed.set()
