"""A session: one lease of one subscription, and one page of the events after its cursor."""

import asyncio
import time
from dataclasses import replace
from datetime import datetime, timedelta

from django.utils import timezone

from events.times import truncate_to_milliseconds
from signals.outbound.answers import Answer, Fault
from signals.outbound.database import read_database, tell_log
from signals.outbound.schedule import pause_after
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
from signals.webhooks.runner.leases import Leased, Outcome
from signals.webhooks.runner.pages import Batch, Item, read_alone
from signals.webhooks.runner.rates import Rates

# After the first failure, the second, and so on; the last for all that follow.
PAUSES = tuple(timedelta(seconds=n) for n in (5, 30, 120, 600, 1800, 3600, 3 * 3600))
JITTER = 0.2
GIVE_UP_AFTER = timedelta(hours=75)  # of failures only
GONE = 410
LEAST_LEFT = 12.0  # seconds of the lease when a message is sent, which may take 10
LONGEST_SESSION = 1.0  # seconds; then what was done is saved, and a new lease goes on
SLOW = 1.0  # seconds of an answer that holds up nobody
AT_ONCE = timedelta(0)
WITHOUT_TURN = timedelta(seconds=1)  # for one that waited in vain for its turn
WITHOUT_KEY = timedelta(minutes=10)  # for one whose URL or secret cannot be decrypted


class Session:
    """Sends messages one after the other until the page ends, one fails, or its time is over.

    ``outcome`` is what it has done. A lease is never extended: it is much longer than a session.
    """

    def __init__(
        self,
        leased: Leased,
        batch: Batch | None,
        endpoint: Endpoint,
        *,
        rates: Rates,
        stop: asyncio.Event,
    ) -> None:
        self._leased, self._batch, self._endpoint = leased, batch, endpoint
        self._rates, self._stop = rates, stop
        self._row, self._slowest = leased.row, 0.0
        self.outcome = Outcome(leased.row, leased.row.cursor_position)

    @property
    def is_slow(self) -> bool:
        """Whether the endpoint failed, or something was delayed."""
        failures = self.outcome.failures
        has_failed = bool(self._row.failures if failures is None else failures)
        return has_failed or self._slowest >= SLOW

    async def run(self) -> None:
        """Delivers. Raises nothing but what a bug or the database raises."""
        self.outcome.pause = await self._deliver()

    async def _deliver(self) -> timedelta | None:
        """Returns the time until the next look at the subscription; None: until news."""
        if not self._leased.secrets:
            await tell_log(note_lost_key, subscription=self._row, now=timezone.now())
            self.outcome.lacks_key = True
            return WITHOUT_KEY
        if self._row.key_lost_at:
            await tell_log(note_found_key, subscription=self._row)
        if self._row.test_requested_at:
            return await self._test(self._row.test_requested_at)
        batch = self._batch or await read_database(read_alone, self._row)
        if batch is None:
            await self._disable(Reason.CURSOR_LOST)
            return None
        ends_at = time.monotonic() + LONGEST_SESSION
        for item in batch.items:
            if time.monotonic() >= ends_at:
                return AT_ONCE
            if not await self._has_turn():
                return WITHOUT_TURN
            if not self._may_send():
                return AT_ONCE
            answer = await self._send(item.message, item.position)
            if not answer.is_success:
                return await self._failed(answer)
            self._delivered(item, answer)
        self.outcome.position = max(self.outcome.position, batch.examined)
        return AT_ONCE if batch.more else None

    async def _has_turn(self) -> bool:
        """Whether the rates of the host and the desk let a message go. Waits a little for them."""
        began = time.monotonic()
        has_turn = await self._rates.wait(self._endpoint.host, self._row.desk_id)
        self._slowest = max(self._slowest, time.monotonic() - began)
        return has_turn

    def _may_send(self) -> bool:
        """Whether a message can be sent before the lease ends, however long that takes."""
        is_ending = self._leased.until - time.monotonic() < LEAST_LEFT
        return not is_ending and not self._stop.is_set()

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
        self.outcome.attempts.append((attempt, b"" if answer.is_success else answer.start))
        return answer

    def _delivered(self, item: Item, answer: Answer) -> None:
        outcome = self.outcome
        outcome.position, outcome.failures = item.position, 0
        outcome.status, outcome.has_delivered = answer.status, True

    async def _failed(self, answer: Answer) -> timedelta:
        failures = 1 if self.outcome.has_delivered else self._row.failures + 1
        self.outcome.failures, self.outcome.status = failures, answer.status
        since = self._row.failing_since if failures > 1 else None
        if answer.status == GONE:
            await self._disable(Reason.GONE)
        elif since and self._leased.clock - since >= GIVE_UP_AFTER:
            await self._disable(Reason.FAILED)
        return pause_after(failures, PAUSES, answer.retry_after, JITTER)

    async def _disable(self, reason: Reason) -> None:
        await tell_log(disable, subscription=self._row, reason=reason)

    async def _test(self, asked_at: datetime) -> timedelta | None:
        """Sends the test. One that succeeds makes an unverified subscription active."""
        if not await self._has_turn():
            return WITHOUT_TURN
        if not self._may_send():
            return AT_ONCE
        challenge = new_challenge()
        message = message_of_test(self._row.public_id, asked_at, challenge)
        answer = await self._send(message, None, challenge)
        self.outcome.was_tested = True
        if answer.is_success:
            await tell_log(verify, subscription=self._row)
        elif answer.status == GONE and self._row.state == State.ACTIVE:
            await self._disable(Reason.GONE)
        elif self._row.failures:
            return pause_after(self._row.failures, PAUSES, answer.retry_after, JITTER)
        return AT_ONCE
