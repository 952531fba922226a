"""Who is served next: endpoints that hang take no room from the others."""

import pytest

from signals.webhooks.runner.wanted import AT_ONCE, MOST_DOUBTFUL, MOST_SESSIONS, Wanted


@pytest.fixture
def wanted():
    return Wanted()


def start(wanted):
    """Everybody for whom there is room starts; returns them in order."""
    running = []
    while ids := wanted.take():
        for pk in ids:
            wanted.start(pk)
        running += ids
    return running


def hang(wanted, ids):
    """These start, hang, fail, and are wanted again."""
    wanted.add(ids)
    for pk in start(wanted):
        wanted.end(pk, is_well=False)
    wanted.add(ids)


def test_everybody_flies_once_in_the_order_in_which_they_were_wanted(wanted):
    wanted.add([3, 1, 2])
    wanted.add([1, 4])
    assert start(wanted) == [3, 1, 2, 4]
    assert start(wanted) == []


def test_the_sessions_of_a_process_are_limited(wanted):
    wanted.add(range(MOST_SESSIONS + 1))
    assert start(wanted) == list(range(MOST_SESSIONS))
    wanted.end(7, is_well=True)
    assert start(wanted) == [MOST_SESSIONS]


def test_those_that_hang_leave_room_for_the_others(wanted):
    hanging = range(2 * MOST_SESSIONS)
    for pk in hanging:
        wanted.is_known(pk, is_well=False)
    wanted.add(hanging)
    assert len(start(wanted)) == MOST_DOUBTFUL
    others = range(-1000, 0)
    wanted.add(others)
    assert start(wanted) == list(others)


def test_nobody_waits_behind_those_that_hang(wanted):
    hang(wanted, range(MOST_DOUBTFUL))
    wanted.add([-1])
    first = wanted.take()
    assert first[0] == -1
    assert len(first) < AT_ONCE


def test_those_that_hang_have_their_turn_however_many_others_wait(wanted):
    hang(wanted, [1, 2])
    wanted.add(range(10, 10 + 2 * AT_ONCE))
    assert wanted.take()[-2:] == [1, 2]


def test_what_is_known_meanwhile_moves_who_waits_to_the_other_line(wanted):
    wanted.add([1, 2])
    wanted.is_known(1, is_well=False)
    assert wanted.take() == [2, 1]
    wanted.end(1, is_well=True)
    wanted.add([1, 2])
    assert wanted.take() == [1, 2]
