"""Many events in one turn: the same log as one by one."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from events import log
from events.kinds import EVERYONE, PLATFORM, Kind
from events.log import Entry
from events.models import Event, Head

pytestmark = pytest.mark.django_db(transaction=True)


def entries(*topics):
    return [Entry(Kind.DESK_CREATED, topic, {"venue": None}) for topic in topics]


def rows():
    return list(Event.objects.values_list("position", "topic"))


def test_many_events_stand_at_consecutive_positions_in_their_order():
    with log.turn() as turn:
        turn.append_many(entries("usr_1", EVERYONE, PLATFORM))
    assert rows() == [(1, "usr_1"), (2, EVERYONE), (3, PLATFORM)]
    assert Head.objects.get().position == 3


def test_the_first_position_is_known_before_anything_is_written():
    with log.turn() as turn:
        first = turn.next_position()
        turn.append_many(entries("usr_1", "usr_2"))
    assert rows()[0] == (first, "usr_1")


def test_an_event_is_the_same_whether_it_comes_alone_or_with_others():
    with log.turn() as turn:
        turn.append(Kind.DESK_CREATED, topic="usr_1", data={"venue": None})
        turn.append_many(entries("usr_1"))
    alone, together = Event.objects.values()
    assert {**alone, "position": None} == {**together, "position": None}


def test_single_and_many_take_turns_without_a_position_missing():
    with log.turn() as turn:
        turn.append(Kind.DESK_CREATED, topic="usr_1", data={})
        turn.append_many(entries("usr_2", "usr_3"))
        turn.append_many(entries("usr_4"))
        turn.append(Kind.DESK_CREATED, topic="usr_5", data={})
    assert rows() == [(number, f"usr_{number}") for number in range(1, 6)]
    assert Head.objects.get().position == 5


def test_none_at_all_takes_no_position():
    with log.turn() as turn:
        turn.append_many([])
    assert not Event.objects.exists()
    assert Head.objects.get().position == 0


def test_a_turn_that_fails_leaves_no_event_and_no_gap():
    def fails():
        with log.turn() as turn:
            turn.append_many(entries("usr_1", "usr_2"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert not Event.objects.exists()
    assert Head.objects.get().position == 0


def test_the_positions_of_any_number_are_taken_in_one_statement():
    with log.turn() as turn, CaptureQueriesContext(connection) as queries:
        turn.append_many(entries(*(f"usr_{number}" for number in range(200))))
    taken = [query for query in queries if query["sql"].startswith("UPDATE")]
    assert len(taken) == 1
