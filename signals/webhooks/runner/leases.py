"""Leases of webhooks, and what their ends save: short transactions by the database's clock.

A lease is for one runner and 30 seconds. Whoever takes it gives it the next generation. A runner
changes the row only while the generation is its own, so one that was stalled changes nothing.
"""

import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import F, Prefetch, QuerySet
from django.db.models.functions import Now

from signals.webhooks.models import (
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
    *("test_requested_at", "next_attempt_at", "leased_until", "key_lost_at", "key_loss_told_at"),
)


@dataclass(slots=True)
class Lease:
    """A webhook that this runner has leased, with its URL and secrets in clear, and what was done.

    ``until`` is the end of the lease by this process's monotonic clock, ``clock`` the database's
    time when it began. ``secrets`` is empty if they or the URL cannot be decrypted.

    ``position`` is the cursor's new place. ``failures`` is None if nothing was tried. ``pause`` is
    the time until the next look; None means: until there is news.
    """

    row: Subscription
    until: float
    clock: datetime
    position: int
    url: str = ""
    secrets: list[str] = field(default_factory=list)
    failures: int | None = None
    status: int | None = None
    has_delivered: bool = False
    was_tested: bool = False
    pause: timedelta | None = timedelta(seconds=1)  # after an error
    attempts: list[DeliveryAttempt] = field(default_factory=list)


def due(limit: int) -> list[tuple[int, bool]]:
    """Webhooks to look at without news: to retry, to test, or left behind by a runner.

    Returns their ids, and whether their last delivery failed.
    """
    found = Subscription.objects.due(Now()).order_by("next_attempt_at")  # type: ignore[arg-type]
    rows = found.values_list("pk", "failures")[:limit]
    return [(pk, failures > 0) for pk, failures in rows]


def lease(ids: Collection[int]) -> tuple[list[Lease], list[int]]:
    """Leases those of these webhooks that are ready and free.

    Returns also the ids of those that are ready, and that somebody else had locked.
    """
    started = time.monotonic()
    ready = Subscription.objects.filter(pk__in=ids).ready(Now())  # type: ignore[arg-type]
    live = SubscriptionSecret.objects.live(Now()).order_by()  # type: ignore[arg-type]
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
            row.leased_until = None
            if row.revision == lease.row.revision:
                _apply(row, lease, row.clock)
                attempts += lease.attempts
            else:
                row.next_attempt_at = row.clock
            row.save(update_fields=SAVED)
        DeliveryAttempt.objects.bulk_create(attempts)


def _apply(row: Subscription, lease: Lease, now: datetime) -> None:
    """Changes the row, which is locked, as the session says."""
    row.cursor_position = lease.position
    if lease.failures is not None:
        row.failures, row.last_status = lease.failures, lease.status
        # A pause and a resume have removed the time, while the session still counts the failures
        # before.
        since = row.failing_since if lease.failures > 1 else None
        row.failing_since = (since or now) if lease.failures else None
    if lease.has_delivered:
        row.last_delivered_at = now
    if lease.was_tested:
        row.test_requested_at = None
    if lease.secrets:  # a later loss is told anew
        row.key_lost_at = row.key_loss_told_at = None
    else:
        row.key_lost_at = row.key_lost_at or now
    row.next_attempt_at = _look_again(row, lease, now)


def _look_again(row: Subscription, lease: Lease, now: datetime) -> datetime | None:
    """When to look again: at once if a test was asked for meanwhile, and never if the webhook
    was paused. Without its key, a test has to wait too."""
    if row.test_requested_at and lease.secrets:
        return now
    has_work = row.state == State.ACTIVE or row.test_requested_at
    return now + lease.pause if has_work and lease.pause is not None else None
