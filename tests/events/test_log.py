"""The turn at the log: positions without gaps, and no partial writes."""

from datetime import timedelta

import pytest
import time_machine
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from events import log
from events.actors import SYSTEM
from events.kinds import EVERYONE, Kind
from events.models import Event, Head
from events.unavailable_reasons import Wait
from events.writer_queue import WaitEnded

pytestmark = pytest.mark.django_db


def positions() -> list[int]:
    return list(Event.objects.values_list("position", flat=True))


def write(turn: log.Turn, **data: object) -> Event:
    return turn.append(Kind.DESK_CREATED, topic=EVERYONE, data=data)


def test_positions_count_from_one_without_gaps():
    for _ in range(3):
        with log.turn(actor=SYSTEM) as turn:
            write(turn)
    assert positions() == [1, 2, 3]
    assert Head.objects.get().position == 3


def test_one_turn_can_write_several_events_each_at_its_own_position():
    with log.turn(actor=SYSTEM) as turn:
        write(turn)
        assert turn.position == 2
        assert write(turn).position == 2
        write(turn)
    assert positions() == [1, 2, 3]


def test_all_events_of_a_turn_have_one_time_in_milliseconds():
    with log.turn(actor=SYSTEM) as turn:
        first, second = write(turn), write(turn)
    assert first.at == second.at == turn.at
    assert turn.at.microsecond % 1000 == 0


def test_a_turn_that_writes_nothing_uses_no_position():
    with log.turn(actor=SYSTEM):
        pass
    assert Head.objects.get().position == 0
    with log.turn(actor=SYSTEM) as turn:
        assert write(turn).position == 1


def test_a_halted_log_is_not_written():
    Head.objects.update(halted=True)
    with pytest.raises(WaitEnded) as refused, log.turn(actor=SYSTEM):
        pass
    assert refused.value.wait is Wait.NEW_EPOCH
    assert Head.objects.get().position == 0


def test_nobody_else_acts_inside_a_turn():
    with pytest.raises(ValueError, match="actor"), log.turn(actor=SYSTEM), log.turn(actor=None):
        pass


def test_a_turn_sets_the_counter_once_and_not_if_it_writes_nothing():
    with CaptureQueriesContext(connection) as queries:
        with log.turn(actor=SYSTEM) as turn:
            assert [write(turn).position for _ in range(4)] == [1, 2, 3, 4]
        with log.turn(actor=SYSTEM):
            pass
    assert sum("UPDATE events_head" in query["sql"] for query in queries) == 1
    assert Head.objects.get().position == 4


def test_an_error_inside_a_turn_leaves_no_event_and_no_gap():
    def fail_half_way() -> None:
        with log.turn(actor=SYSTEM) as turn:
            write(turn)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_half_way()
    assert positions() == []
    assert Head.objects.get().position == 0


def test_a_nested_turn_joins_the_outer_turn():
    with log.turn(actor=SYSTEM) as outer:
        write(outer)
        with log.turn(actor=SYSTEM) as inner:
            assert inner is outer
            write(inner)
    assert positions() == [1, 2]


def test_an_error_in_a_nested_turn_rolls_back_the_outer_turn():
    def fail_inside() -> None:
        with log.turn(actor=SYSTEM) as outer:
            write(outer)
            with log.turn(actor=SYSTEM) as inner:
                write(inner)
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_inside()
    assert positions() == []


def test_after_an_error_the_next_turn_is_a_new_one():
    with pytest.raises(ZeroDivisionError), log.turn(actor=SYSTEM):
        1 / 0  # noqa: B018
    with log.turn(actor=SYSTEM) as turn:
        write(turn)
    assert positions() == [1]


@pytest.mark.django_db(transaction=True)
def test_the_first_statement_of_a_turn_locks_the_counter():
    with CaptureQueriesContext(connection) as captured, log.turn(actor=SYSTEM) as turn:
        write(turn)
    begin, first, *_, commit = [query["sql"] for query in captured]
    assert begin.startswith("BEGIN")
    assert "FROM events_head" in first
    assert first.endswith("FOR NO KEY UPDATE") == (connection.vendor == "postgresql")
    assert commit == "COMMIT"


@pytest.mark.django_db(transaction=True)
def test_two_events_or_a_hundred_take_the_same_statements():
    def statements(count: int) -> list[str]:
        with CaptureQueriesContext(connection) as queries, log.turn(actor=SYSTEM) as turn:
            for _ in range(count):
                write(turn)
        return [query["sql"].split()[0] for query in queries]

    assert statements(2) == statements(100) == ["BEGIN", "SELECT", "INSERT", "UPDATE", "COMMIT"]
    assert Head.objects.get().position == Event.objects.count() == 102


def test_the_platform_sees_the_platform_content():
    with log.turn(actor=SYSTEM) as turn:
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
    assert event.content_for(platform=False) == {"signal": {"id": "sig_1"}, "data": {"a": 1}}
    assert event.content_for(platform=True) == {
        "signal": {"id": "sig_1", "nonce": "n"},
        "data": {"a": 1, "b": 2},
    }


def test_without_platform_content_the_platform_sees_what_desks_see():
    with log.turn(actor=SYSTEM) as turn:
        event = turn.append(Kind.DESK_CREATED, topic="usr_a", data={"a": 1})
    assert event.content_for(platform=True) == event.content_for(platform=False)


def test_the_counter_has_one_row():
    with pytest.raises(IntegrityError), transaction.atomic():
        Head.objects.create(id=2)


@pytest.mark.django_db(transaction=True)
def test_a_turn_inside_another_transaction_is_refused():
    with (
        pytest.raises(RuntimeError, match="durable"),
        transaction.atomic(),
        log.turn(actor=SYSTEM),
    ):
        raise AssertionError("never reached")


def test_a_turn_without_the_counter_row_raises():
    Head.objects.all().delete()
    with pytest.raises(WaitEnded), log.turn(actor=SYSTEM):
        raise AssertionError("never reached")


def test_the_logs_time_never_runs_back():
    now = timezone.now().replace(microsecond=5000)
    with time_machine.travel(now, tick=False), log.turn(actor=SYSTEM) as turn:
        write(turn)
    with (
        time_machine.travel(now - timedelta(hours=1), tick=False),
        log.turn(actor=SYSTEM) as turn,
    ):
        assert turn.at == now
        for _ in range(4):
            write(turn)
    later = now + timedelta(milliseconds=1)
    with time_machine.travel(later, tick=False), log.turn(actor=SYSTEM) as turn:
        write(turn)
    assert list(Event.objects.values_list("at", flat=True)) == [now] * 5 + [later]
    assert Head.objects.get().at == later


def test_the_time_of_a_turn_is_not_before_it_has_the_lock():
    """Otherwise a signal that joins the turn meanwhile would have a time before it was sent."""
    asked = timezone.now().replace(microsecond=0)
    with time_machine.travel(asked, tick=False) as clock:

        def wait(execute, sql, params, many, context):
            found = execute(sql, params, many, context)
            clock.shift(1)
            return found

        with connection.execute_wrapper(wait), log.turn(actor=SYSTEM) as turn:
            assert turn.at >= asked + timedelta(seconds=1)


def test_marking_an_event_of_another_position_as_written_raises():
    with log.turn(actor=SYSTEM) as turn:
        event = turn.build_event(Kind.DESK_CREATED, topic=EVERYONE, data={})
        event.position += 1
        with pytest.raises(ValueError, match="position"):
            turn.mark_written(event)
