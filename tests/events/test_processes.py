"""Writers and a reader in separate processes: no event is missed, repeated or left out.

``EVENTS_EACH`` sets how many events each writer writes.
"""

import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from django.db import (
    OperationalError,
    connection,  # noqa: F401 - used by skipif
    transaction,
)

from events import log
from events.actors import SYSTEM, Actor
from events.feed import WHOLE_LOG, Query, read_page
from events.kinds import EVERYONE, Kind
from events.models import Event, Head
from tests.processes import started_together

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.processes,
]

WRITERS = 8
UNLOCKED = 250  # events of each writer, of which a reader misses some without the lock
EACH = int(os.environ.get("EVENTS_EACH", UNLOCKED))  # make drills: more


@contextmanager
def turn_without_the_lock(*, actor: Actor) -> Iterator[log.Turn]:
    """A turn that commits its position at once, as if the log had no lock."""
    with transaction.atomic():
        turn = log.Turn(actor)
        Head.objects.update(position=turn.position)
    with transaction.atomic():
        yield turn
        Event.objects.bulk_create(turn._appended)


def write_events(seed: int, count: int, locked: bool) -> None:
    """Writes ``count`` events, with random pauses before and inside the turns."""
    rng = random.Random(seed)
    take_turn = log.turn if locked else turn_without_the_lock
    number = 0
    while number < count:
        time.sleep(rng.random() * 0.001)
        try:
            with take_turn(actor=SYSTEM) as turn:
                data = {"writer": seed, "number": number}
                turn.append(Kind.DESK_CREATED, topic=EVERYONE, data=data)
                if rng.random() < 0.05:
                    time.sleep(rng.random() * 0.004)
        except OperationalError:  # on a busy machine the turn may not come in time
            continue
        number += 1


def read_along(share: int, *, locked: bool) -> list[int]:
    """The positions that a reader sees who follows ``next`` until the last writer has ended."""
    seen: list[int] = []
    query = Query(limit=1000)
    shares = [(seed, share, locked) for seed in range(WRITERS)]
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


def test_a_reader_sees_each_event_of_eight_busy_writers_once():
    written = WRITERS * EACH
    assert read_along(EACH, locked=True) == list(range(1, written + 1))
    assert Event.objects.count() == Head.objects.get().position == written


@pytest.mark.skipif("connection.vendor == 'sqlite'", reason="SQLite has one writer at a time")
def test_without_the_lock_the_same_reader_misses_events():
    seen = read_along(UNLOCKED, locked=False)
    assert Event.objects.count() == WRITERS * UNLOCKED
    assert len(set(seen)) < WRITERS * UNLOCKED
