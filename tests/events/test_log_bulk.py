"""A turn that appends many events writes them together, and without gaps."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from events import log
from events.actors import SYSTEM
from events.kinds import EVERYONE, PLATFORM, Kind
from events.models import Event, Head

pytestmark = pytest.mark.django_db(transaction=True)


def append(turn, *topics):
    for topic in topics:
        turn.append(Kind.DESK_CREATED, topic=topic, data={"venue": None})


def rows():
    return list(Event.objects.values_list("position", "topic"))


def test_many_events_get_consecutive_positions_in_order():
    with log.turn(actor=SYSTEM) as turn:
        append(turn, "usr_1", EVERYONE, PLATFORM)
    assert rows() == [(1, "usr_1"), (2, EVERYONE), (3, PLATFORM)]
    assert Head.objects.get().position == 3


def test_the_first_position_is_known_before_anything_is_written():
    with log.turn(actor=SYSTEM) as turn:
        first = turn.position
        append(turn, "usr_1", "usr_2")
    assert rows()[0] == (first, "usr_1")


def test_a_turn_that_fails_leaves_no_event_and_no_gap():
    def fails():
        with log.turn(actor=SYSTEM) as turn:
            append(turn, "usr_1", "usr_2")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert not Event.objects.exists()
    assert Head.objects.get().position == 0


def test_two_events_or_a_hundred_take_the_same_statements():
    def statements(count: int) -> list[str]:
        with CaptureQueriesContext(connection) as queries, log.turn(actor=SYSTEM) as turn:
            for number in range(count):
                turn.append(Kind.DESK_CREATED, topic=f"usr_{number}", data={})
        return [query["sql"].split()[0] for query in queries]

    assert statements(2) == statements(100) == ["BEGIN", "SELECT", "INSERT", "UPDATE", "COMMIT"]
    assert Head.objects.get().position == Event.objects.count() == 102
