"""The turn at the log: positions without gaps, and nothing half written."""

import pytest
from django.db import IntegrityError, OperationalError, connection, transaction
from django.test.utils import CaptureQueriesContext

from events import log
from events.kinds import EVERYONE, Kind
from events.models import Event, Head

pytestmark = pytest.mark.django_db


def positions() -> list[int]:
    return list(Event.objects.values_list("position", flat=True))


def write(turn: log.Turn, **data: object) -> Event:
    return turn.append(Kind.DESK_CREATED, topic=EVERYONE, data=data)


def test_positions_count_from_one_without_gaps():
    for _ in range(3):
        with log.turn() as turn:
            write(turn)
    assert positions() == [1, 2, 3]
    assert Head.objects.get().position == 3


def test_one_turn_can_write_several_events_each_at_its_own_position():
    with log.turn() as turn:
        write(turn)
        assert turn.next_position() == 2
        assert write(turn).position == 2
        write(turn)
    assert positions() == [1, 2, 3]


def test_all_events_of_a_turn_have_one_time_in_milliseconds():
    with log.turn() as turn:
        first, second = write(turn), write(turn)
    assert first.at == second.at == turn.at
    assert turn.at.microsecond % 1000 == 0


def test_a_turn_that_writes_nothing_gives_its_position_back():
    with log.turn():
        pass
    assert Head.objects.get().position == 0
    with log.turn() as turn:
        assert write(turn).position == 1


def test_a_position_that_was_asked_for_and_not_used_goes_back():
    with log.turn() as turn:
        write(turn)
        turn.next_position()
    assert Head.objects.get().position == 1


def test_a_fault_inside_a_turn_leaves_neither_event_nor_gap():
    def fail_half_way() -> None:
        with log.turn() as turn:
            write(turn)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_half_way()
    assert positions() == []
    assert Head.objects.get().position == 0


def test_a_turn_inside_a_turn_is_a_part_of_it():
    with log.turn() as outer:
        write(outer)
        with log.turn() as inner:
            assert inner is outer
            write(inner)
    assert positions() == [1, 2]


def test_a_fault_in_the_inner_turn_takes_the_outer_one_back():
    def fail_inside() -> None:
        with log.turn() as outer:
            write(outer)
            with log.turn() as inner:
                write(inner)
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_inside()
    assert positions() == []


def test_after_a_fault_the_next_turn_is_a_turn_of_its_own():
    with pytest.raises(ZeroDivisionError), log.turn():
        1 / 0  # noqa: B018
    with log.turn() as turn:
        write(turn)
    assert positions() == [1]


@pytest.mark.django_db(transaction=True)
def test_the_first_statement_of_a_turn_takes_the_counter():
    with CaptureQueriesContext(connection) as captured, log.turn() as turn:
        write(turn)
    begin, first, second, commit = [query["sql"] for query in captured]
    assert begin.startswith("BEGIN")
    assert first.startswith("UPDATE events_head SET position = position + 1")
    assert second.startswith("INSERT")
    assert commit == "COMMIT"


def test_the_platform_sees_more_where_more_was_written():
    with log.turn() as turn:
        event = turn.append(
            Kind.SIGNAL_FILLED,
            topic="usr_a",
            data={"a": 1},
            platform_data={"b": 2},
            signal={"id": "sig_1"},
            platform_signal={"id": "sig_1", "nonce": "n"},
        )
    event = Event.objects.get(position=event.position)
    assert event.signal_id == "sig_1"
    assert event.seen_by(platform=False) == {"signal": {"id": "sig_1"}, "data": {"a": 1}}
    assert event.seen_by(platform=True) == {
        "signal": {"id": "sig_1", "nonce": "n"},
        "data": {"a": 1, "b": 2},
    }


def test_the_platform_sees_the_same_where_nothing_more_was_written():
    with log.turn() as turn:
        event = turn.append(Kind.DESK_CREATED, topic="usr_a", data={"a": 1})
    assert event.seen_by(platform=True) == event.seen_by(platform=False)


def test_the_counter_is_one_row():
    with pytest.raises(IntegrityError), transaction.atomic():
        Head.objects.create(id=2)


def test_a_position_is_used_once():
    with log.turn() as turn:
        write(turn)
    with pytest.raises(IntegrityError), transaction.atomic():
        Event.objects.create(position=1, kind=Kind.DESK_CREATED, at=turn.at, content={})


@pytest.mark.django_db(transaction=True)
def test_a_turn_cannot_stand_inside_another_transaction():
    with (
        pytest.raises(RuntimeError, match="durable"),
        transaction.atomic(),
        log.turn(),
    ):
        raise AssertionError("never reached")


@pytest.mark.django_db(transaction=True)
def test_a_turn_is_its_own_and_holds_nothing_afterwards():
    with log.turn() as turn:
        write(turn)
    assert not connection.in_atomic_block
    assert positions() == [1]


def test_a_log_without_its_counter_says_so_and_writes_nothing():
    Head.objects.all().delete()
    with pytest.raises((TypeError, OperationalError)), log.turn():
        raise AssertionError("never reached")
