"""The engine's client against the service as it is served, and over a line that loses answers."""

import itertools
import threading

import httpx
import pytest

from signals.client import Engine, Refusal, UnreachableError
from tests.server import serving

pytestmark = [pytest.mark.processes, pytest.mark.once]

READY, IDLE = 5, 2


class Lossy(httpx.HTTPTransport):
    """A line on which requests arrive, and the first answers to ``path`` are lost."""

    def __init__(self, path: str, times: int) -> None:
        super().__init__()
        self._path, self._left = path, times

    def handle_request(self, request):
        response = super().handle_request(request)
        if self._left and request.url.path.endswith(self._path):
            self._left -= 1
            response.close()
            raise httpx.ReadError("The answer was lost.", request=request)
        return response


@pytest.fixture(scope="module")
def server():
    with serving(ready=READY, idle=IDLE) as server:
        yield server


def client(server, token=None, *, transport=None, patience=20.0):
    """The client, with the token of the engine, on a line without a proxy."""
    http = httpx.Client(transport=transport or httpx.HTTPTransport(), timeout=40)
    known = token or server.seed["platformToken"]
    return Engine(server.base_url, known, http=http, patience=patience)


@pytest.fixture
def engine(server):
    with client(server) as engine:
        yield engine


@pytest.fixture
def card(engine):
    return engine.card()


@pytest.fixture
def nonce(request):
    return f"{request.node.name}"[:128]


def test_it_pulls_every_desk_page_by_page(engine):
    every = [desk["userId"] for desk in engine.desks(limit=2)]
    assert len(every) == len(set(every)) == READY + IDLE
    assert len(list(engine.desks(ready=True))) == READY
    assert len(list(engine.desks(connected=False, limit=1))) == IDLE


def test_it_reads_the_card_and_one_desk(server, engine, card):
    assert card == server.seed["card"] | {"name": card["name"]}
    user_id = server.seed["desks"][0]["userId"]
    assert engine.desk(user_id)["ready"] is True


def test_it_deploys_to_one(server, engine, card, nonce):
    user_id = server.seed["desks"][0]["userId"]
    accepted = engine.deploy(user_id, card, nonce=nonce)
    assert (accepted.outcome, accepted.filled, accepted.repeated) == ("filled", 1, False)
    assert accepted.signal["userId"] == user_id


def test_it_fans_out_and_names_whom_it_filled(engine, card, nonce):
    accepted = engine.fan_out(card, nonce=nonce)
    assert (accepted.matched, accepted.filled) == (READY, READY)
    assert len(list(engine.desks(signal=accepted.signal["id"], limit=2))) == READY


def test_a_lost_answer_is_asked_for_again_and_nothing_is_done_twice(server, engine, card, nonce):
    start = engine.tail()
    with client(server, transport=Lossy("/hooks/signal", times=2)) as unlucky:
        accepted = unlucky.fan_out(card, nonce=nonce)
    assert (accepted.filled, accepted.repeated) == (READY, True)
    fills = engine.page(start, kinds=["signal.filled"])["events"]
    assert [event["signal"]["id"] for event in fills] == [accepted.signal["id"]]


def test_without_patience_it_says_that_nobody_knows(server, card, nonce):
    line = Lossy("/hooks/signal", times=9)
    with (
        client(server, transport=line, patience=0) as unlucky,
        pytest.raises(UnreachableError),
    ):
        unlucky.fan_out(card, nonce=nonce)


def test_a_service_that_is_away_is_waited_for_no_longer_than_patience_lasts(card, nonce):
    with (
        Engine("http://127.0.0.1:1", "token", patience=0) as engine,
        pytest.raises(UnreachableError),
    ):
        engine.fan_out(card, nonce=nonce)


def test_the_same_nonce_for_another_signal_is_refused(server, engine, card, nonce):
    engine.fan_out(card, nonce=nonce)
    with pytest.raises(Refusal) as refused:
        engine.deploy(server.seed["desks"][0]["userId"], card, nonce=nonce)
    assert (refused.value.status, refused.value.code) == (409, "nonce_used")


def test_a_refusal_has_its_code_and_sentence_and_not_the_token(server, engine, card, nonce):
    with pytest.raises(Refusal) as refused:
        engine.fan_out({**card, "direction": "short"}, nonce=nonce)
    assert (refused.value.status, refused.value.code) == (422, "direction_mismatch")
    assert refused.value.detail in str(refused.value)
    assert refused.value.problem["elected"]["direction"] == "long"


def test_a_token_that_is_none_is_refused_and_repeated_nowhere(server):
    with client(server, "nothing") as engine, pytest.raises(Refusal) as refused:
        engine.tail()
    assert (refused.value.status, refused.value.code) == (401, "token_invalid")
    assert "nothing" not in str(refused.value)


def test_it_follows_from_the_saved_cursor_on(engine, card, nonce, tmp_path):
    """What was taken is not told again, but for the page that was under way at a crash."""
    cursor, fan_outs = tmp_path / "cursor", itertools.count()

    def fan_out():
        return engine.fan_out(card, nonce=f"{nonce}-{next(fan_outs)}").signal["id"]

    cursor.write_text(engine.tail())
    sent = [fan_out() for _ in range(3)]
    before_the_crash = engine.follow(cursor)
    assert [next(before_the_crash)["signal"]["id"] for _ in range(3)] == sent
    under_way = fan_out()
    assert next(before_the_crash)["signal"]["id"] == under_way
    before_the_crash.close()
    assert next(engine.follow(cursor))["signal"]["id"] == under_way


def test_from_the_beginning_the_first_event_comes_first(engine, tmp_path):
    assert next(engine.follow(tmp_path / "cursor", from_beginning=True))["position"] == 1


def test_without_a_cursor_it_begins_where_the_log_ends(server, card, nonce, tmp_path):
    cursor = tmp_path / "cursor"
    with client(server) as other, client(server) as engine:
        other.fan_out(card, nonce=f"{nonce}-before")
        heard = []
        listener = threading.Thread(target=lambda: heard.append(next(engine.follow(cursor))))
        listener.start()
        while not cursor.exists():
            listener.join(0.01)
        later = other.fan_out(card, nonce=f"{nonce}-later").signal["id"]
        listener.join()
    assert heard[0]["signal"]["id"] == later


def test_a_cursor_of_another_log_is_refused(engine, tmp_path):
    cursor = tmp_path / "cursor"
    cursor.write_text("of-another-log")
    with pytest.raises(Refusal):
        next(engine.follow(cursor))
