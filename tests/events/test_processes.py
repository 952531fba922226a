"""Writers and a reader in processes of their own: nothing missed, nothing twice, no gap."""

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from django.db import connection, transaction  # noqa: F401 - connection: see skipif

from events import log
from events.feed import WHOLE_LOG, Query, read_page
from events.kinds import EVERYONE, Kind
from events.models import Event, Head
from tests.processes import started_together

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.processes,
    pytest.mark.alone,
]

WRITERS = 8


@contextmanager
def turn_without_the_lock() -> Iterator[log.Turn]:
    """A turn whose position is taken and committed at once: what the log would be without it."""
    turn = log.Turn()
    with transaction.atomic():
        yield turn


def write_events(seed: int, count: int, locked: bool) -> None:
    """Writes its share of events, dawdling at random before and inside its turns."""
    dice = random.Random(seed)
    take_turn = log.turn if locked else turn_without_the_lock
    for number in range(count):
        time.sleep(dice.random() * 0.001)
        with take_turn() as turn:
            turn.append(Kind.DESK_CREATED, topic=EVERYONE, data={"writer": seed, "number": number})
            if dice.random() < 0.05:
                time.sleep(dice.random() * 0.004)


def read_along(each: int, *, locked: bool) -> list[int]:
    """What a reader sees who follows ``next`` from the first event to the last writer's end."""
    seen: list[int] = []
    query = Query(limit=1000)
    shares = [(seed, each, locked) for seed in range(WRITERS)]
    with started_together(write_events, shares) as writers:
        ended = False
        while True:
            page = read_page(query, lambda window: WHOLE_LOG)
            seen += [event.position for event in page.events]
            query = replace(query, after=page.examined)
            if ended and not page.events:
                break
            ended = all(writer.done() for writer in writers)
        for writer in writers:
            writer.result()
    return seen


def test_a_reader_of_eight_busy_writers_misses_nothing_and_sees_nothing_twice():
    assert read_along(1250, locked=True) == list(range(1, 10_001))
    assert Event.objects.count() == Head.objects.get().position == 10_000


@pytest.mark.skipif("connection.vendor == 'sqlite'", reason="SQLite has one writer at a time")
def test_without_the_lock_the_same_reader_misses_events():
    seen = read_along(250, locked=False)
    assert Event.objects.count() == 2_000
    assert len(set(seen)) < 2_000
