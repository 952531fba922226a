"""The engine's client against a running service, also when responses are lost."""

import itertools
import threading
import time

import httpx
import pytest

from signals.client import Engine, Refusal, UnreachableError
from signals.client.engine import MAX_BACKOFF, MIN_BACKOFF, _backoff
from tests.server import serving, serving_beside

pytestmark = [pytest.mark.processes, pytest.mark.once]

READY, IDLE = 5, 2


class Lossy(httpx.HTTPTransport):
    """A transport that delivers requests but loses the first responses to ``path``."""

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


class Watched(httpx.HTTPTransport):
    """A transport that records when each request is sent, and calls ``before`` first.

    Where that returns an answer, it is the answer.
    """

    def __init__(self, before):
        super().__init__()
        self._before, self.sent = before, []

    def handle_request(self, request):
        self.sent.append(time.monotonic())
        return self._before(len(self.sent)) or super().handle_request(request)

    @property
    def gaps(self):
        return [later - earlier for earlier, later in itertools.pairwise(self.sent)]


@pytest.fixture(scope="module")
def server():
    with serving(ready=READY, idle=IDLE) as server:
        yield server


def client(server, token=None, *, transport=None, timeout=20.0):
    """A client with the engine's token and without a proxy."""
    http = httpx.Client(transport=transport or httpx.HTTPTransport(), timeout=40)
    known = token or server.seed["platformToken"]
    return Engine(server.base_url, known, http=http, timeout=timeout)


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


def test_it_deploys_to_one_desk(server, engine, card, nonce):
    user_id = server.seed["desks"][0]["userId"]
    accepted = engine.deploy(user_id, card, nonce=nonce)
    assert (accepted.outcome, accepted.filled, accepted.repeated) == ("filled", 1, False)
    assert accepted.signal["userId"] == user_id


def test_it_fans_out_and_lists_the_filled_desks(engine, card, nonce):
    accepted = engine.fan_out(card, nonce=nonce)
    assert (accepted.matched, accepted.filled) == (READY, READY)
    assert len(list(engine.desks(signal=accepted.signal["id"], limit=2))) == READY


def test_a_request_is_retried_after_a_lost_response_and_accepted_once(server, engine, card, nonce):
    start = engine.tail()
    with client(server, transport=Lossy("/hooks/signal", times=2)) as unlucky:
        accepted = unlucky.fan_out(card, nonce=nonce)
    assert (accepted.filled, accepted.repeated) == (READY, True)
    fills = engine.page(start, kinds=["signal.filled"])["events"]
    assert [event["signal"]["id"] for event in fills] == [accepted.signal["id"]]


def test_with_no_time_to_retry_a_lost_response_is_unreachable(server, card, nonce):
    line = Lossy("/hooks/signal", times=9)
    with (
        client(server, transport=line, timeout=0) as unlucky,
        pytest.raises(UnreachableError),
    ):
        unlucky.fan_out(card, nonce=nonce)


def test_it_gives_up_on_an_unavailable_service_after_the_timeout(card, nonce):
    with (
        Engine("http://127.0.0.1:1", "token", timeout=0) as engine,
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


def test_an_invalid_token_is_refused_and_not_in_the_error(server):
    with client(server, "nothing") as engine, pytest.raises(Refusal) as refused:
        engine.tail()
    assert (refused.value.status, refused.value.code) == (401, "token_invalid")
    assert "nothing" not in str(refused.value)


def test_it_follows_the_feed_from_the_saved_cursor(engine, card, nonce, tmp_path):
    """Events are not repeated, except those of a page that was being read at a crash."""
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


def test_it_can_follow_the_feed_from_the_beginning(engine, tmp_path):
    assert next(engine.follow(tmp_path / "cursor", from_beginning=True))["position"] == 1


def test_without_a_saved_cursor_it_starts_at_the_end_of_the_log(server, card, nonce, tmp_path):
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


def test_it_backs_off_if_no_waiting_slot_is_free(
    server, engine, card, nonce, tmp_path, monkeypatch
):
    """If every waiting slot of the feed is taken, each response is immediate and empty."""
    monkeypatch.setattr("signals.client.engine.MIN_BACKOFF", 0.1)
    cursor = tmp_path / "cursor"
    cursor.write_text(engine.tail())
    line = Watched(lambda number: number == 5 and engine.fan_out(card, nonce=nonce) and None)
    with (
        serving_beside(server, WAITING_READERS="0") as crowded,
        client(crowded, transport=line) as follower,
    ):
        assert next(follower.follow(cursor))["signal"]["nonce"] == nonce
    assert len(line.sent) == 5
    assert all(gap >= least for gap, least in zip(line.gaps, (0.05, 0.1, 0.2, 0.4), strict=True))


def test_it_respects_retry_after(server, monkeypatch):
    monkeypatch.setattr("signals.client.engine.MIN_BACKOFF", 0.01)
    busy = httpx.Response(503, headers={"Retry-After": "1"})
    line = Watched(lambda number: busy if number == 1 else None)
    with client(server, transport=line) as engine:
        assert engine.card()
    assert len(line.sent) == 2
    assert line.gaps[0] >= 1


def test_retry_delays_grow_are_bounded_and_have_jitter():
    one, other = (list(itertools.islice(_backoff(), 20)) for _ in range(2))
    assert one != other
    for number, pause in enumerate(one):
        longest = min(MIN_BACKOFF * 2**number, MAX_BACKOFF)
        assert longest / 2 <= pause <= longest


def test_a_cursor_of_another_log_is_refused(engine, tmp_path):
    cursor = tmp_path / "cursor"
    cursor.write_text("of-another-log")
    with pytest.raises(Refusal):
        next(engine.follow(cursor))
