"""A session: one lease of one webhook, and one page of the events after its cursor."""

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
from signals.webhooks.actions import disable, verify
from signals.webhooks.messages import (
    Message,
    is_proof,
    message_of_test,
    new_challenge,
    signed_headers,
)
from signals.webhooks.models import DeliveryAttempt, Reason, State
from signals.webhooks.runner.leases import Lease
from signals.webhooks.runner.pages import Batch, read_alone
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

    What it has done stands in ``lease``, which is never extended: it is much longer than a session.
    """

    def __init__(
        self,
        lease: Lease,
        batch: Batch | None,
        endpoint: Endpoint,
        *,
        rates: Rates,
        stop: asyncio.Event,
    ) -> None:
        self.lease, self._batch, self._endpoint = lease, batch, endpoint
        self._rates, self._stop = rates, stop
        self._row, self._slowest = lease.row, 0.0

    @property
    def is_slow(self) -> bool:
        """Whether the endpoint failed, or something was delayed."""
        failures = self.lease.failures
        has_failed = bool(self._row.failures if failures is None else failures)
        return has_failed or self._slowest >= SLOW

    async def run(self) -> None:
        """Delivers. Raises nothing but what a bug or the database raises."""
        self.lease.pause = await self._deliver()

    async def _deliver(self) -> timedelta | None:
        """Returns the time until the next look at the webhook; None: until news."""
        if not self.lease.secrets:
            return WITHOUT_KEY
        if self._row.test_requested_at:
            return await self._test(self._row.test_requested_at)
        batch = self._batch or await read_database(read_alone, self._row)
        if batch is None:
            await self._disable(Reason.CURSOR_LOST)
            return None
        ends_at = time.monotonic() + LONGEST_SESSION
        for message in batch.messages:
            if time.monotonic() >= ends_at:
                return AT_ONCE
            if (pause := await self._wait()) is not None:
                return pause
            answer = await self._send(message)
            if not answer.is_success:
                return await self._failed(answer)
            self._delivered(message, answer)
        self.lease.position = max(self.lease.position, batch.examined)
        return AT_ONCE if batch.more else None

    async def _wait(self) -> timedelta | None:
        """Waits a little until a message may be sent.

        Returns the time until the next look if none may: because of the rates of the host and the
        desk, because the lease might end before it arrives, or because the runner stops.
        """
        began = time.monotonic()
        has_turn = await self._rates.wait(self._endpoint.host, self._row.desk_id)
        now = time.monotonic()
        self._slowest = max(self._slowest, now - began)
        if not has_turn:
            return WITHOUT_TURN
        is_ending = self.lease.until - now < LEAST_LEFT
        return AT_ONCE if is_ending or self._stop.is_set() else None

    async def _send(self, message: Message, challenge: str | None = None) -> Answer:
        """Sends a message once. One with a challenge fails if the answer does not solve that."""
        now, secrets = timezone.now(), self.lease.secrets
        headers = signed_headers(message, secrets, now.timestamp())
        answer = await self._endpoint.send(message.body, headers)
        if challenge and answer.is_success and not is_proof(answer.start, challenge, secrets):
            answer = replace(answer, error=Fault.UNPROVEN)
        self._slowest = max(self._slowest, answer.seconds)
        attempt = DeliveryAttempt(
            subscription=self._row,
            position=message.position or None,
            at=truncate_to_milliseconds(now),
            milliseconds=round(answer.seconds * 1000),
            status=answer.status,
            error=answer.error or "",
        )
        if not answer.is_success:
            attempt.keep_answer(answer.start)
        self.lease.attempts.append(attempt)
        return answer

    def _delivered(self, message: Message, answer: Answer) -> None:
        lease = self.lease
        lease.position, lease.failures = message.position, 0
        lease.status, lease.has_delivered = answer.status, True

    async def _failed(self, answer: Answer) -> timedelta:
        failures = 1 if self.lease.has_delivered else self._row.failures + 1
        self.lease.failures, self.lease.status = failures, answer.status
        since = self._row.failing_since if failures > 1 else None
        if answer.status == GONE:
            await self._disable(Reason.GONE)
        elif since and self.lease.clock - since >= GIVE_UP_AFTER:
            await self._disable(Reason.FAILED)
        return pause_after(failures, PAUSES, answer.retry_after, JITTER)

    async def _disable(self, reason: Reason) -> None:
        await tell_log(disable, webhook=self._row, reason=reason)

    async def _test(self, asked_at: datetime) -> timedelta | None:
        """Sends the test. One that succeeds makes an unverified webhook active."""
        if (pause := await self._wait()) is not None:
            return pause
        challenge = new_challenge()
        message = message_of_test(self._row.public_id, asked_at, challenge)
        answer = await self._send(message, challenge)
        self.lease.was_tested = True
        if answer.is_success:
            await tell_log(verify, webhook=self._row)
        elif answer.status == GONE and self._row.state == State.ACTIVE:
            await self._disable(Reason.GONE)
        elif self._row.failures:
            return pause_after(self._row.failures, PAUSES, answer.retry_after, JITTER)
        return AT_ONCE
