"""Leases of subscriptions, and what their ends save: short transactions by the database's clock.

A lease is for one runner and 30 seconds. Whoever takes it gives it the next generation. A runner
changes the row only while the generation is its own, so one that was stalled changes nothing.
"""

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import F, Prefetch, QuerySet
from django.db.models.functions import Now

from signals.webhooks.models import (
    MAX_ATTEMPTS,
    DeliveryAttempt,
    State,
    Subscription,
    SubscriptionSecret,
)
from tokens.crypto.keys import KeyLostError

LEASE = timedelta(seconds=30)
# What the end of a session changes in the row. Actions change other columns meanwhile.
SAVED = (
    *("cursor_position", "failures", "failing_since", "last_status", "last_delivered_at"),
    *("test_requested_at", "next_attempt_at", "leased_until"),
)


@dataclass(slots=True)
class Leased:
    """A subscription that this runner has leased, with its URL and secrets in clear.

    ``until`` is the end of the lease by this process's monotonic clock, ``clock`` the database's
    time when it began. ``secrets`` is empty if they cannot be decrypted.
    """

    row: Subscription
    until: float
    clock: datetime
    url: str = ""
    secrets: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Outcome:
    """What a session has done. ``failures`` is None if nothing was tried.

    ``pause`` is the time until the next look; None means: until there is news. ``lacks_key`` is
    True if the URL or the secret could not be decrypted.
    """

    row: Subscription
    position: int
    failures: int | None = None
    status: int | None = None
    has_delivered: bool = False
    was_tested: bool = False
    lacks_key: bool = False
    pause: timedelta | None = timedelta(seconds=1)  # after an error
    attempts: list[tuple[DeliveryAttempt, bytes]] = field(default_factory=list)


def due(limit: int) -> list[tuple[int, bool]]:
    """Subscriptions to look at without news: to retry, to test, or left behind by a runner.

    Returns their ids, and whether their last delivery failed.
    """
    found = Subscription.objects.due(Now()).order_by("next_attempt_at")  # type: ignore[arg-type]
    rows = found.values_list("pk", "failures")[:limit]
    return [(pk, failures > 0) for pk, failures in rows]


def lease(ids: Collection[int]) -> tuple[list[Leased], list[int]]:
    """Leases those of these subscriptions that are ready and free.

    Returns also the ids of those that are ready, and that somebody else had locked.
    """
    started = time.monotonic()
    ready = Subscription.objects.filter(pk__in=ids).ready(Now())  # type: ignore[arg-type]
    with transaction.atomic():
        rows = list(_with_secrets(ready).select_for_update(skip_locked=True, of=("self",)))
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
    locked = list(ready.filter(pk__in=left).values_list("pk", flat=True)) if left else []
    return [_in_clear(row, started + LEASE.total_seconds()) for row in rows], locked


def _with_secrets(rows: QuerySet[Subscription]) -> QuerySet[Any]:
    """The rows with their desks, the secrets that sign, and the database's time."""
    live = SubscriptionSecret.objects.live(Now()).order_by()  # type: ignore[arg-type]
    return (
        rows.annotate(clock=Now())
        .select_related("desk")
        .prefetch_related(Prefetch("secrets", live, to_attr="live_secrets"))
    )


def _in_clear(row: Any, until: float) -> Leased:
    leased = Leased(row, until, row.clock)
    try:
        leased.url = row.decrypt()
        newest_first = sorted(row.live_secrets, key=lambda secret: -secret.pk)
        leased.secrets = [secret.decrypt() for secret in newest_first]
    except KeyLostError:
        leased.secrets = []
    return leased


def finish(outcomes: Sequence[Outcome]) -> None:
    """Saves what sessions have done, and ends their leases, unless these are not theirs any more.

    What was sent counts for nothing if the subscription was changed so that it is obsolete.
    """
    done = {outcome.row.pk: outcome for outcome in outcomes}
    attempts: list[DeliveryAttempt] = []
    with transaction.atomic():
        found = Subscription.objects.filter(pk__in=done).annotate(clock=Now()).order_by("pk")
        rows: QuerySet[Any] = found.select_for_update()
        for row in rows:
            outcome = done[row.pk]
            if row.lease_generation != outcome.row.lease_generation:
                continue
            row.leased_until = None
            if row.revision == outcome.row.revision:
                _apply(row, outcome, row.clock)
                attempts += _kept(outcome.attempts)
            else:
                row.next_attempt_at = row.clock
            row.save(update_fields=SAVED)
        DeliveryAttempt.objects.bulk_create(attempts)


def _apply(row: Subscription, outcome: Outcome, now: datetime) -> None:
    """Changes the row, which is locked, as the session says."""
    row.cursor_position = outcome.position
    if outcome.failures is not None:
        row.failures, row.last_status = outcome.failures, outcome.status
        # A pause and a resume have removed the time, while the session still counts the failures
        # before.
        since = row.failing_since if outcome.failures > 1 else None
        row.failing_since = (since or now) if outcome.failures else None
    if outcome.has_delivered:
        row.last_delivered_at = now
    if outcome.was_tested:
        row.test_requested_at = None
    row.next_attempt_at = _look_again(row, outcome, now)


def _look_again(row: Subscription, outcome: Outcome, now: datetime) -> datetime | None:
    """When to look again: at once if a test was asked for meanwhile, and never if the subscription
    was paused. Without its key, a test has to wait too."""
    if row.test_requested_at and not outcome.lacks_key:
        return now
    has_work = row.state == State.ACTIVE or row.test_requested_at
    return now + outcome.pause if has_work and outcome.pause is not None else None


def _kept(attempts: Sequence[tuple[DeliveryAttempt, bytes]]) -> list[DeliveryAttempt]:
    kept = attempts[-MAX_ATTEMPTS:]
    for attempt, start in kept:
        if start:
            attempt.keep_answer(start)
    return [attempt for attempt, _ in kept]
