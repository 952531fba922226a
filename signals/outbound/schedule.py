"""What everything that is sent shares: who takes a row, when it is tried again, and how fast.

A row is leased in a short transaction that skips what another process has locked. It is sent
without a transaction, and changed in another. Rates are kept by all processes together.
"""

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar

from django.db import models, transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from limits import parse

from events.http.rate_limits import OFF
from events.statements import listed

LONGEST_PAUSE = timedelta(days=1)  # for a receiver that asks for more
SAVED_UP = timedelta(seconds=1)
# By which a clock can be set back, as by a failover, and what was used still counts.
MOST_AHEAD = timedelta(minutes=1)

# The names of the rates against which a message counts.
Names = TypeVar("Names", bound=tuple[str, ...])


class Retries(NamedTuple):
    """When something that failed is tried again, and when no more (contract, section 4).

    ``pauses`` come after the first failure, the second, and so on; the last one after all that
    follow. A pause is longer or shorter by up to the part ``jitter``.
    """

    pauses: tuple[timedelta, ...]
    give_up_after: timedelta  # of failures only
    jitter: float = 0.0


WEBHOOKS = Retries(
    tuple(timedelta(seconds=n) for n in (5, 30, 120, 600, 1800, 3600, 3 * 3600)),
    give_up_after=timedelta(hours=75),
    jitter=0.2,
)
# Of every channel. A mail is given up after the last pause, a chat after the time.
NOTICES = Retries(
    tuple(timedelta(minutes=n) for n in (1, 5, 30, 120, *[360] * 11)),
    give_up_after=timedelta(days=3),
)


def pause_after(failures: int, retries: Retries) -> timedelta:
    """The time until the next attempt after this many failures in a row, at least one."""
    usual = retries.pauses[min(failures, len(retries.pauses)) - 1]
    least, most = 1 - retries.jitter, 1 + retries.jitter
    return usual * random.uniform(least, most)  # noqa: S311 - no secret  # nosec B311


def asked_pause(asked: float | None) -> timedelta:
    """The pause that a receiver asked for in seconds, as far as it is granted."""
    return timedelta(seconds=min(asked or 0, LONGEST_PAUSE.total_seconds()))


class Rate(models.Model):
    """Up to when a rate is used."""

    name = models.CharField(primary_key=True, max_length=64)
    used_until = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.name} until {self.used_until}"


def interval(rate: str) -> timedelta:
    """The time between two messages at a rate such as ``10/second``; zero for ``off``."""
    if rate == OFF:
        return timedelta(0)
    parsed = parse(rate)
    return timedelta(seconds=parsed.get_expiry()) / parsed.amount


def spend(
    messages: Sequence[Names], intervals: Mapping[str, timedelta]
) -> tuple[list[Names], set[str]]:
    """Which of these messages may be sent now, and the rates that refuse others.

    ``intervals`` has the time between two messages of each rate; a rate of zero refuses nothing.
    The first messages come first. A rate that another process counts at this moment refuses, too.
    All count by the clock of the database.
    """
    intervals = {name: between for name, between in intervals.items() if between}
    granted, used_up, free = [], set[str](), dict[str, int]()
    with transaction.atomic():
        rows = _locked(intervals.keys())
        for name, row in rows.items():
            free[name] = _allow(row, intervals[name], len(messages))
        for message in messages:
            names = [name for name in message if name in intervals]
            if missing := {name for name in names if not free.get(name)}:
                used_up |= missing
                continue
            granted.append(message)
            for name in names:
                free[name] -= 1
                rows[name].used_until += intervals[name]
        changed = sorted(intervals.keys() & {name for message in granted for name in message})
        Rate.objects.bulk_create(
            [rows[name] for name in changed],
            update_conflicts=True,
            unique_fields=["name"],
            update_fields=["used_until"],
        )
    return granted, used_up


def _allow(row: Any, interval: timedelta, most: int) -> int:
    """How many messages a rate allows at its ``clock``, at most ``most``.

    What was not used in the last second is saved up, and no more. No use lies beyond the clock. One
    that lies far beyond it is from before the clock was set back, and does not count: nothing would
    be sent until the clock is there again.
    """
    saved_up = row.clock - max(interval, SAVED_UP)
    if row.used_until is None or row.used_until > row.clock + MOST_AHEAD:
        row.used_until = saved_up
    row.used_until = max(row.used_until, saved_up)
    allowed: int = (row.clock - row.used_until) // interval
    return min(most, max(0, allowed))


def _locked(names: Collection[str]) -> dict[str, Any]:
    """The rates of these names that no other process has locked, each with its ``clock``."""
    found = {row.name: row for row in _lock(names)}
    if missing := sorted(names - found.keys()):
        Rate.objects.bulk_create([Rate(name=name) for name in missing], ignore_conflicts=True)
        found |= {row.name: row for row in _lock(missing)}
    return found


def _lock(names: Iterable[str]) -> QuerySet[Any]:
    rows = Rate.objects.filter(name__in=listed(names)).annotate(clock=Now())
    return rows.order_by("name").select_for_update(skip_locked=True, of=("self",))
