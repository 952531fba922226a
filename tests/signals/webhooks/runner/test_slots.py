"""Who is served next: endpoints that hang take no room from the others."""

import pytest

from signals.webhooks.runner.loop import MOST_SESSIONS, MOST_SLOW, SLOW_BATCH_SIZE, SessionQueue

pytestmark = pytest.mark.once


@pytest.fixture
def slots():
    return SessionQueue()


def start(slots):
    """Everybody for whom there is room starts; returns them in order."""
    running = []
    while ids := slots.take() + slots.take_slow():
        running += ids
    return running


def hang(slots, ids):
    """These start, hang, fail, and wait again."""
    slots.add(ids)
    for pk in start(slots):
        slots.end(pk, is_slow=True)
    slots.add(ids)


def test_everybody_starts_once_in_the_order_in_which_they_came(slots):
    slots.add([3, 1, 2])
    slots.add([1, 4])
    assert start(slots) == [3, 1, 2, 4]
    assert start(slots) == []


def test_one_that_has_news_while_it_runs_waits_again(slots):
    slots.add([1, 2])
    start(slots)
    slots.add([1])
    assert start(slots) == []
    slots.end(1)
    slots.end(2)
    assert start(slots) == [1]


def test_the_sessions_of_a_process_are_limited(slots):
    slots.add(range(MOST_SESSIONS + 1))
    assert start(slots) == list(range(MOST_SESSIONS))
    slots.end(7)
    assert start(slots) == [MOST_SESSIONS]


def test_those_that_hang_leave_room_for_the_others(slots):
    slots.add_slow(range(2 * MOST_SESSIONS))
    assert len(start(slots)) == MOST_SLOW
    others = range(-1000, 0)
    slots.add(others)
    assert start(slots) == list(others)


def test_nobody_waits_behind_those_that_hang(slots):
    hang(slots, range(MOST_SLOW))
    slots.add([-1])
    assert slots.take() == [-1]
    assert slots.take() == []


def test_those_that_hang_begin_a_few_at_a_time_however_many_others_wait(slots):
    hang(slots, range(2 * SLOW_BATCH_SIZE))
    slots.add(range(-1000, 0))
    assert slots.take_slow() == list(range(SLOW_BATCH_SIZE))


def test_one_that_fails_meanwhile_waits_apart_and_no_more_once_it_is_well(slots):
    slots.add([1, 2])
    slots.add_slow([1])
    assert start(slots) == [2, 1]
    for pk in (1, 2):
        slots.end(pk)  # there was nothing to lease: one is still slow
    slots.add([1, 2])
    assert start(slots) == [2, 1]
    for pk in (1, 2):
        slots.end(pk, is_slow=False)
    slots.add([1, 2])
    assert start(slots) == [1, 2]
