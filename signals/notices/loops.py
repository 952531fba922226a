"""The loops of ``manage.py deliver`` that decide alarms and write notices.

Each runs until ``stop`` is set. Database work runs in threads.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import TypeVar

from django.db import Error, connection
from django.utils import timezone

from desks.expectations import Watch
from desks.notices.old_rows import move_old_rows
from signals.notices.writers import (
    follow,
    summarise_refusals,
    tell_lapses,
    tell_lost_keys,
    tell_operations,
    tell_restored,
)

TICK = 2.0  # seconds between two looks; an alarm is at most 10 s late

Found = TypeVar("Found")

# Each writes the notices of one kind that are due. It returns whether there may be more, or None.
WRITERS = (
    move_old_rows,
    follow,
    summarise_refusals,
    tell_operations,
    tell_lapses,
    tell_restored,
    tell_lost_keys,
)


async def watch_bots(stop: asyncio.Event) -> None:
    """Decides which bots fell silent or were heard again."""
    watch = Watch()
    while not stop.is_set():
        due = await asyncio.to_thread(_closing_if_failed, watch.look, timezone.now())
        await _pause(stop, _seconds_until(due))


async def write_notices(stop: asyncio.Event) -> None:
    """Writes the notices of what happens."""
    while not stop.is_set():
        more = await asyncio.to_thread(write_due, timezone.now())
        await _pause(stop, 0 if more else TICK)


def write_due(now: datetime) -> bool:
    """Writes every notice that is due. Returns whether there may be more.

    One writer that fails does not hold up the others. Raises ExceptionGroup with the errors of
    those that failed.
    """
    more, errors = False, []
    for write in WRITERS:
        try:
            more = bool(_closing_if_failed(write, now)) or more
        except Exception as error:
            errors.append(error)
    if errors:
        raise ExceptionGroup("Some notices could not be written.", errors)
    return more


def _closing_if_failed(function: Callable[[datetime], Found], now: datetime) -> Found:
    """Calls a function with the time. The thread's connection is closed if a statement failed."""
    try:
        return function(now)
    except Error:
        connection.close()
        raise


def _seconds_until(due: datetime | None) -> float:
    if due is None:
        return TICK
    return min(TICK, max(0.05, (due - timezone.now()).total_seconds()))


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)
