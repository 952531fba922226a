"""Leases of webhooks, and sessions: what one lease of one webhook sends, and what is saved of it.

A lease is for one runner and 30 seconds, by the database's clock. Whoever takes it gives it the
next generation. A runner changes the row only while the generation is its own, so one that was
stalled changes nothing. Leases are taken and saved in short transactions; a session has none open.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import F, Prefetch, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from events import tracing
from events.times import truncate_to_milliseconds
from signals.outbound.answers import Answer, Fault
from signals.outbound.database import read_database, tell_log
from signals.outbound.guarded_client import Endpoint
from signals.outbound.schedule import WEBHOOKS, asked_pause, pause_after
from signals.webhooks.actions import disable, last_test_columns, note_that_it_works, verify
from signals.webhooks.messages import (
    Message,
    is_proof,
    message_of_test,
    new_challenge,
    signed_headers,
)
from signals.webhooks.models import (
    DeliveryAttempt,
    DisabledReason,
    State,
    Subscription,
    SubscriptionSecret,
)
from signals.webhooks.runner.pending_events import Batch, read_alone, read_one
from signals.webhooks.runner.rates import Rates
from tokens.crypto.keys import KeyLostError

# --- Leases ---------------------------------------------------------------------------------------

LEASE = timedelta(seconds=30)
# What the end of a session changes in the row. Actions change other columns meanwhile.
SAVED = (
    *("cursor_position", "failures", "failing_since", "last_status", "last_delivered_at"),
    *("test_requested_at", "last_test_at", "last_test_status", "last_test_error", "resends"),
    *("next_attempt_at", "not_before", "leased_until", "key_lost_at", "key_loss_told_at"),
)


@dataclass(slots=True)
class Lease:
    """A webhook that this runner has leased, with its URL and secrets in clear, and what was done.

    ``until`` is the end of the lease by this process's monotonic clock, ``clock`` the database's
    time when it began. ``secrets`` is empty if they or the URL cannot be decrypted.

    ``position`` is the cursor's new place. ``failures`` is None if nothing was tried. ``asked`` is
    how long the endpoint wants to get no event. ``was_tested`` is whether a test is done with, and
    ``resent`` are the positions of the single events that are.
    ``pause`` is the time until the next look; None means: until there is news.
    """

    row: Subscription
    until: float
    clock: datetime
    position: int
    url: str = ""
    secrets: list[str] = field(default_factory=list)
    failures: int | None = None
    status: int | None = None
    asked: timedelta = timedelta(0)
    has_delivered: bool = False
    was_tested: bool = False
    resent: list[int] = field(default_factory=list)
    pause: timedelta | None = timedelta(seconds=1)  # after an error
    attempts: list[DeliveryAttempt] = field(default_factory=list)


def due(limit: int) -> list[tuple[int, bool]]:
    """Webhooks to look at without news: to retry, to test, or left behind by a runner.

    Returns their ids, and whether their last delivery failed.
    """
    found = Subscription.objects.due(Now()).order_by("next_attempt_at")
    rows = found.values_list("pk", "failures")[:limit]
    return [(pk, failures > 0) for pk, failures in rows]


def make_due(ids: Collection[int]) -> None:
    """Lets any runner look at those of these webhooks that wait for news and are not leased."""
    waiting = Subscription.objects.filter(pk__in=ids, state=State.ACTIVE, leased_until=None)
    rows = waiting.filter(next_attempt_at=None).order_by("pk").select_for_update()
    with transaction.atomic():
        locked = list(rows.values_list("pk", flat=True))  # in the order of all who wait for several
        Subscription.objects.filter(pk__in=locked).update(next_attempt_at=Now())


def lease(ids: Collection[int]) -> tuple[list[Lease], list[int]]:
    """Leases those of these webhooks that are ready and free.

    Returns also the ids of those that are ready, and that somebody else had locked.
    """
    started = time.monotonic()
    ready = Subscription.objects.filter(pk__in=ids).ready(Now())
    live = SubscriptionSecret.objects.live(Now()).order_by()
    secrets = Prefetch("secrets", live, to_attr="live_secrets")
    with transaction.atomic():
        found: QuerySet[Any] = ready.annotate(clock=Now()).select_related("desk")
        locked = found.select_for_update(skip_locked=True, of=("self",))
        rows = list(locked.prefetch_related(secrets))
        taken = [row.pk for row in rows]
        for row in rows:
            row.lease_generation += 1
        if rows:
            # It is due when the lease ends, so that a runner that was killed leaves nothing behind.
            until = rows[0].clock + LEASE
            Subscription.objects.filter(pk__in=taken).update(
                leased_until=until,
                next_attempt_at=until,
                lease_generation=F("lease_generation") + 1,
            )
    left = set(ids).difference(taken)
    others = list(ready.filter(pk__in=left).values_list("pk", flat=True)) if left else []
    ends_at = started + LEASE.total_seconds()
    leases = [Lease(row, ends_at, row.clock, row.cursor_position) for row in rows]
    for one, row in zip(leases, rows, strict=True):
        with suppress(KeyLostError):
            one.url = row.decrypt()
            newest_first = sorted(row.live_secrets, key=lambda secret: -secret.pk)
            one.secrets = [secret.decrypt() for secret in newest_first]
    return leases, others


def finish(leases: Sequence[Lease]) -> None:
    """Saves what sessions have done, and ends their leases, unless these are not theirs any more.

    What was sent counts for nothing if the webhook was changed so that it is obsolete.
    """
    done = {lease.row.pk: lease for lease in leases}
    attempts: list[DeliveryAttempt] = []
    with transaction.atomic():
        found = Subscription.objects.filter(pk__in=done).annotate(clock=Now()).order_by("pk")
        rows: QuerySet[Any] = found.select_for_update()
        for row in rows:
            lease = done[row.pk]
            if row.lease_generation != lease.row.lease_generation:
                continue
            # The lease made the webhook due at its end. Any other time is of an action since then,
            # such as a resume: what came while the webhook was paused is no news.
            if row.next_attempt_at != row.leased_until and lease.pause is None:
                lease.pause = NO_PAUSE
            row.leased_until = None
            if row.is_obsolete(lease.row):
                row.next_attempt_at = row.clock
            else:
                _apply(row, lease, row.clock)
                attempts += lease.attempts
            row.save(update_fields=SAVED)
        DeliveryAttempt.objects.bulk_create(attempts)
        DeliveryAttempt.objects.trim({attempt.subscription_id for attempt in attempts})


def _apply(row: Subscription, lease: Lease, now: datetime) -> None:
    """Changes the row, which is locked, as the session says."""
    # Its owner may have skipped what was sent last.
    is_skipped = lease.position < row.cursor_position
    row.cursor_position = max(lease.position, row.cursor_position)
    if lease.failures == 0 and lease.has_delivered:
        row.not_before = None
    elif lease.asked and not is_skipped:
        row.not_before = now + lease.asked
    if lease.failures is not None:
        row.failures, row.last_status = lease.failures, lease.status
        # A pause and a resume have removed the time, while the session still counts the failures
        # before.
        since = row.failing_since if lease.failures > 1 else None
        row.failing_since = (since or now) if lease.failures else None
    if lease.has_delivered:
        row.last_delivered_at = now
    for attempt in lease.attempts:
        if attempt.position is None:
            for name, value in last_test_columns(attempt).items():
                setattr(row, name, value)
    is_asked_anew = row.test_requested_at not in (None, lease.row.test_requested_at)
    if lease.was_tested and not is_asked_anew:
        row.test_requested_at = None
    # One that was asked for again while it was sent is in the list twice.
    asked, asked_before = Counter(row.resends or ()), Counter(lease.row.resends or ())
    left = sorted((asked - Counter(lease.resent)).elements(), key=list(asked).index)
    row.resends = left or None
    if lease.secrets:  # a later loss has a notice of its own
        row.key_lost_at = row.key_loss_told_at = None
    else:
        row.key_lost_at = row.key_lost_at or now
    # Without its key, a test has to wait too.
    is_urgent = (is_asked_anew or asked - asked_before or is_skipped) and lease.secrets
    row.next_attempt_at = now if is_urgent else _look_again(row, lease, now)


def _look_again(row: Subscription, lease: Lease, now: datetime) -> datetime | None:
    """When to look again. None: when there is news or an action asks.

    A webhook that is not active has only tests and resends.
    """
    has_work = row.state == State.ACTIVE or row.test_requested_at or row.resends
    return now + lease.pause if has_work and lease.pause is not None else None


# --- Sessions -------------------------------------------------------------------------------------

GONE = 410
LEAST_LEFT = 12.0  # seconds of the lease when a message is sent, which may take 10
LONGEST_SESSION = 1.0  # seconds; then what was done is saved, and a new lease goes on
SLOW = 1.0  # seconds of an answer that holds up nobody
NO_PAUSE = timedelta(0)
WITHOUT_TURN = timedelta(seconds=1)  # for one that waited in vain for its turn
# After an error once a test, or an event sent again by itself, was sent: it is sent once more.
AFTER_SENDING = timedelta(seconds=30)
WITHOUT_KEY = timedelta(minutes=10)  # for one whose URL or secret cannot be decrypted


@dataclass(slots=True)
class Session:
    """Sends messages one after the other until the page ends, one fails, or its time is over.

    What it has done stands in ``lease``, which is never extended: it is much longer than a session.
    """

    lease: Lease
    batch: Batch | None
    endpoint: Endpoint
    rates: Rates
    stop: asyncio.Event
    slowest: float = 0.0  # seconds of what it waited for

    @property
    def is_slow(self) -> bool:
        """Whether the endpoint failed, or something was delayed."""
        failures = self.lease.failures
        has_failed = bool(self.lease.row.failures if failures is None else failures)
        return has_failed or self.slowest >= SLOW

    async def run(self) -> None:
        """Delivers. Raises nothing but what a bug or the database raises."""
        self.lease.pause = await self._deliver()

    async def _deliver(self) -> timedelta | None:
        """Returns the time until the next look at the webhook; None: until news."""
        if not self.lease.secrets:
            return WITHOUT_KEY
        if self.lease.row.test_requested_at:
            return await self._test(self.lease.row.test_requested_at)
        if self.lease.row.resends:
            return await self._resend(self.lease.row.resends)
        batch = self.batch or await read_database(read_alone, self.lease.row)
        if batch is None:
            await self._disable(DisabledReason.CURSOR_LOST)
            return None
        ends_at = time.monotonic() + LONGEST_SESSION
        for message in batch.messages:
            if time.monotonic() >= ends_at:
                return NO_PAUSE
            if (pause := await self._wait()) is not None:
                return pause
            answer = await self._send(message)
            if not answer.is_success:
                return await self._failed(answer)
            self._delivered(message, answer)
            if self.lease.row.failing_told_at:
                await tell_log(note_that_it_works, webhook=self.lease.row)
                self.lease.row.failing_told_at = None
        self.lease.position = max(self.lease.position, batch.examined)
        if self._works_untold:
            await tell_log(note_that_it_works, webhook=self.lease.row)
            self.lease.row.failing_told_at = None
        return NO_PAUSE if batch.more else None

    @property
    def _works_untold(self) -> bool:
        """Whether a session before delivered an event and could not tell the log that it works."""
        row = self.lease.row
        told, delivered = row.failing_told_at, row.last_delivered_at
        return not row.failures and bool(told and delivered and told < delivered)

    async def _wait(self) -> timedelta | None:
        """Waits a little until a message may be sent.

        Returns the time until the next look if none may: because of the rates of the host and the
        desk, because the lease might end before it arrives, or because the runner stops.
        """
        began = time.monotonic()
        has_turn = await self.rates.wait(self.endpoint.host, self.lease.row.desk_id)
        now = time.monotonic()
        self.slowest = max(self.slowest, now - began)
        if not has_turn:
            return WITHOUT_TURN
        is_ending = self.lease.until - now < LEAST_LEFT
        return NO_PAUSE if is_ending or self.stop.is_set() else None

    async def _send(self, message: Message, challenge: str | None = None) -> Answer:
        """Sends a message once. One with a challenge fails if the answer does not solve that."""
        now, secrets = timezone.now(), self.lease.secrets
        headers = signed_headers(message, secrets, now.timestamp())
        with tracing.span("delivery", trace=tracing.of_message(message.id)) as span:
            answer = await self.endpoint.send(
                message.body, {**headers, "traceparent": str(span.context)}
            )
            if challenge and answer.is_success and not is_proof(answer.start, challenge, secrets):
                answer = replace(answer, error=Fault.UNPROVEN)
            span.note(
                {
                    "signals.webhook": self.lease.row.public_id,
                    "signals.position": message.position or None,
                    "http.response.status_code": answer.status,
                    "error.type": answer.error,
                },
                is_error=not answer.is_success,
            )
        self.slowest = max(self.slowest, answer.seconds)
        attempt = DeliveryAttempt(
            subscription=self.lease.row,
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
        failures = 1 if self.lease.has_delivered else self.lease.row.failures + 1
        self.lease.failures, self.lease.status = failures, answer.status
        since = self.lease.row.failing_since if failures > 1 else None
        if answer.status == GONE:
            await self._disable(DisabledReason.GONE)
        elif since and self.lease.clock - since >= WEBHOOKS.give_up_after:
            await self._disable(DisabledReason.FAILED)
        return self._pause_after(failures, answer)

    def _pause_after(self, failures: int, answer: Answer) -> timedelta:
        """The time until the next attempt. Events wait for as long as the endpoint asks."""
        self.lease.asked = max(self._asked_before(), asked_pause(answer.retry_after))
        return max(self.lease.asked, pause_after(failures, WEBHOOKS))

    def _asked_before(self) -> timedelta:
        """How long it is until an earlier Retry-After of the endpoint is over."""
        clock = self.lease.clock
        return max(NO_PAUSE, (self.lease.row.not_before or clock) - clock)

    async def _disable(self, reason: DisabledReason) -> None:
        await tell_log(disable, webhook=self.lease.row, reason=reason)

    async def _test(self, asked_at: datetime) -> timedelta:
        """Sends the test. One that succeeds makes an unverified webhook active.

        Until then a test of an unverified one is tried again, as an event is.
        """
        if (pause := await self._wait()) is not None:
            return pause
        self.lease.pause = AFTER_SENDING
        challenge = new_challenge()
        message = message_of_test(self.lease.row.public_id, asked_at, challenge)
        answer = await self._send(message, challenge)
        row = self.lease.row
        if answer.is_success:
            if not row.is_verified:
                await tell_log(verify, webhook=row, test=self.lease.attempts[-1])
            await self._end_failing()
            self.lease.was_tested = True  # last: if the log cannot be told, it is sent again
            return self._asked_before()
        self.lease.was_tested = True
        if row.state == State.UNVERIFIED:
            self.lease.failures, self.lease.status = row.failures + 1, row.last_status
            since = row.failing_since or self.lease.clock
            is_over = self.lease.clock - since >= WEBHOOKS.give_up_after
            self.lease.was_tested = is_over or answer.status == GONE
            return self._pause_after(self.lease.failures, answer)
        if answer.status == GONE and row.state == State.ACTIVE:
            await self._disable(DisabledReason.GONE)
        elif row.failures:
            return self._pause_after(row.failures, answer)
        return self._asked_before()

    async def _end_failing(self) -> None:
        """Ends the failures of a webhook for which nothing waits: no event would show it."""
        row = self.lease.row
        if row.state != State.ACTIVE or not row.failures:
            return
        batch = await read_database(read_alone, row)
        if batch is None or batch.messages or batch.more:
            return
        if row.failing_told_at:
            await tell_log(note_that_it_works, webhook=row)
        row.failures = self.lease.failures = 0  # last: if the log cannot be told, they stay
        self.lease.status = row.last_status

    async def _resend(self, positions: Sequence[int]) -> timedelta:
        """Sends single events again, each once, out of order: the cursor stays."""
        row, answer = self.lease.row, Answer()
        for position in positions:
            if (pause := await self._wait()) is not None:
                return pause
            message = await read_database(read_one, row, position)
            if message is not None:
                answer = await self._send(message)
                self.lease.pause = AFTER_SENDING
                if answer.is_success:
                    await self._end_failing()
            self.lease.resent.append(position)
            if answer.status == GONE and row.state == State.ACTIVE:
                await self._disable(DisabledReason.GONE)
                break
        if row.failures and not answer.is_success:
            return self._pause_after(row.failures, answer)
        return self._asked_before()
