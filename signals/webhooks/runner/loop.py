"""The runner of webhooks: finds what is due, leases it, and starts sessions.

Any number of processes may run it. Each hears of every new event and tries to lease the webhooks
that it concerns; the database gives each webhook to one of them.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import suppress
from itertools import islice

from django.db import DatabaseError, InterfaceError, OperationalError

from events.feed import read_head
from signals.outbound.database import follow_log, in_database, read_database
from signals.outbound.guarded_client import KEEP_ALIVE, Client, Endpoint
from signals.webhooks.runner.delivery import (
    NO_PAUSE,
    Lease,
    Session,
    due,
    finish,
    lease,
    make_due,
)
from signals.webhooks.runner.pending_events import (
    Batch,
    advance_quiet,
    behind,
    read_together,
    with_news,
)
from signals.webhooks.runner.rates import Rates, forget_old

MOST_SESSIONS = 1500  # at a time, in one process
MOST_SLOW = 500  # of them, with endpoints that failed last or were slow
BATCH_SIZE = 100  # webhooks in one lease, and sessions that are saved at once
SLOW_BATCH_SIZE = 5  # slow webhooks in one lease
MOST_KEPT = 1000  # connections that are not in use

SLOW_INTERVAL = 0.1  # seconds between two leases of slow webhooks: 50 sessions a second begin
DUE_INTERVAL = 1.0  # seconds
BEHIND_INTERVAL = 600.0  # seconds
RETRY = 0.5  # seconds until the next attempt while the database is down
LOOK_INTERVAL = 0.08  # seconds between two looks at the head of the log
QUEUE_INTERVAL = 0.02  # seconds between two looks at what waits in this process
DRAIN = 15.0  # seconds: a message that is in flight takes 10

log = logging.getLogger(__name__)


async def deliver_webhooks(stop: asyncio.Event) -> None:
    """Delivers until ``stop`` is set; then lets what is in flight end."""
    await Runner(Client(), stop).run()


class SessionQueue:
    """The webhooks that wait for a session, in order, and those that have one.

    An endpoint that hangs occupies one session only.

    Webhooks whose last delivery failed or was slow wait apart, and get a part of the sessions
    only. They are leased apart, at a steady rate, because many that failed together are due again
    together. So however many endpoints hang, there is room for the others, and nobody waits behind
    them.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, None] = {}
        self._slow: set[int] = set()
        self._running: dict[int, bool] = {}  # whether there is news since it began

    def add(self, ids: Iterable[int]) -> None:
        """Adds webhooks. One that waits keeps its place, one that runs has news."""
        for pk in ids:
            if pk in self._running:
                self._running[pk] = True
            else:
                self._waiting.setdefault(pk)

    def add_slow(self, ids: Collection[int]) -> None:
        """Adds webhooks whose last delivery failed."""
        self._slow.update(ids)
        self.add(ids)

    def take(self) -> list[int]:
        """The next ones for which there is room. Call ``end`` for each of them."""
        return self._take(min(self._room, BATCH_SIZE), slow=False)

    def take_slow(self) -> list[int]:
        """The same of those whose last delivery failed or was slow."""
        slow_room = MOST_SLOW - len(self._running.keys() & self._slow)
        return self._take(min(self._room, slow_room, SLOW_BATCH_SIZE), slow=True)

    @property
    def _room(self) -> int:
        return MOST_SESSIONS - len(self._running)

    def _take(self, most: int, *, slow: bool) -> list[int]:
        chosen = (pk for pk in self._waiting if (pk in self._slow) == slow)
        ids = list(islice(chosen, max(0, most)))
        for pk in ids:
            del self._waiting[pk]
            self._running[pk] = False
        return ids

    @property
    def waiting(self) -> list[int]:
        return list(self._waiting)

    @property
    def has_running(self) -> bool:
        return bool(self._running)

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
    """Connections to endpoints that are kept between sessions, by webhook."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._kept: dict[int, tuple[Endpoint, str, float]] = {}  # the oldest first

    def take(self, leased: Lease) -> Endpoint:
        """The kept connection to this URL, or a new one."""
        endpoint, url, _ = self._kept.pop(leased.row.pk, (None, "", 0.0))
        if endpoint is not None and url == leased.url:
            return endpoint
        return self._client.endpoint(leased.url)

    def put(self, leased: Lease, endpoint: Endpoint) -> None:
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


class Runner:
    """What waits, what runs, what is to be saved, and the loops that feed them."""

    def __init__(self, client: Client, stop: asyncio.Event) -> None:
        self._stop = stop
        self._connections = Connections(client)
        self._rates = Rates()
        self._queue = SessionQueue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended: list[Session] = []  # what they have done is not saved yet
        self._saved = asyncio.Event()  # the runner stops, and nothing is in flight or to be saved
        self._position = 0  # of the log, up to which it is known who has news

    async def run(self) -> None:
        steps = (
            (self._follow, LOOK_INTERVAL),
            (self._lease_waiting, QUEUE_INTERVAL),
            (self._lease_slow, SLOW_INTERVAL),
            (self._find_due, DUE_INTERVAL),
            (self._look_behind, BEHIND_INTERVAL),
            (self._connections.close_old, DUE_INTERVAL),
        )
        loops = [asyncio.create_task(self._repeat(*each, self._stop)) for each in steps]
        saving = asyncio.create_task(self._repeat(self._save, QUEUE_INTERVAL, self._saved))
        await self._stop.wait()
        await asyncio.gather(*loops)
        with suppress(DatabaseError, InterfaceError):
            await self._hand_over()
        await asyncio.wait([saving], timeout=DRAIN)
        await self._connections.close_old(most=0)

    async def _repeat(
        self, step: Callable[[], Awaitable[None]], pause: float, over: asyncio.Event
    ) -> None:
        """Repeats a step until ``over`` is set. While the database is down it tries again."""
        while not over.is_set():
            wait = RETRY
            try:
                await step()
                wait = pause
            except (DatabaseError, InterfaceError) as error:
                log.warning("The database is unavailable: %s", type(error).__name__)
            except Exception:  # an error of ours must not end this loop while the others go on
                log.exception("A step of the runner failed.")
            with suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), wait)

    async def _follow(self) -> None:
        """Looks for new events."""
        newest = (await follow_log(read_head)).position
        if newest < self._position:  # the database was restored
            self._position = 0
        if newest > self._position:
            self._queue.add(await in_database(with_news, self._position, newest))
        self._position = newest

    async def _find_due(self) -> None:
        found = await in_database(due, MOST_SESSIONS)
        self._queue.add_slow([pk for pk, has_failed in found if has_failed])
        self._queue.add(pk for pk, has_failed in found if not has_failed)

    async def _look_behind(self) -> None:
        """Finds what was missed, moves the cursors of the quiet, and forgets unused rates."""
        head = await in_database(read_head)
        self._queue.add(await in_database(behind))
        await in_database(advance_quiet, head.epoch, head.position)
        await in_database(forget_old)

    async def _hand_over(self) -> None:
        """Leaves those that wait here to another runner, which may have dropped their news.

        It dropped news of what this runner had leased then.
        """
        await self._follow()
        await in_database(make_due, self._queue.waiting)

    async def _lease_waiting(self) -> None:
        """Leases who waits, as far as there is room."""
        while not self._stop.is_set() and (ids := self._queue.take()):
            await self._lease(ids)

    async def _lease_slow(self) -> None:
        """Leases some of those whose last delivery failed or was slow."""
        if ids := self._queue.take_slow():
            await self._lease(ids)

    async def _lease(self, ids: list[int]) -> None:
        """Leases these and starts their sessions."""
        leased: list[Lease] = []
        again = ids  # if the database is down
        try:
            leased, again = await in_database(lease, ids)
        finally:
            for pk in set(ids).difference(one.row.pk for one in leased):
                self._queue.end(pk)
            if again:
                asyncio.get_running_loop().call_later(RETRY, self._queue.add, again)
        await self._start(leased)

    async def _save(self) -> None:
        """Saves what sessions have done, many of them together, and makes room for others."""
        while some := self._ended[:BATCH_SIZE]:
            if self._stop.is_set():
                # This runner looks for no more news, and another one drops news of what is leased.
                for session in some:
                    if session.lease.pause is None:
                        session.lease.pause = NO_PAUSE
            try:
                await in_database(finish, [session.lease for session in some])
            except (OperationalError, InterfaceError):
                raise  # it is tried again
            except Exception:  # their leases end by themselves
                log.exception("What was delivered could not be saved.")
            del self._ended[: len(some)]
            for session in some:
                pk = session.lease.row.pk
                if session.lease.pause == NO_PAUSE:
                    self._queue.add([pk])
                self._queue.end(pk, is_slow=session.is_slow)
        if self._stop.is_set() and not self._queue.has_running:
            self._saved.set()

    async def _start(self, leased: Sequence[Lease]) -> None:
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

    async def _run(self, leased: Lease, batch: Batch | None) -> None:
        """Runs a session."""
        endpoint = self._connections.take(leased)
        session = Session(leased, batch, endpoint, self._rates, self._stop)
        try:
            await session.run()
        except (DatabaseError, InterfaceError) as error:
            log.warning("A session ended: %s", type(error).__name__)
        except Exception:
            log.exception("A session ended with an error.")
        self._connections.put(leased, endpoint)
        self._ended.append(session)
