"""A session: one lease of one subscription, from its cursor towards the head of the log."""

import asyncio
import time
from dataclasses import replace
from datetime import timedelta

from django.utils import timezone

from events.times import truncate_to_milliseconds
from signals.outbound.answers import Answer, Fault
from signals.outbound.database import tell_log
from signals.outbound.transport import Endpoint
from signals.webhooks.messages import (
    Message,
    is_proof,
    message_of_test,
    new_challenge,
    signed_headers,
)
from signals.webhooks.models import DeliveryAttempt, Reason, State
from signals.webhooks.outcomes import disable, note_found_key, note_lost_key, verify
from signals.webhooks.runner.leases import LEASE, Leased, Progress
from signals.webhooks.runner.pages import Item, Pages
from signals.webhooks.runner.rates import Rates
from signals.webhooks.runner.retries import GIVE_UP_AFTER, GONE, pause_after
from signals.webhooks.runner.saver import Saver

MOST_UNSAVED = 50  # deliveries
LEAST_LEFT = 12.0  # seconds of the lease when a message is sent, which may take 10
LONGEST_SESSION = 10.0  # seconds; then a new lease reads the subscription anew
SLOW = 1.0  # seconds of an answer that holds up nobody
WITHOUT_TURN = 1.0  # seconds until the next look at one that waited in vain for its turn
WITHOUT_KEY = 600.0  # seconds until a look at one whose URL or secret cannot be decrypted


class Session:
    """Sends messages one after the other until there are none, one fails, or it has to end."""

    def __init__(
        self,
        leased: Leased,
        endpoint: Endpoint,
        *,
        pages: Pages,
        saver: Saver,
        rates: Rates,
        stop: asyncio.Event,
    ) -> None:
        self._leased, self._endpoint = leased, endpoint
        self._pages, self._saver, self._rates, self._stop = pages, saver, rates, stop
        self._row = row = leased.row
        self._failures = row.failures
        self._until = leased.until
        self._is_ours, self._slowest = True, 0.0
        self._ends_at = time.monotonic() + LONGEST_SESSION
        self.has_news = False  # news that came meanwhile
        self._progress = Progress(row.pk, row.lease_generation, row.revision, row.cursor_position)

    @property
    def is_well(self) -> bool:
        """Whether the endpoint took everything, and nothing was delayed."""
        return not self._failures and self._slowest < SLOW

    async def run(self) -> None:
        """Delivers, and ends the lease. Raises nothing but what a bug or the database raises."""
        pause: float | None = 1.0  # after an error
        try:
            pause = await self._deliver()
        finally:
            await self._end(pause)

    async def _deliver(self) -> float | None:
        """Returns the seconds until the next look at the subscription; None: until news."""
        if not self._leased.secrets:
            await tell_log(note_lost_key, subscription=self._row, now=timezone.now())
            self._progress.lacks_key = True
            return WITHOUT_KEY
        if self._row.key_lost_at:
            await tell_log(note_found_key, subscription=self._row)
        if self._row.test_requested_at:
            return await self._test()
        while self._goes_on():
            self.has_news = False
            batch = await self._pages.read(self._row, self._progress.position)
            if batch is None:
                await self._disable(Reason.CURSOR_LOST)
                return None
            for item in batch.items:
                if not await self._has_turn():
                    return WITHOUT_TURN
                if not await self._may_send():
                    return 0.0
                answer = await self._send(item.message, item.position)
                if not answer.is_success:
                    return await self._failed(answer)
                self._delivered(item)
            self._progress.position = max(self._progress.position, batch.examined)
            if not (batch.more or self.has_news):
                return None
        return 0.0

    def _goes_on(self) -> bool:
        is_short = time.monotonic() < self._ends_at
        return is_short and self._is_ours and not self._stop.is_set()

    async def _has_turn(self) -> bool:
        """Whether the rates of the host and the desk let a message go. Waits a little for them."""
        began = time.monotonic()
        has_turn = await self._rates.wait(self._endpoint.host, self._row.desk_id)
        self._slowest = max(self._slowest, time.monotonic() - began)
        return has_turn

    async def _may_send(self) -> bool:
        """Whether the next message may be sent now. Extends the lease if it ends too soon."""
        if not self._goes_on():
            return False
        is_ending = self._until - time.monotonic() < LEAST_LEFT
        if is_ending or len(self._progress.attempts) >= MOST_UNSAVED:
            await self._save()
        return self._goes_on()

    async def _save(self) -> None:
        await self._saver.save(self._progress, self._saved)

    def _saved(self, goes_on: bool, began: float) -> None:
        self._is_ours = self._is_ours and goes_on
        self._until = began + LEASE

    async def _send(
        self, message: Message, position: int | None, challenge: str | None = None
    ) -> Answer:
        """Sends a message once. One with a challenge fails if the answer does not solve that."""
        now, secrets = timezone.now(), self._leased.secrets
        headers = signed_headers(message, secrets, now.timestamp())
        answer = await self._endpoint.send(message.body, headers)
        if challenge and answer.is_success and not is_proof(answer.start, challenge, secrets):
            answer = replace(answer, error=Fault.UNPROVEN)
        self._slowest = max(self._slowest, answer.seconds)
        attempt = DeliveryAttempt(
            subscription=self._row,
            position=position,
            at=truncate_to_milliseconds(now),
            milliseconds=round(answer.seconds * 1000),
            status=answer.status,
            error=answer.error or "",
        )
        self._progress.attempts.append((attempt, b"" if answer.is_success else answer.start))
        return answer

    def _delivered(self, item: Item) -> None:
        self._failures = 0
        progress = self._progress
        progress.position, progress.failures = item.position, 0
        progress.status, progress.has_delivered = self._progress.attempts[-1][0].status, True
        self._saver.add(progress, self._saved)

    async def _failed(self, answer: Answer) -> float:
        self._failures += 1
        self._progress.failures, self._progress.status = self._failures, answer.status
        if answer.status == GONE:
            await self._disable(Reason.GONE)
        elif self._has_failed_for_too_long():
            await self._disable(Reason.FAILED)
        return pause_after(self._failures, answer.retry_after)

    def _has_failed_for_too_long(self) -> bool:
        since = self._row.failing_since if self._failures > 1 else None
        age = self._leased.clock - since if since else timedelta()
        return age.total_seconds() >= GIVE_UP_AFTER

    async def _disable(self, reason: Reason) -> None:
        await tell_log(disable, subscription=self._row, reason=reason)

    async def _test(self) -> float | None:
        """Sends the test. One that succeeds makes an unverified subscription active."""
        asked_at = self._row.test_requested_at
        if asked_at is None or not await self._has_turn() or not await self._may_send():
            return 0.0
        challenge = new_challenge()
        message = message_of_test(self._row.public_id, asked_at, challenge)
        answer = await self._send(message, None, challenge)
        if answer.is_success:
            await tell_log(verify, subscription=self._row)
        self._progress.was_tested = True
        if answer.is_success:
            return 0.0
        if answer.status == GONE and self._row.state == State.ACTIVE:
            await self._disable(Reason.GONE)
        return pause_after(self._failures, answer.retry_after) if self._failures else 0.0

    async def _end(self, pause: float | None) -> None:
        self._progress.is_over, self._progress.pause = True, pause
        await self._save()
