"""Readers that wait: they get what comes, hold no connection, and never starve the others."""

import threading
import time
from collections.abc import Iterator

import pytest
from django.db import connection, connections
from django.test import Client

from desks import actions
from events.models import Head
from events.waiting import Waiter, WaitingRoom, room
from tests.factories import a_card, a_connected_desk, a_desk_token, a_platform_token

pytestmark = pytest.mark.django_db(transaction=True)

EVENTS = "/api/v1/events"


@pytest.fixture(autouse=True)
def no_watcher_stays() -> Iterator[None]:
    """The watcher lets its connection go before the test's database does."""
    yield
    for thread in threading.enumerate():
        if thread.name == "log-watcher":
            thread.join(timeout=5)


def reader(token: str) -> Client:
    return Client(headers={"Authorization": f"Bearer {token}"})


class Waiting(threading.Thread):
    """A reader who waits in a thread: ``answer`` is what it got, ``took`` how many seconds."""

    def __init__(self, token: str, after: str, seconds: int = 20) -> None:
        super().__init__()
        self.client, self.path = reader(token), f"{EVENTS}?after={after}&wait={seconds}"
        self.start()

    def run(self) -> None:
        began = time.monotonic()
        self.answer = self.client.get(self.path).json()
        self.took = time.monotonic() - began
        connections.close_all()


def tail(token: str) -> str:
    return reader(token).get(f"{EVENTS}?order=desc&limit=1").json()["next"]


def until_waiting(number: int) -> None:
    """Returns when so many readers sit in the waiting room."""
    deadline = time.monotonic() + 10
    while room._seats.total() < number:
        assert time.monotonic() < deadline, "nobody waits"


def test_a_waiting_reader_gets_what_comes_at_once():
    token = a_platform_token()
    waiting = Waiting(token, tail(token))
    until_waiting(1)
    a_card()
    waiting.join()
    assert [event["kind"] for event in waiting.answer["events"]] == ["card.published"]
    assert waiting.took < 10


def test_a_reader_waits_on_through_what_is_not_for_it():
    desk = a_connected_desk()
    token = a_desk_token(desk)
    waiting = Waiting(token, tail(token))
    until_waiting(1)
    a_platform_token()
    actions.disconnect(desk=desk)
    waiting.join()
    assert [event["kind"] for event in waiting.answer["events"]] == ["desk.disconnected"]


def test_what_stands_already_is_answered_without_waiting():
    token = a_platform_token()
    answer = reader(token).get(f"{EVENTS}?wait=25").json()
    assert [event["kind"] for event in answer["events"]] == ["token.minted"]


def test_when_the_time_is_over_the_answer_is_empty_and_resumes():
    token = a_platform_token()
    answer = reader(token).get(f"{EVENTS}?after={tail(token)}&wait=1").json()
    assert (answer["events"], answer["more"]) == ([], False)
    a_card()
    assert len(reader(token).get(f"{EVENTS}?after={answer['next']}").json()["events"]) == 1


def test_a_third_waiting_reader_of_a_token_is_answered_at_once():
    token = a_platform_token()
    after = tail(token)
    two = [Waiting(token, after) for _ in range(2)]
    until_waiting(2)
    third = Waiting(token, after)
    third.join()
    assert (third.answer["events"], third.took < 10) == ([], True)
    a_card()
    for waiting in two:
        waiting.join()
        assert len(waiting.answer["events"]) == 1


def test_tokens_of_one_name_do_not_share_their_seats():
    tokens = [a_platform_token() for _ in range(3)]
    after = tail(tokens[0])
    three = [Waiting(token, after) for token in tokens]
    until_waiting(3)
    a_card()
    for waiting in three:
        waiting.join()
        assert [event["kind"] for event in waiting.answer["events"]] == ["card.published"]


def test_beyond_the_seats_of_the_process_a_reader_is_answered_at_once(settings):
    settings.WAITING_READERS = 1
    first, second = a_platform_token(), a_platform_token()
    after = tail(first)
    waiting = Waiting(first, after)
    until_waiting(1)
    beyond = Waiting(second, after)
    beyond.join()
    assert (beyond.answer["events"], beyond.took < 10) == ([], True)
    a_card()
    waiting.join()


def test_a_seat_is_free_again_after_the_wait():
    here = WaitingRoom()
    for _ in range(3):
        with here.seat("a") as first, here.seat("a") as second, here.seat("a") as third:
            assert (first, second, third) == (True, True, False)
    assert not here._seats


def test_a_waiting_reader_holds_no_connection():
    assert connection.connection is not None or Head.objects.get()
    WaitingRoom().wait(Waiter(10**6, frozenset(), frozenset()), 0.01)
    assert connection.connection is None


class TestWhoIsWoken:
    """The watcher tells what is new; only those whom it concerns read again."""

    def woken(self, waiter: Waiter) -> bool:
        waiter.hear([("usr_a", "desk.connected", 7), (None, "token.minted", 8)], head=9)
        assert waiter.position == 9
        return waiter.woken.is_set()

    def test_a_reader_of_the_topic(self):
        assert self.woken(Waiter(6, frozenset({"usr_a", "all"}), frozenset()))

    def test_not_a_reader_of_other_topics(self):
        assert not self.woken(Waiter(6, frozenset({"usr_b", "all"}), frozenset()))

    def test_not_a_reader_who_has_seen_it(self):
        assert not self.woken(Waiter(7, frozenset({"usr_a", "all"}), frozenset()))

    def test_the_platform_by_anything(self):
        assert self.woken(Waiter(7, frozenset({None}), frozenset()))

    def test_the_platform_by_the_kinds_that_it_asked_for(self):
        assert self.woken(Waiter(6, frozenset({None}), frozenset({"token.minted"})))
        assert not self.woken(Waiter(6, frozenset({None}), frozenset({"card.published"})))

    def test_a_desk_by_every_kind_since_an_election_opens_further_topics(self):
        assert self.woken(Waiter(6, frozenset({"usr_a"}), frozenset({"signal.filled"})))


def test_a_desk_that_waits_for_fills_only_hears_of_a_card_that_it_enrols_in_meanwhile():
    card, desk = a_card(), a_connected_desk()
    token, engine = a_desk_token(desk), a_platform_token()
    waiting = Waiting(token, f"{tail(token)}&kind=signal.filled")
    until_waiting(1)
    actions.enrol(desk=desk, card_id=card.pk)
    body = {"pair": card.pair, "direction": card.direction, "elected": True, "source": "floor"}
    reader(engine).post(
        "/api/hooks/signal",
        body | {"fanout": True, "nonce": "1"},
        content_type="application/json",
    )
    waiting.join()
    assert [event["kind"] for event in waiting.answer["events"]] == ["signal.filled"]
    assert waiting.took < 10
