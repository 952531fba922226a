"""What a caller has left is said in every answer that counts, and raced it is exact."""

import pytest
from django.conf import settings as django_settings
from django.test import override_settings

from tests.client import EVENTS, code, deploy_path, get, post, push
from tests.factories import a_bot, a_desk_token, a_platform_token, a_ready_desk
from tests.processes import meet, run_together

pytestmark = pytest.mark.django_db

LIMIT = 10


@pytest.fixture
def limited(settings):
    """Each limit is three a minute."""
    settings.LIMITS = dict.fromkeys(settings.LIMITS, "3/minute")


def fan_out(nonce: str) -> dict:
    return {
        "pair": "BTC/USDT",
        "direction": "long",
        "elected": True,
        "source": "floor",
        "fanout": True,
        "nonce": nonce,
    }


def test_an_answer_says_the_limit_and_what_is_left(desk, limited):
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


def test_a_refused_signal_says_it_as_well(desk, limited):
    answer = push(fan_out("1") | {"elected": False}, a_platform_token())
    assert code(answer) == "not_elected"
    assert answer.headers["RateLimit"].startswith('"platform";r=2;t=')


def test_an_automation_has_its_own(desk, limited):
    bot = a_bot(desk)
    answer = push({"source": "tradingview", "botId": bot.id}, secret=bot.secret)
    assert answer.headers["RateLimit-Policy"] == '"automation";q=3;w=60'


def test_what_is_not_limited_says_nothing(desk, limited):
    token = a_platform_token()
    for answer in (get(EVENTS, token), get("/api/v1"), get(EVENTS)):
        assert "RateLimit" not in answer.headers


def test_with_the_limits_off_nothing_is_said(desk):
    answer = post(deploy_path(desk.public_id), fan_out("1") | {"fanout": False}, a_platform_token())
    assert answer.status_code == 200
    assert "RateLimit" not in answer.headers


def push_in_rounds(tokens: list[str], name: str) -> list[list[int]]:
    """The statuses of one worker's 16 pushes with each token, all workers starting at once."""
    limits = {**django_settings.LIMITS, "platform": f"{LIMIT}/minute"}
    rounds = []
    with override_settings(LIMITS=limits):
        for number, token in enumerate(tokens):
            meet()
            pushes = [push(fan_out(f"{name}-{number}-{n}"), token) for n in range(16)]
            rounds.append([answer.status_code for answer in pushes])
    return rounds


@pytest.mark.processes
@pytest.mark.alone
@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif(
    "not __import__('django.conf').conf.settings.LIMITS_URL",
    reason="without a shared store each process counts for itself",
)
def test_of_64_requests_raced_over_four_workers_exactly_as_many_pass_as_the_limit_says(card):
    a_ready_desk(card)
    tokens = [a_platform_token() for _ in range(5)]
    workers = run_together(push_in_rounds, [(tokens, f"worker-{n}") for n in range(4)])
    for rounds in zip(*workers, strict=True):
        statuses = [status for worker in rounds for status in worker]
        assert (statuses.count(200), statuses.count(429)) == (LIMIT, 64 - LIMIT)
