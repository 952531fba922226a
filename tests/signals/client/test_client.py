"""The engine's client against a running service, also when responses are lost."""

import itertools
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import httpx2
import pytest

from signals.client import Engine, Refusal, UnreachableError
from signals.client.engine import MAX_BACKOFF, MIN_BACKOFF, backoff
from tests.client import HOOK, signed
from tests.conformance.browser import Browser
from tests.conformance.client import OF_ANOTHER_LOG, Service
from tests.server import IDLE, METRICS_TOKEN, READY, gauge, serving, serving_beside
from tests.streams import wait_until

pytestmark = [pytest.mark.processes, pytest.mark.once]


class Lossy(httpx2.HTTPTransport):
    """A transport that delivers requests but loses the first responses to ``path``."""

    def __init__(self, path: str, times: int) -> None:
        super().__init__()
        self._path, self._left = path, times

    def handle_request(self, request):
        response = super().handle_request(request)
        if self._left and request.url.path.endswith(self._path):
            self._left -= 1
            response.close()
            raise httpx2.ReadError("The answer was lost.", request=request)
        return response


class Watched(httpx2.HTTPTransport):
    """A transport that records each request and when it is sent, and calls ``before`` first.

    Where that returns an answer, it is the answer. An exception is raised.
    """

    def __init__(self, before=lambda number: None):
        super().__init__()
        self._before, self.sent, self.requests = before, [], []

    def handle_request(self, request):
        self.sent.append(time.monotonic())
        self.requests.append(request)
        answer = self._before(len(self.sent))
        if isinstance(answer, Exception):
            raise answer
        return answer or super().handle_request(request)

    @property
    def streams(self):
        """The requests that asked for a stream."""
        return [each for each in self.requests if "event-stream" in each.headers["Accept"]]

    @property
    def gaps(self):
        return [later - earlier for earlier, later in itertools.pairwise(self.sent)]


class Cut(httpx2.SyncByteStream):
    """The body of a response, without what follows the text ``last``."""

    def __init__(self, body, last):
        self._body, self._last = body, last

    def __iter__(self):
        for part in self._body:
            yield part
            if self._last in part:
                raise httpx2.ReadError("The connection was cut.")

    def close(self):
        self._body.close()


class Cutting(Watched):
    """A transport that cuts the first stream after the text ``last``."""

    def __init__(self, last):
        super().__init__()
        self._last = last.encode()

    def handle_request(self, request):
        response = super().handle_request(request)
        if self.streams == [request]:
            response.stream = Cut(response.stream, self._last)
        return response


@pytest.fixture
def pauses(monkeypatch):
    """The seconds that a follower paused; it does not really pause."""
    paused = []
    monkeypatch.setattr("signals.client.engine.time.sleep", paused.append)
    return paused


@pytest.fixture(scope="module")
def service():
    with serving(METRICS_TOKEN=METRICS_TOKEN, WEB_CONCURRENCY="1") as server:
        yield server


@pytest.fixture
def server(service):
    """The service, when it has noticed that the streams of the test before are closed."""
    base_url = service.base_url
    wait_until(lambda: not gauge(base_url, "signals_waiting_readers"), "A seat is still taken.")
    return service


def client(server, token=None, *, transport=None, timeout=60.0):
    """A client with the engine's token and without a proxy."""
    http = httpx2.Client(transport=transport or httpx2.HTTPTransport(), timeout=90)
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


def push(server, nonce):
    """Pushes as the seed's bot. Returns the answer."""
    bot = server.seed["automation"]
    signal = {"pair": bot["pair"], "direction": bot["direction"], "nonce": nonce, "elected": True}
    body = json.dumps({**signal, "source": "tradingview", "botId": bot["botId"]}).encode()
    headers = signed(bot["secret"], body=body)
    return httpx2.post(server.base_url + HOOK, content=body, headers=headers, trust_env=False)


def test_a_check_says_what_a_signal_would_do_and_uses_no_nonce(server, engine, card, nonce):
    desk, idle = server.seed["desks"][0], next(engine.desks(ready=False))
    start = engine.tail()
    for user_id, filled in ((None, READY), (desk["userId"], 1)):
        checked = engine.check(card, nonce=nonce, user_id=user_id)
        assert (checked.would_be, checked.matched, checked.filled) == ("filled", filled, filled)
        assert (checked.signal["nonce"], checked.ignored) == (nonce, [])
    with pytest.raises(Refusal) as refused:
        engine.check(card, nonce=nonce, user_id=idle["userId"])
    assert refused.value.code == "desk_not_ready"
    assert engine.page(start)["events"] == []
    assert engine.fan_out(card, nonce=nonce).repeated is False


def test_it_finds_a_signal_by_its_id_and_by_its_nonce(server, engine, card, nonce):
    with pytest.raises(Refusal) as missing:
        engine.find_signal(nonce, source="floor")
    assert missing.value.code == "not_found"
    sent = engine.fan_out(card, nonce=nonce)
    for found in (engine.find_signal(nonce, source="floor"), engine.signal(sent.signal["id"])):
        assert (found.signal, found.filled, found.repeated) == (sent.signal, READY, True)
    pushed = push(server, nonce).json()["signal"]
    bot_id = server.seed["automation"]["botId"]
    assert engine.find_signal(nonce, bot_id=bot_id).signal == pushed


def test_it_narrows_the_feed_to_a_desk_a_bot_a_signal_and_a_time(server, engine, card, nonce):
    bot, (one, other) = server.seed["automation"], server.seed["desks"][:2]
    start = engine.tail()
    pushed = push(server, nonce).json()["signal"]
    deployed = engine.deploy(other["userId"], card, nonce=f"{nonce}-deploy").signal
    fanned_out = engine.fan_out(card, nonce=nonce).signal

    def found(**search):
        return [event["signal"]["id"] for event in engine.page(start, **search)["events"]]

    assert found(user_id=one["userId"]) == [pushed["id"], fanned_out["id"]]
    assert found(bot_id=bot["botId"]) == [pushed["id"]]
    assert found(signal=deployed["id"], kinds=["signal.filled"]) == [deployed["id"]]
    at = datetime.fromisoformat(deployed["receivedAt"])
    everything = found(since=at - timedelta(hours=1), until=at + timedelta(hours=1))
    assert everything == [pushed["id"], deployed["id"], fanned_out["id"]]
    assert found(since=at + timedelta(hours=1)) == found(until=at - timedelta(hours=1)) == []


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


def of_a_proxy(status, content, **headers):
    """An answer that is not the service's. Its content is decoded when it is read."""
    of_type = {"Content-Type": "application/json", **headers}
    return httpx2.Response(status, headers=of_type, stream=httpx2.ByteStream(content))


BROKEN_GZIP = {"Content-Encoding": "gzip"}


BLOCKED = b'{"status":"blocked","code":"blocked"}'
TOO_DEEP = b"[" * 100_000
FOREIGN = [b"<p>Sign in to the network.</p>", b"[]", b"", b"\xff", BLOCKED, TOO_DEEP]


@pytest.mark.parametrize("content", FOREIGN, ids=range(len(FOREIGN)))
@pytest.mark.parametrize("headers", [{}, BROKEN_GZIP], ids=["plain", "gzip"])
def test_an_answer_that_is_not_the_services_is_unreachable(server, content, headers):
    line = Watched(lambda number: of_a_proxy(200, content, **headers))
    with client(server, transport=line, timeout=0) as engine, pytest.raises(UnreachableError):
        engine.card()


def test_an_object_without_the_members_that_a_call_needs_is_unreachable(server, card, nonce):
    line = Watched(lambda number: of_a_proxy(200, BLOCKED))
    with client(server, transport=line, timeout=0) as engine:
        for call in (
            engine.card,
            engine.tail,
            engine.page,
            lambda: next(engine.desks()),
            lambda: engine.desk("usr_1"),
            lambda: engine.deploy("usr_1", card, nonce=nonce),
            lambda: engine.fan_out(card, nonce=nonce),
            lambda: engine.check(card, nonce=nonce),
            lambda: engine.signal("sig_1"),
            lambda: engine.find_signal(nonce),
        ):
            with pytest.raises(UnreachableError) as unreachable:
                call()
            assert unreachable.value.status == 200


@pytest.mark.parametrize("status", [302, 403, 404, 503])
@pytest.mark.parametrize("content", FOREIGN, ids=range(len(FOREIGN)))
def test_a_refusal_that_is_not_the_services_is_unreachable(server, status, content):
    line = Watched(lambda number: of_a_proxy(status, content))
    with (
        client(server, transport=line, timeout=0) as engine,
        pytest.raises(UnreachableError) as unreachable,
    ):
        engine.card()
    assert unreachable.value.status == status


def test_a_problem_document_without_a_code_is_no_refusal_of_the_service(server):
    of_type = {"Content-Type": "application/problem+json"}
    line = Watched(lambda number: of_a_proxy(403, b'{"status":403}', **of_type))
    with client(server, transport=line) as engine, pytest.raises(UnreachableError):
        engine.card()


def follow(engine, cursor, start):
    """Follows the feed from a cursor on."""
    cursor.write_text(start)
    return engine.follow(cursor)


def test_it_follows_by_one_stream_and_saves_the_cursor_when_it_stops(
    server, engine, card, nonce, tmp_path
):
    line = Watched()
    with client(server, transport=line) as follower:
        events = follow(follower, tmp_path / "cursor", engine.tail())
        for number in range(3):
            sent = engine.fan_out(card, nonce=f"{nonce}-{number}").signal["id"]
            assert next(events)["signal"]["id"] == sent
        events.close()
    assert line.requests == line.streams
    assert len(line.streams) == 1
    left = engine.page((tmp_path / "cursor").read_text())["events"]
    assert [event["signal"]["nonce"] for event in left] == [f"{nonce}-2"]


def test_a_stream_has_the_filters_of_the_feed(server, card, nonce, tmp_path):
    one, other = (desk["userId"] for desk in server.seed["desks"][:2])
    with client(server) as engine:
        (tmp_path / "cursor").write_text(engine.tail())
        engine.deploy(other, card, nonce=f"{nonce}-other")
        sent = engine.deploy(one, card, nonce=nonce).signal
        kinds = ["signal.filled", "signal.refused"]
        followed = engine.follow(tmp_path / "cursor", user_id=one, kinds=kinds)
        assert next(followed)["signal"]["id"] == sent["id"]


def test_a_stream_that_is_cut_is_opened_again_behind_the_last_event(
    server, engine, card, nonce, tmp_path, pauses
):
    start = engine.tail()
    sent = [engine.fan_out(card, nonce=f"{nonce}-{n}").signal["id"] for n in range(2)]
    line = Cutting(sent[1])
    with client(server, transport=line) as follower:
        events = follow(follower, tmp_path / "cursor", start)
        heard = [next(events)["signal"]["id"] for _ in range(2)]
        later = engine.fan_out(card, nonce=nonce).signal["id"]
        assert [*heard, next(events)["signal"]["id"]] == [*sent, later]
    assert line.requests == line.streams
    assert len(line.streams) == 2
    assert 2 <= sum(pauses) <= 6  # as the service says


def test_a_stream_without_a_heartbeat_is_opened_again(
    server, engine, card, nonce, tmp_path, pauses, monkeypatch
):
    monkeypatch.setattr("signals.client.engine.SILENCE_TIMEOUT", 4)

    def send_at_the_third(_):
        # Or at a later one: on a busy machine it may poll between two of them.
        if len(line.streams) > 2 and line.requests[-2:] == line.streams[-2:]:
            engine.fan_out(card, nonce=nonce)

    line = Watched(send_at_the_third)
    with client(server, transport=line) as follower:
        events = follow(follower, tmp_path / "cursor", engine.tail())
        assert next(events)["signal"]["nonce"] == nonce
    assert len(line.streams) >= 3


def test_a_token_that_ends_ends_the_stream_with_its_refusal(server, engine, tmp_path):
    with Browser(Service(server.base_url, server.seed)) as admin:
        admin.sign_in(server.seed["admin"])
        with admin.platform_token("read") as minted:
            line = Watched()
            follower = client(server, minted["token"], transport=line)
            events = follow(follower, tmp_path / "cursor", engine.tail())
            ended = ThreadPoolExecutor(1).submit(next, events)
            while not line.streams:
                time.sleep(0.01)
        with follower, pytest.raises(Refusal) as refused:
            ended.result(60)
    assert (refused.value.status, refused.value.code) == (401, "token_invalid")


def test_a_lost_log_ends_following_with_a_refusal(engine, tmp_path):
    with pytest.raises(Refusal) as refused:
        next(follow(engine, tmp_path / "cursor", OF_ANOTHER_LOG))
    assert (refused.value.status, refused.value.code) == (422, "cursor_lost")


SILENT = httpx2.Response(200, headers={"Content-Type": "text/event-stream"}, content=b"")
UNREADABLE = of_a_proxy(200, b"data: {", **{"Content-Type": "text/event-stream", **BROKEN_GZIP})
OLDER = httpx2.Response(200, json={"events": [], "next": "c", "more": False})


@pytest.mark.parametrize(
    "answer", [SILENT, UNREADABLE, OLDER, httpx2.Response(406), httpx2.Response(429)]
)
def test_without_a_stream_it_polls(server, engine, card, nonce, tmp_path, answer):
    """A proxy that holds a stream back or breaks it, a server without streams or with no more."""
    line = Watched(lambda number: answer if number == 1 else None)
    with client(server, transport=line) as follower:
        events = follow(follower, tmp_path / "cursor", engine.tail())
        sent = engine.fan_out(card, nonce=nonce).signal["id"]
        assert next(events)["signal"]["id"] == sent
    assert line.streams == line.requests[:1]


def test_it_follows_on_when_the_service_was_away_for_longer_than_a_call_tries(
    server, engine, card, nonce, tmp_path, pauses, caplog
):
    """It says once that the service is away, and once that it is back."""
    answers = [
        *(httpx2.Response(503), httpx2.Response(503), httpx2.ConnectError("Nobody listens.")),
        *(of_a_proxy(200, b"<p>Soon.</p>"), of_a_proxy(200, b"no gzip", **BROKEN_GZIP)),
        *(of_a_proxy(200, BLOCKED), of_a_proxy(200, TOO_DEEP)),
        *(of_a_proxy(403, BLOCKED), of_a_proxy(302, b"", Location="/sign-in")),
    ]
    line = Watched(lambda number: answers[number - 1] if number <= len(answers) else None)
    with client(server, transport=line, timeout=0) as follower:
        events = follow(follower, tmp_path / "cursor", engine.tail())
        sent = engine.fan_out(card, nonce=nonce).signal["id"]
        assert next(events)["signal"]["id"] == sent
    assert len(pauses) == len(answers) - 1  # the first was the stream's
    said = [text for name, _, text in caplog.record_tuples if name == "signals.client.engine"]
    away = "The service answers 503. The client waits and tries again."
    assert said == [away, "The service answers again."]


def test_it_says_that_something_else_answers_in_place_of_the_service(
    server, engine, card, nonce, tmp_path, pauses, caplog
):
    line = Watched(lambda number: of_a_proxy(403, BLOCKED) if number < 3 else None)
    with client(server, transport=line, timeout=0) as follower:
        events = follow(follower, tmp_path / "cursor", engine.tail())
        sent = engine.fan_out(card, nonce=nonce).signal["id"]
        assert next(events)["signal"]["id"] == sent
    said = [text for name, _, text in caplog.record_tuples if name == "signals.client.engine"]
    away = "Something else answers 403. The client waits and tries again."
    assert said == [away, "The service answers again."]


def test_it_backs_off_if_no_waiting_slot_is_free(
    server, engine, card, nonce, tmp_path, monkeypatch
):
    """Without a slot no stream is offered, and each response of the list is immediate and empty."""
    monkeypatch.setattr("signals.client.engine.MIN_BACKOFF", 0.1)
    monkeypatch.setattr("signals.client.engine.MIN_STREAM_PAUSE", 3600)
    line = Watched(lambda number: number == 6 and engine.fan_out(card, nonce=nonce) and None)
    with (
        serving_beside(server, WAITING_READERS="0") as crowded,
        client(crowded, transport=line) as follower,
    ):
        events = follow(follower, tmp_path / "cursor", engine.tail())
        assert next(events)["signal"]["nonce"] == nonce
    assert len(line.streams) == 1
    assert len(line.sent) == 6
    paused = line.gaps[1:]
    assert all(gap >= least for gap, least in zip(paused, (0.05, 0.1, 0.2, 0.4), strict=True))


def test_it_respects_retry_after(server, monkeypatch):
    monkeypatch.setattr("signals.client.engine.MIN_BACKOFF", 0.01)
    busy = httpx2.Response(503, headers={"Retry-After": "1"})
    line = Watched(lambda number: busy if number == 1 else None)
    with client(server, transport=line) as engine:
        assert engine.card()
    assert len(line.sent) == 2
    assert line.gaps[0] >= 1


def test_retry_delays_grow_are_bounded_and_have_jitter():
    one, other = (list(itertools.islice(backoff(), 20)) for _ in range(2))
    assert one != other
    for number, pause in enumerate(one):
        longest = min(MIN_BACKOFF * 2**number, MAX_BACKOFF)
        assert longest / 2 <= pause <= longest
