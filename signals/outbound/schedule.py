"""What everything that is sent shares: who takes a row, when it is tried again, and how fast.

A row is leased in a short transaction that skips what another process has locked. It is sent
without a transaction, and changed in another. Rates are kept by all processes together: a bookmark
for each stores up to when it is used.
"""

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar

from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from desks.models import Bookmark
from desks.notices.pace import allowed
from events.statements import listed

LONGEST_PAUSE = timedelta(days=1)  # for a receiver that asks for more
OLD = timedelta(hours=1)  # of a bookmark that nobody used since

# The names of the bookmarks against which a message counts.
Names = TypeVar("Names", bound=tuple[str, ...])


def pause_after(
    failures: int, pauses: Sequence[timedelta], asked: float | None = None, jitter: float = 0.0
) -> timedelta:
    """The time until the next attempt after this many failures in a row, at least one.

    The last pause counts for all failures that follow. A receiver can ask for a longer one
    (``asked``, in seconds), not for a shorter one.
    """
    usual = pauses[min(failures, len(pauses)) - 1]
    spread = random.uniform(1 - jitter, 1 + jitter)  # noqa: S311 - no secret  # nosec B311
    return max(usual * spread, min(timedelta(seconds=asked or 0), LONGEST_PAUSE))


def spend(
    messages: Sequence[Names], intervals: Mapping[str, timedelta]
) -> tuple[list[Names], set[str]]:
    """Which of these messages may be sent now, and the bookmarks whose rate refuses others.

    ``intervals`` has the time between two messages of each rate that is kept. The first messages
    come first. A rate that another process counts at this moment refuses, too.
    """
    granted, used_up, free = [], set[str](), dict[str, int]()
    with transaction.atomic():
        rows = _locked(intervals.keys())
        for name, row in rows.items():
            free[name], row.at = allowed(row.at, row.clock, intervals[name], len(messages))
        for message in messages:
            names = [name for name in message if name in intervals]
            if missing := {name for name in names if not free.get(name)}:
                used_up |= missing
                continue
            granted.append(message)
            for name in names:
                free[name] -= 1
                rows[name].at += intervals[name]
        changed = sorted(intervals.keys() & {name for message in granted for name in message})
        Bookmark.objects.bulk_create(
            [Bookmark(name=name, at=rows[name].at) for name in changed],
            update_conflicts=True,
            unique_fields=["name"],
            update_fields=["at"],
        )
    return granted, used_up


def _locked(names: Collection[str]) -> dict[str, Any]:
    """The bookmarks of these names that no other process has locked, with the database's time."""
    found = {row.name: row for row in _lock(names)}
    if missing := sorted(names - found.keys()):
        Bookmark.objects.bulk_create(
            [Bookmark(name=name) for name in missing], ignore_conflicts=True
        )
        found |= {row.name: row for row in _lock(missing)}
    return found


def _lock(names: Iterable[str]) -> QuerySet[Any]:
    rows = Bookmark.objects.filter(name__in=listed(names)).annotate(clock=Now())
    return rows.order_by("name").select_for_update(skip_locked=True, of=("self",))


def forget_unused(beginning: str, longest: timedelta) -> None:
    """Deletes bookmarks whose names begin so and that nobody used for long: they say nothing.

    ``longest`` is the longest interval of theirs. It waits for no row that is in use, which could
    wait for one that is about to be deleted.
    """
    old = Q(at=None) | Q(at__lt=timezone.now() - max(OLD, longest))
    with transaction.atomic():
        rows = Bookmark.objects.filter(old, name__startswith=beginning)
        rows = rows.select_for_update(skip_locked=True, of=("self",))
        Bookmark.objects.filter(name__in=listed([row.name for row in rows])).delete()
