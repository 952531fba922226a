"""Waiting readers get new events, hold no connection, and do not starve others."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, connections
from django.test import Client
from django.utils import timezone
from prometheus_client import REGISTRY

from desks import actions
from desks.models import Desk
from events import log
from events.actors import SYSTEM
from events.http.refusals import RateLimited, Unavailable
from events.kinds import Kind
from events.live.frames import EndReason, Version, end_frame
from events.live.hub import hub
from events.live.streams import MAX_UNSENT, Credential, Reader, ReaderSpec
from events.live.waiting_readers import Slots, Waiter
from events.models import Event, Head
from events.times import to_rfc3339
from tests.client import EVENTS, bearer, code, get, push
from tests.factories import a_card, a_connected_desk, a_desk_token, a_platform_token
from tests.signals.bodies import fanout
from tests.streams import PATIENCE, wait_until
from tokens import actions as tokens
from tokens.models import Token
from tokens.models.token import StreamTokens

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def wait_for_the_hub_to_stop() -> Iterator[None]:
    """Waits until the hub closes its connection, before the test database is dropped."""
    yield
    for thread in threading.enumerate():
        if thread.name == "log-hub":
            thread.join(timeout=60)


class WaitingReader(threading.Thread):
    """A reader that waits in a thread. ``response`` is its response."""

    def __init__(self, token: str, after: str, seconds: int = 25) -> None:
        super().__init__()
        self.client = Client(headers=bearer(token))
        self.path = f"{EVENTS}?after={after}&wait={seconds}"
        self.before_the_next_page: Callable[[], object] | None = None
        self.start()

    def run(self) -> None:
        self.connection = connections["default"]
        with connection.execute_wrapper(self._before_a_page):
            self.response = self.client.get(self.path).json()
        connections.close_all()

    def _before_a_page(self, execute: Any, sql: str, *rest: Any) -> Any:
        """Runs ``before_the_next_page`` in another connection before the reader reads the log."""
        action = self.before_the_next_page
        if action and Head._meta.db_table in sql:
            self.before_the_next_page = None
            with ThreadPoolExecutor(1) as other:
                other.submit(action).result()
                other.submit(connections.close_all).result()
        return execute(sql, *rest)


def tail(token: str) -> str:
    return str(get(f"{EVENTS}?order=desc&limit=1", token).json()["next"])


def seats() -> list[Reader]:
    """The readers that wait at the hub."""
    return [waiter for waiter in hub._roster.everybody() if waiter.position is not None]


def seated() -> int:
    """How many readers wait at the hub."""
    return len(seats())


def wait_until_seated(number: int) -> None:
    """Returns when this number of readers waits at the hub."""
    wait_until(lambda: seated() >= number, "no reader waits")


def is_answered_without_a_seat(reader: WaitingReader, *, taken: int) -> bool:
    """Whether a reader gets an empty answer and does not wait beside those who have a seat."""
    while reader.is_alive() and seated() <= taken:
        time.sleep(0.005)
    return not reader.is_alive() and reader.response["events"] == []


def test_a_reader_keeps_waiting_through_events_it_cannot_see():
    desk = a_connected_desk()
    token = a_desk_token(desk)
    waiting = WaitingReader(token, tail(token))
    wait_until_seated(1)
    a_platform_token()
    actions.disconnect(desk=desk, actor=SYSTEM)
    waiting.join()
    assert [event["kind"] for event in waiting.response["events"]] == ["desk.disconnected"]


FRAME = b"x" * 600
MANY = 2 * MAX_UNSENT // len(FRAME)  # frames, more than may wait for a stream


@pytest.fixture
def waiter() -> Iterator[Waiter]:
    waiter = Waiter(a_spec("tok_1"))
    yield waiter
    waiter.close()


def cut_readers() -> float | None:
    return REGISTRY.get_sample_value("signals_live_cut_readers_total")


def test_each_event_wakes_a_waiting_reader_however_many_came_before(waiter):
    cut = cut_readers()
    for _ in range(MANY):
        waiter.deliver(FRAME, 1.0)
        assert waiter.wait(0)
    assert not waiter.wait(0)
    assert cut_readers() == cut


def test_a_waiting_reader_that_has_ended_does_not_wait(waiter):
    waiter.deliver(FRAME, 1.0)
    waiter.end(FRAME)
    began = time.monotonic()
    assert [waiter.wait(PATIENCE) for _ in range(2)] == [False, False]
    assert time.monotonic() - began < PATIENCE


def test_a_reader_that_waits_for_a_later_time_gets_its_event_however_many_come_before_it():
    """The client's clock is ahead of the log."""
    token, soon = a_platform_token(), timezone.now() + timedelta(hours=1)
    waiting = WaitingReader(token, f"{tail(token)}&since={to_rfc3339(soon)}")
    wait_until_seated(1)
    with log.turn(actor=SYSTEM) as turn:
        for _ in range(MANY):
            turn.append(Kind.SIGNAL_FILLED, topic=None, data={"note": FRAME.decode()})
    wait_until(lambda: hub.position == Head.objects.get().position, "the hub stands still")
    wait_until(lambda: waiting.connection.connection is None, "the reader reads on")
    Head.objects.update(at=soon)
    a_card()
    waiting.join()
    assert [event["kind"] for event in waiting.response["events"]] == ["card.published"]


def test_a_reader_that_has_ended_is_answered_before_the_hub_has_forgotten_it():
    token, engine = a_platform_token(), a_platform_token()
    waiting = WaitingReader(token, tail(token))
    wait_until_seated(1)
    [waiter] = seats()
    another = WaitingReader(engine, tail(engine), seconds=20)
    wait_until_seated(2)
    waiter.end(end_frame(EndReason.RESTARTING))
    waiting.join()
    assert waiting.response["events"] == []
    assert another.is_alive()
    a_card()
    another.join()


def test_a_reader_whose_log_is_replaced_during_the_wait_gets_no_cursor_of_the_next_log():
    """Behind its position the next log may have events that the reader has not seen."""
    token = a_platform_token()
    waiting = WaitingReader(token, tail(token))
    wait_until_seated(1)
    Head.objects.update(epoch="00000000")
    waiting.join()
    assert code(get(f"{EVENTS}?after={waiting.response['next']}", token)) == "cursor_lost"


def test_a_reader_whose_log_is_replaced_between_the_wake_up_and_the_read_gets_nothing_of_the_next():
    token = a_platform_token()
    waiting = WaitingReader(token, tail(token))
    wait_until_seated(1)
    waiting.before_the_next_page = lambda: call_command("new_epoch", stdout=StringIO())
    a_card()
    waiting.join()
    assert waiting.response["events"] == []
    assert code(get(f"{EVENTS}?after={waiting.response['next']}", token)) == "cursor_lost"


def test_a_third_waiting_reader_of_a_token_is_answered_at_once():
    token = a_platform_token()
    after = tail(token)
    two = [WaitingReader(token, after) for _ in range(2)]
    wait_until_seated(2)
    third = WaitingReader(token, after)
    assert is_answered_without_a_seat(third, taken=2)
    a_card()
    for waiting in two:
        waiting.join()
        assert len(waiting.response["events"]) == 1


def test_tokens_with_the_same_name_do_not_share_seats():
    tokens = [a_platform_token() for _ in range(3)]
    after = tail(tokens[0])
    three = [WaitingReader(token, after) for token in tokens]
    wait_until_seated(3)
    a_card()
    for waiting in three:
        waiting.join()
        assert [event["kind"] for event in waiting.response["events"]] == ["card.published"]


def a_spec(owner: str, *, is_platform: bool = False) -> ReaderSpec:
    """What slots ask of a spec: whose it is."""
    credential = Credential(StreamTokens(), owner, None)
    return ReaderSpec(credential, owner, is_platform, Version.DESK)


def takes(slots: Slots, spec: ReaderSpec) -> bool:
    try:
        slots.take(spec)
    except (RateLimited, Unavailable):
        return False
    return True


def test_desks_can_take_half_of_the_seats_and_the_platform_all(settings):
    settings.WAITING_READERS = 5
    slots = Slots()
    desks = [a_spec(f"tok_{number}") for number in range(3)]
    platform = [a_spec(f"tok_engine_{number}", is_platform=True) for number in range(4)]
    taken = [takes(slots, spec) for spec in (*desks, *platform, desks[0])]
    assert taken == [True, True, False, True, True, True, False, False]
    slots.leave(desks[0])
    assert takes(slots, desks[2])


def test_one_desk_can_take_half_of_the_seats_of_desks_and_at_least_one(settings):
    one, other = a_spec("tok_one"), a_spec("tok_other")
    for most, taken in {8: 2, 7: 1, 4: 1, 2: 1}.items():
        settings.WAITING_READERS = most
        slots = Slots()
        assert [takes(slots, one) for _ in range(3)].count(True) == taken
        assert takes(slots, other) is (most > 2)


def test_the_platform_can_wait_when_desks_have_taken_all_their_seats(settings):
    settings.WAITING_READERS = 4
    desks = [a_desk_token(a_connected_desk()) for _ in range(4)]
    engine = a_platform_token()
    after = tail(engine)
    crowd = [WaitingReader(token, after) for token in desks for _ in range(2)]
    wait_until(lambda: sum(each.is_alive() for each in crowd) <= 2, "more than two desks wait")
    seated = [each for each in crowd if each.is_alive()]
    waiting = WaitingReader(engine, after)
    wait_until_seated(3)
    a_card()
    for each in (*seated, waiting):
        each.join()
    assert [event["kind"] for event in waiting.response["events"]] == ["card.published"]


def test_a_waiting_reader_holds_no_connection():
    token = a_platform_token()
    waiting = WaitingReader(token, tail(token))
    wait_until_seated(1)
    wait_until(lambda: waiting.connection.connection is None, "the reader keeps its connection")
    a_card()
    waiting.join()


class TestTokenEndsDuringTheWait:
    """A reader gets no events if its token ends during the wait."""

    def revoke(self, desk: Desk | None = None) -> None:
        token = Token.objects.select_related("desk").get(desk=desk)
        tokens.revoke(token=token, actor=SYSTEM)

    def expire(self) -> None:
        made = Token.objects.get().created_at
        Token.objects.update(expires_at=made + timedelta(milliseconds=1))

    def refused(self, waiting: WaitingReader) -> bool:
        waiting.join()
        return waiting.response["code"] == "token_invalid" and "events" not in waiting.response

    def test_a_desk_token_that_is_revoked(self):
        """The reader is answered while another waits, for less than its own 25 s."""
        desk = a_connected_desk()
        token, engine = a_desk_token(desk), a_platform_token()
        waiting = WaitingReader(token, tail(token))
        another = WaitingReader(engine, f"{tail(engine)}&kind=card.published", seconds=20)
        wait_until_seated(2)
        self.revoke(desk)
        assert self.refused(waiting)
        assert another.is_alive()
        a_card()
        another.join()

    def test_a_token_that_expires(self):
        token = a_platform_token()
        waiting = WaitingReader(token, tail(token))
        wait_until_seated(1)
        self.expire()
        a_card()
        assert self.refused(waiting)

    def test_a_token_that_expires_before_the_event_by_the_clock_of_the_log(self):
        """The writer's clock is ahead of the clock of the reader's server."""
        token, soon = a_platform_token(), timezone.now() + timedelta(hours=1)
        Token.objects.update(expires_at=soon)
        waiting = WaitingReader(token, tail(token))
        wait_until_seated(1)
        waiting.before_the_next_page = lambda: Event.objects.update(at=soon)
        a_card()
        assert self.refused(waiting)

    def test_a_token_that_ends_between_the_wake_up_and_the_read(self):
        token = a_platform_token()
        waiting = WaitingReader(token, tail(token))
        wait_until_seated(1)
        waiting.before_the_next_page = lambda: (self.revoke(), a_card("Secret"))
        a_card()
        assert self.refused(waiting)

    def test_a_token_that_is_revoked_before_the_timeout(self):
        token = a_platform_token()
        waiting = WaitingReader(token, f"{tail(token)}&kind=card.published")
        wait_until_seated(1)
        self.revoke()
        assert self.refused(waiting)


def test_a_desk_that_waits_for_fills_gets_those_of_a_card_it_enrols_in_during_the_wait():
    card, desk = a_card(), a_connected_desk()
    token, engine = a_desk_token(desk), a_platform_token()
    waiting = WaitingReader(token, f"{tail(token)}&kind=signal.filled")
    wait_until_seated(1)
    actions.enrol(desk=desk, card_id=card.pk, actor=SYSTEM)
    push(fanout(), engine)
    waiting.join()
    assert [event["kind"] for event in waiting.response["events"]] == ["signal.filled"]
