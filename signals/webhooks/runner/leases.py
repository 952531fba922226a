"""Leases of subscriptions, and what a runner saves: short transactions by the database's clock.

A lease is for one runner and 30 seconds. Whoever takes it gives it the next generation. A runner
changes the row only while the generation is its own, so one that was stalled changes nothing.
"""

import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from django.db import DEFAULT_DB_ALIAS, transaction
from django.db.models import Q
from django.db.models.functions import Now

from desks.models import Desk
from events.statements import parse_datetime
from signals.webhooks.models import (
    MAX_ATTEMPTS,
    DeliveryAttempt,
    State,
    Subscription,
    SubscriptionSecret,
)
from signals.webhooks.runner import statements
from signals.webhooks.runner.statements import LEASED_FIELDS, SECRET_FIELDS
from tokens.crypto.keys import KeyLostError

LEASE = 30.0  # seconds


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
class Progress:
    """What a session has done since it last saved. ``pause`` counts only if it ends.

    ``failures`` is None if nothing was tried. ``pause`` None means: until there is news.
    ``lacks_key`` is True if the URL or the secret could not be decrypted.
    """

    pk: int
    generation: int
    revision: int
    position: int
    failures: int | None = None
    status: int | None = None
    has_delivered: bool = False
    was_tested: bool = False
    lacks_key: bool = False
    is_over: bool = False
    pause: float | None = None
    attempts: list[tuple[DeliveryAttempt, bytes]] = field(default_factory=list)

    def take(self) -> "Progress":
        """What there is to save. The rest of the session begins without these attempts."""
        taken = replace(self)
        self.attempts, self.has_delivered = [], False
        return taken

    def put_back(self, taken: "Progress") -> None:
        """What was taken and could not be saved."""
        self.attempts = [*taken.attempts, *self.attempts]
        self.has_delivered |= taken.has_delivered


def due(limit: int) -> list[tuple[int, bool]]:
    """Subscriptions to look at without news: to retry, to test, or left behind by a runner.

    Returns their ids, and whether their last delivery failed.
    """
    found = Subscription.objects.due(Now()).order_by("next_attempt_at")  # type: ignore[arg-type]
    rows = found.values_list("pk", "failures")[:limit]
    return [(pk, failures > 0) for pk, failures in rows]


def lease(ids: Collection[int]) -> tuple[list[Leased], list[int]]:
    """Leases those of these subscriptions that are ready and free.

    Returns also the ids of rows that are ready, and that somebody else had locked.
    """
    started = time.monotonic()
    taken = dict(statements.fetch(statements.TAKE, ids=ids, lease=LEASE))
    left = [pk for pk in ids if pk not in taken]
    locked = _look_at(left) if left else []
    return list(read(taken, started + LEASE)) if taken else [], locked


def _look_at(left: Sequence[int]) -> list[int]:
    """Why these were not taken: returns the ids of those that are ready, but were locked.

    Those that were paused or disabled, and left behind with a time to look at them, lose it.
    """
    rows = list(Subscription.objects.filter(pk__in=left).annotate(clock=Now()))
    if any(_is_due_for_nothing(row) for row in rows):
        has_work = Q(state=State.ACTIVE) | Q(test_requested_at__isnull=False)
        with transaction.atomic():
            due = Subscription.objects.due(Now()).exclude(has_work)  # type: ignore[arg-type]
            idle = due.filter(pk__in=left).select_for_update(skip_locked=True)
            Subscription.objects.filter(pk__in=[row.pk for row in idle]).update(
                next_attempt_at=None, leased_until=None
            )
    return [row.pk for row in rows if _is_ready(row)]


def _is_free(row: Any) -> bool:
    return row.leased_until is None or row.leased_until <= row.clock


def _is_ready(row: Any) -> bool:
    is_waiting = row.failures and row.next_attempt_at and row.next_attempt_at > row.clock
    delivers = row.state == State.ACTIVE and not is_waiting
    return _is_free(row) and bool(row.test_requested_at or delivers)


def _is_due_for_nothing(row: Any) -> bool:
    has_work = row.state == State.ACTIVE or row.test_requested_at
    return bool(_is_free(row) and row.next_attempt_at and not has_work)


def read(taken: Mapping[int, int], until: float) -> Iterator[Leased]:
    """The rows of these ids that still have these generations, with their secrets."""
    found = statements.fetch(statements.READ, ids=list(taken))
    for pk, group in groupby(found, key=lambda values: values[0]):
        rows = list(group)
        row = _row(rows[0])
        if row.lease_generation == taken[pk]:  # not if we stood still for longer than a lease
            yield _in_clear(row, until, [one[-len(SECRET_FIELDS) :] for one in rows])


def _row(values: Sequence[Any]) -> Any:
    """The subscription, with the id of its desk."""
    row: Any = Subscription.from_db(DEFAULT_DB_ALIAS, LEASED_FIELDS, values[: len(LEASED_FIELDS)])
    row.kinds = json.loads(row.kinds)
    for name in ("failing_since", "test_requested_at", "leased_until", "key_lost_at"):
        if (at := getattr(row, name)) is not None:
            setattr(row, name, parse_datetime(at))
    if row.desk_id is not None:
        owner = [row.desk_id, values[len(LEASED_FIELDS)]]
        row.desk = Desk.from_db(DEFAULT_DB_ALIAS, ["id", "public_id"], owner)
    return row


def _in_clear(row: Any, until: float, secrets: Sequence[Sequence[Any]]) -> Leased:
    leased = Leased(row, until, row.leased_until - timedelta(seconds=LEASE))
    try:
        leased.url = row.decrypt()
        leased.secrets = [_secret(row, values) for values in secrets if values[0] is not None]
    except KeyLostError:
        leased.secrets = []
    return leased


def _secret(row: Subscription, values: Sequence[Any]) -> str:
    secret = SubscriptionSecret.from_db(DEFAULT_DB_ALIAS, SECRET_FIELDS, values)
    secret.subscription = row
    return secret.decrypt()


def save(progresses: Sequence[Progress]) -> set[int]:
    """Saves the cursors and failures of sessions, and extends or ends their leases.

    Returns the ids of the subscriptions whose sessions may go on. Another one must end: it is not
    its lease any more, or somebody paused or changed the subscription, or asked for a test.
    """
    going_on: set[int] = set()
    attempts: list[DeliveryAttempt] = []
    with transaction.atomic():
        for progress in progresses:
            found = _save_one(progress)
            if found is None:
                continue
            attempts += _attempts(progress.attempts)
            state, test_requested_at = found
            if state == State.ACTIVE and test_requested_at is None:
                going_on.add(progress.pk)
        if attempts:
            statements.insert_attempts(attempts)
    return going_on


def _save_one(progress: Progress) -> Any:
    """Returns the state of the row; None if the lease or the subscription is not as it was."""
    ours = "id = %(id)s AND lease_generation = %(generation)s"
    own = {"id": progress.pk, "generation": progress.generation}
    given = {
        **own,
        "revision": progress.revision,
        "position": progress.position,
        "seconds": progress.pause if progress.is_over else LEASE,
        "failures": progress.failures,
        "status": progress.status,
    }
    found = statements.update(_changes(progress), f"{ours} AND revision = %(revision)s", given)
    if found is None and progress.is_over:
        # It was changed: what was done counts for nothing, and it is due again.
        changes = f"leased_until = NULL, next_attempt_at = {statements.now()}"
        statements.update(changes, ours, own)
    return found


def _changes(progress: Progress) -> str:
    """The SQL that changes the row as the session says."""
    now, later = statements.now(), statements.after("seconds")
    until, again = ("NULL", _look_again(progress)) if progress.is_over else (later, later)
    changes = ["cursor_position = %(position)s"]
    changes += [f"leased_until = {until}", f"next_attempt_at = {again}"]
    if progress.failures is not None:
        changes += ["failures = %(failures)s", "last_status = %(status)s"]
        changes.append(f"failing_since = {_failing_since(progress.failures)}")
    if progress.has_delivered:
        changes.append(f"last_delivered_at = {now}")
    if progress.was_tested:
        changes.append("test_requested_at = NULL")
    return ", ".join(changes)


def _failing_since(failures: int) -> str:
    """The SQL of the time of the first failure in a row. A pause and a resume during the session
    have removed it, while the session still counts the failures before."""
    if failures > 1:
        return f"COALESCE(failing_since, {statements.now()})"
    return statements.now() if failures else "NULL"


def _look_again(progress: Progress) -> str:
    """The SQL of the time to look again after a session: at once if a test was asked for meanwhile,
    and never if the subscription was paused. Without its key, a test has to wait too."""
    if progress.lacks_key:
        waits = f"{statements.ACTIVE} OR test_requested_at IS NOT NULL"
        return f"CASE WHEN {waits} THEN {statements.after('seconds')} END"
    cases = []
    if not progress.was_tested:
        cases.append(f"WHEN test_requested_at IS NOT NULL THEN {statements.now()}")
    if progress.pause is not None:
        cases.append(f"WHEN {statements.ACTIVE} THEN {statements.after('seconds')}")
    return f"CASE {' '.join(cases)} END" if cases else "NULL"


def _attempts(attempts: Sequence[tuple[DeliveryAttempt, bytes]]) -> list[DeliveryAttempt]:
    kept = attempts[-MAX_ATTEMPTS:]
    for attempt, start in kept:
        if start:
            attempt.keep_answer(start)
    return [attempt for attempt, _ in kept]
