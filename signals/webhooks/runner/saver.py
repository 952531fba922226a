"""Saves what sessions have done, all of them together, every 100 ms.

The attempts beyond those that are kept are dropped every few seconds, not with each delivery.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress

from signals.outbound.database import in_database
from signals.webhooks.models import DeliveryAttempt
from signals.webhooks.runner.leases import Progress, save

INTERVAL = 0.1  # seconds
RETRY = 0.5  # seconds until the next attempt while the database is down
MOST = 100  # sessions in one transaction

log = logging.getLogger(__name__)

# Called with whether the session may go on, and the monotonic time at which its lease was extended.
Saved = Callable[[bool, float], None]


class Saver:
    """Collects the progress of sessions. A session adds the same ``Progress`` again and again."""

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[Progress, Saved]] = {}
        self._waiters: dict[int, list[asyncio.Future[None]]] = {}
        self._hurried = asyncio.Event()
        self._tried: set[int] = set()  # subscriptions with attempts since trim()

    def add(self, progress: Progress, saved: Saved) -> None:
        """Saves the progress within 100 ms."""
        self._waiting[progress.pk] = progress, saved

    async def save(self, progress: Progress, saved: Saved) -> None:
        """Saves the progress at once, and returns when that is done."""
        self.add(progress, saved)
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(progress.pk, []).append(waiter)
        self._hurried.set()
        await waiter

    async def run(self) -> None:
        """Saves until it is cancelled. While the database is down it keeps what it has."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._hurried.wait(), INTERVAL)
            self._hurried.clear()
            while self._waiting:
                await self._save_some(sorted(self._waiting)[:MOST])

    async def trim(self) -> None:
        """Drops the attempts beyond those that are kept."""
        tried, self._tried = self._tried, set()
        if tried:
            await in_database(DeliveryAttempt.objects.trim, tried)

    async def _save_some(self, ids: list[int]) -> None:
        some = {pk: self._waiting.pop(pk) for pk in ids}
        waiters = {pk: self._waiters.pop(pk, []) for pk in ids}
        began = time.monotonic()
        taken = [progress.take() for progress, _ in some.values()]
        try:
            going_on = await in_database(save, taken)
        except Exception:  # of the database or ours: without the saver every session would hang
            log.exception("What was delivered could not be saved. Trying again.")
            for progress, (owner, saved) in zip(taken, some.values(), strict=True):
                owner.put_back(progress)
                self._waiting.setdefault(progress.pk, (owner, saved))
                self._waiters.setdefault(progress.pk, []).extend(waiters.get(progress.pk, ()))
            await asyncio.sleep(RETRY)
            return
        self._tried.update(progress.pk for progress in taken if progress.attempts)
        for pk, (_, saved) in some.items():
            saved(pk in going_on, began)
            for waiter in waiters[pk]:
                if not waiter.done():
                    waiter.set_result(None)
