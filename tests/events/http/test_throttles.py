"""Rate limit headers, and the exact count of concurrent requests."""

import math
from contextlib import AbstractContextManager
from typing import cast
from urllib.parse import urlencode

import pytest
import time_machine
from django.conf import settings as django_settings
from django.test import override_settings
from django.utils import timezone
from limits.errors import StorageError
from limits.storage import MemoryStorage

from events.http import rate_limits
from events.http.rate_limits import StoreInMemory
from events.http.refusals import RateLimited
from signals.intake.models import Signal
from tests import shared_store
from tests.client import EVENTS, SUBSCRIPTIONS, TOKENS, code, get, push, signed_in
from tests.factories import Bot, a_bot, a_desk_token, a_platform_token, a_ready_desk
from tests.processes import meet, run_together
from tests.signals.bodies import fanout, tradingview
from tokens.models import Token

pytestmark = pytest.mark.django_db

LIMIT = 10


@pytest.fixture
def limited(settings):
    """Sets each limit to three a minute."""
    settings.LIMITS = dict.fromkeys(settings.LIMITS, "3/minute")


def test_of_a_desk_token_one_page_of_events_is_read_at_a_time(card):
    desk, other = a_ready_desk(card), a_ready_desk(card)
    token, others = a_desk_token(desk), a_desk_token(other)
    record = desk.tokens.get(revoked_at=None)
    with rate_limits.one_at_a_time("events", record.public_id, 30):
        refused = get(EVENTS, token)
        assert (refused.status_code, code(refused)) == (429, "rate_limited")
        assert refused["Retry-After"] == "1"
        assert get(EVENTS, others).status_code == 200
    assert get(EVENTS, token).status_code == 200
    assert get(EVENTS, token).status_code == 200


def test_one_that_took_too_long_does_not_release_the_next_one():
    late, next_one = (
        rate_limits.one_at_a_time("events", "tok_late", seconds) for seconds in (0, 30)
    )
    late.__enter__()  # its time is over at once
    with next_one:
        late.__exit__(None, None, None)
        with pytest.raises(RateLimited), rate_limits.one_at_a_time("events", "tok_late", 30):
            pass


def hold() -> AbstractContextManager[None]:
    """Admits one request of a client to the block."""
    return rate_limits.one_at_a_time("events", "tok_held", 30)


@pytest.fixture
def another_memory(settings) -> MemoryStorage:
    """A store in memory that stands for one that all processes share."""
    settings.LIMITS_URL = "memory://shared"
    store = cast(MemoryStorage, rate_limits.store(settings.LIMITS_URL))
    store.timer.cancel()
    memory = cast(StoreInMemory, rate_limits.store(rate_limits.IN_MEMORY))
    store.timer = memory.timer  # which never runs
    store.reset()
    return store


@pytest.fixture(params=["memory", *(["redis"] if shared_store.URL else [])])
def shared(request, settings) -> str:
    """The URL of a store that all processes share: Redis, or one that stands for it."""
    if request.param == "memory":
        request.getfixturevalue("another_memory")
    return settings.LIMITS_URL


def let_it_fail(url: str) -> None:
    """Another request finds the store down."""
    rate_limits.retry_times[url] = math.inf


def test_a_request_releases_what_it_took_in_a_store_that_failed_meanwhile(shared):
    with hold():
        let_it_fail(shared)
    rate_limits.retry_times.clear()
    with hold():
        pass


def test_a_request_that_began_while_the_store_was_down_releases_no_other_ones_hold(shared):
    let_it_fail(shared)
    counted_here, of_another_process = hold(), hold()
    with counted_here:
        rate_limits.retry_times.clear()
        of_another_process.__enter__()
    with pytest.raises(RateLimited), hold():
        pass
    of_another_process.__exit__(None, None, None)
    let_it_fail(shared)
    with hold():
        pass


def test_a_hold_that_the_store_fails_to_release_is_logged_and_ends_by_its_time(
    another_memory, monkeypatch, caplog
):
    def fail(key: str) -> None:
        raise StorageError(ConnectionError())

    with time_machine.travel(timezone.now(), tick=False) as clock:
        with monkeypatch.context() as failing, hold():
            failing.setattr(another_memory, "clear", fail)
        assert "counts for itself" in caplog.text
        assert rate_limits.retry_times
        rate_limits.retry_times.clear()
        with pytest.raises(RateLimited), hold():
            pass
        clock.shift(30)
        with hold():
            pass


def test_pages_of_a_platform_token_are_read_at_once(card):
    token = a_platform_token()
    record = Token.objects.get(scope="platform")
    with rate_limits.one_at_a_time("events", record.public_id, 30):
        assert get(EVENTS, token).status_code == 200


@pytest.mark.parametrize("path", [TOKENS, SUBSCRIPTIONS])
def test_reads_by_a_session_count_as_page_views(card, limited, path):
    browser = signed_in(a_ready_desk(card).user)
    answers = [browser.get(path) for _ in range(2)]
    left = [answer["RateLimit"].partition(";t=")[0] for answer in answers]
    assert left == ['"pages";r=2', '"pages";r=1']
    assert browser.head(path).status_code == 200
    refused = browser.get(path)
    assert (refused.status_code, code(refused)) == (429, "rate_limited")
    assert browser.get("/desk").status_code == 429


@pytest.mark.parametrize(
    ("asked", "is_large"),
    [("1", False), ("100", False), ("0100", False), ("101", True), ("1000", True), ("00101", True)],
)
def test_a_page_of_more_than_a_hundred_items_is_a_large_read(desk, settings, asked, is_large):
    settings.LIMITS = {**settings.LIMITS, "large_reads": "1/hour"}
    token = a_desk_token(desk)
    path = f"{EVENTS}?limit={asked}"
    assert get(path, token).status_code == 200
    again = get(path, token)
    assert again.status_code == (429 if is_large else 200)
    if is_large:
        assert again.headers["RateLimit-Policy"] == '"large_reads";q=1;w=3600'


@pytest.mark.parametrize("asked", ["", "x", "9" * 5000, "-1", "٣"])
def test_what_is_no_limit_of_a_page_gets_its_refusal(desk, asked):
    answer = get(f"{EVENTS}?{urlencode({'limit': asked})}", a_desk_token(desk))
    assert (answer.status_code, code(answer)) == (422, "invalid")


def test_a_response_states_the_limit_and_what_is_left(desk, limited):
    token = a_desk_token(desk)
    for left in (2, 1, 0):
        answer = get(EVENTS, token)
        assert answer.headers["RateLimit-Policy"] == '"reads";q=3;w=60'
        assert answer.headers["RateLimit"].startswith(f'"reads";r={left};t=')
    refused = get(EVENTS, token)
    assert (refused.status_code, code(refused)) == (429, "rate_limited")
    assert refused.headers["RateLimit"].startswith('"reads";r=0;t=')
    wait = int(refused.headers["Retry-After"])
    assert refused.headers["RateLimit"] == f'"reads";r=0;t={wait}'
    assert 1 <= wait <= 60


def test_the_response_of_a_refused_signal_states_them_too(desk, limited):
    answer = push(fanout(elected=False), a_platform_token())
    assert code(answer) == "not_elected"
    assert answer.headers["RateLimit"].startswith('"platform";r=2;t=')


def test_a_request_without_a_limit_has_no_limit_headers(desk, limited):
    token = a_platform_token()
    for answer in (get(EVENTS, token), get("/api/v1"), get(EVENTS)):
        assert "RateLimit" not in answer.headers


def push_in_rounds(tokens: list[str], name: str) -> list[list[int]]:
    """The statuses of one worker's 16 pushes with each token. All workers start at once."""
    limits = {**django_settings.LIMITS, "platform": f"{LIMIT}/day"}
    rounds = []
    with override_settings(LIMITS=limits):
        for number, token in enumerate(tokens):
            meet()
            pushes = [push(fanout(nonce=f"{name}-{number}-{n}"), token) for n in range(16)]
            rounds.append([answer.status_code for answer in pushes])
    return rounds


@pytest.mark.processes
@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif(
    "not __import__('django.conf').conf.settings.LIMITS_URL",
    reason="without a shared store each process counts for itself",
)
def test_of_64_concurrent_requests_on_four_workers_exactly_the_limit_passes(card):
    a_ready_desk(card)
    tokens = [a_platform_token() for _ in range(5)]
    workers = run_together(push_in_rounds, [(tokens, f"worker-{n}") for n in range(4)])
    for rounds in zip(*workers, strict=True):
        statuses = [status for worker in rounds for status in worker]
        assert (statuses.count(200), statuses.count(429)) == (LIMIT, 64 - LIMIT)


def push_with_bot(bot: Bot, chosen: dict[str, str]) -> list[int]:
    """The statuses of 8 pushes by the worker's own bot."""
    with override_settings(LIMITS={**django_settings.LIMITS, **chosen}):
        meet()
        pushes = [push(tradingview(bot), secret=bot.secret) for _ in range(8)]
        return [answer.status_code for answer in pushes]


@pytest.mark.processes
@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif(
    "not __import__('django.conf').conf.settings.LIMITS_URL",
    reason="without a shared store each process counts for itself",
)
@pytest.mark.parametrize("name", ["desk", "desk_day"])
def test_of_four_concurrent_bots_of_one_desk_exactly_the_desks_limit_passes(card, name):
    desk = a_ready_desk(card)
    bots = [a_bot(desk) for _ in range(4)]
    workers = run_together(push_with_bot, [(bot, {name: f"{LIMIT}/day"}) for bot in bots])
    statuses = [status for worker in workers for status in worker]
    assert (statuses.count(200), statuses.count(429)) == (LIMIT, 32 - LIMIT)
    assert Signal.objects.count() == LIMIT
