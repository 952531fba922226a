"""How often somebody may do something (contract, section 7): in memory, and in Redis."""

import ast
import os
import socket
import subprocess
import sys
import uuid
from datetime import timedelta

import pytest
import time_machine
from django.utils import timezone

from desks import limits
from desks.models import Desk
from events.refusals import RateLimited
from tests import shared_store
from tests.client import (
    DESKS,
    EVENTS,
    HOOK,
    ME,
    TOKENS,
    bearer,
    code,
    deploy_path,
    get,
    post,
    push,
    signed,
    written,
)
from tests.factories import (
    a_bot,
    a_card,
    a_desk_token,
    a_platform_token,
    a_ready_desk,
    a_shared_secret,
)
from tests.signals.bodies import deploy, fanout, nox, tradingview
from tokens import formats

pytestmark = pytest.mark.django_db


# In this process always, and in Redis where there is one.
@pytest.fixture(
    params=["", shared_store.URL] if shared_store.URL else [""],
    ids=lambda url: url[:5] or "memory",
    autouse=True,
)
def store(request, settings) -> str:
    """Where the limits are counted: in this process, or in Redis."""
    settings.LIMITS_URL = request.param
    return request.param


@pytest.fixture
def limit(settings):
    """Turns limits on: ``limit(automation="2/minute")``."""

    def turn_on(**chosen: str) -> None:
        settings.LIMITS = {**settings.LIMITS, **chosen}

    return turn_on


@pytest.fixture
def desk() -> Desk:
    return a_ready_desk(a_card())


@pytest.fixture
def address() -> dict[str, str]:
    """An address from which nobody failed before."""
    return {"REMOTE_ADDR": f"2001:db8::{uuid.uuid4().hex[:4]}:{uuid.uuid4().hex[:4]}"}


def somebody() -> str:
    return uuid.uuid4().hex


# --- Counting -----------------------------------------------------------------------------------


def test_the_defaults_are_the_contracts():
    """What the settings say where the environment says nothing; the suite turns them off."""
    asked = "from config.settings import LIMITS; print(LIMITS)"
    plain = {n: v for n, v in os.environ.items() if not n.startswith("LIMIT")}
    said = subprocess.run(
        [sys.executable, "-c", asked], env=plain, capture_output=True, text=True, check=True
    )
    assert ast.literal_eval(said.stdout) == {
        "automation": "120/minute",
        "platform": "6000/minute",
        "reads": "600/minute",
        "failures": "60/minute",
        "minting": "20/hour",
        "changes": "60/minute",
        "refusals": "60/minute",
    }


def test_the_window_moves(limit):
    limit(changes="2/minute")
    who, start = somebody(), timezone.now()
    with time_machine.travel(start, tick=False) as clock:
        limits.spend("changes", who)
        clock.shift(40)
        limits.spend("changes", who)
        clock.shift(19)  # 59 seconds after the first
        with pytest.raises(RateLimited):
            limits.spend("changes", who)
        clock.shift(2)
        limits.spend("changes", who)
        with pytest.raises(RateLimited):
            limits.spend("changes", who)


def test_what_is_refused_is_not_counted(limit):
    limit(changes="1/minute")
    who, start = somebody(), timezone.now()
    with time_machine.travel(start, tick=False) as clock:
        limits.spend("changes", who)
        for _ in range(5):
            clock.shift(10)
            with pytest.raises(RateLimited):
                limits.spend("changes", who)
        clock.shift(11)
        limits.spend("changes", who)


def test_retry_after_is_when_there_is_room_again(limit):
    limit(changes="1/minute")
    who = somebody()
    with time_machine.travel(timezone.now(), tick=False) as clock:
        limits.spend("changes", who)
        clock.shift(20)
        with pytest.raises(RateLimited) as refused:
            limits.spend("changes", who)
        assert 39 <= int(refused.value.headers["Retry-After"]) <= 41


def test_everybody_and_every_limit_is_counted_apart(limit):
    limit(changes="1/minute", minting="1/minute")
    one, other = somebody(), somebody()
    limits.spend("changes", one)
    limits.spend("changes", other)
    limits.spend("minting", one)
    with pytest.raises(RateLimited):
        limits.spend("changes", one)


def test_a_limit_that_is_off_never_refuses(limit):
    limit(changes="off")
    who = somebody()
    for _ in range(1000):
        limits.spend("changes", who)


def test_while_the_store_is_away_each_process_counts_for_itself_and_says_so(
    limit, settings, caplog
):
    settings.LIMITS_URL = "redis://127.0.0.1:1/0"
    limit(changes="1/minute")
    who = somebody()
    limits.spend("changes", who)
    with pytest.raises(RateLimited):
        limits.spend("changes", who)
    assert "counts for itself" in caplog.text


def test_a_store_that_hangs_is_asked_only_now_and_then(limit, settings):
    limit(changes="9/minute")
    with socket.create_server(("127.0.0.1", 0)) as hangs:
        hangs.setblocking(False)
        settings.LIMITS_URL = f"redis://127.0.0.1:{hangs.getsockname()[1]}/0"
        who = somebody()
        for _ in range(9):
            limits.spend("changes", who)
        with pytest.raises(RateLimited):
            limits.spend("changes", who)
        hangs.accept()[0].close()
        with pytest.raises(BlockingIOError):
            hangs.accept()


# --- Who is limited in what ---------------------------------------------------------------------


def test_each_automation_has_its_own_limit(limit, desk):
    limit(automation="2/minute")
    one, other = a_bot(desk), a_bot(desk)
    answers = [push(tradingview(one), secret=one.secret) for _ in range(3)]
    assert [code(answer) for answer in answers] == ["ok", "ok", "rate_limited"]
    assert answers[-1].status_code == 429
    assert 1 <= int(answers[-1]["Retry-After"]) <= 60
    assert answers[-1]["Content-Type"] == "application/problem+json"
    assert code(push(tradingview(other), secret=other.secret)) == "ok"


def test_a_signal_that_is_refused_counts_too(limit, desk):
    limit(automation="1/minute")
    bot = a_bot(desk)
    assert code(push(tradingview(bot, mode="live"), secret=bot.secret)) == "mode_refused"
    assert code(push(tradingview(bot), secret=bot.secret)) == "rate_limited"


def test_what_is_not_authenticated_counts_for_nobody(limit, desk):
    limit(automation="1/minute", platform="1/minute")
    bot, engine = a_bot(desk), a_platform_token("write")
    reader = a_platform_token("read")
    for _ in range(3):
        push(tradingview(bot), secret="wrong")
        push(tradingview(bot), engine)
        push(fanout(), reader)
    assert code(push(tradingview(bot), secret=bot.secret)) == "ok"
    assert code(push(fanout(), engine)) == "ok"


def test_each_platform_token_has_its_own_limit_over_all_that_it_sends(limit, desk):
    limit(platform="3/minute")
    one, other = a_platform_token("write"), a_platform_token("write")
    path = deploy_path(desk.public_id)
    assert code(push(fanout(), one)) == "ok"
    assert code(push(nox(), one)) == "ok"
    assert code(post(path, deploy(), one)) == "ok"
    for response in (push(fanout(), one), post(path, deploy(), one)):
        assert (response.status_code, code(response)) == (429, "rate_limited")
    assert code(push(fanout(), other)) == "ok"


def test_a_shared_secret_has_the_platforms_limit(limit, desk):
    limit(platform="1/minute")
    floor = a_shared_secret()
    assert code(push(fanout(), secret=floor)) == "ok"
    assert code(push(fanout(), secret=floor)) == "rate_limited"


def test_each_desk_token_may_read_so_often(limit, desk):
    limit(reads="3/minute")
    own, other = a_desk_token(desk), a_desk_token(a_ready_desk(desk.elections.get().card))
    assert [get(path, own).status_code for path in (ME, EVENTS, TOKENS)] == [200, 200, 200]
    for path in (ME, EVENTS, TOKENS):
        response = get(path, own)
        assert (response.status_code, code(response)) == (429, "rate_limited")
    assert get(ME, other).status_code == 200


def test_a_platform_token_reads_without_a_limit(limit, desk):
    limit(reads="1/minute", platform="1/minute")
    engine = a_platform_token()
    assert {get(path, engine).status_code for path in (DESKS, EVENTS, TOKENS) * 2} == {200}


def test_kind_and_scope_are_told_before_the_limit_and_the_limit_before_the_body(limit, desk):
    limit(platform="1/minute", reads="1/minute")
    engine, reader = a_platform_token("write"), a_platform_token("read")
    path = deploy_path(desk.public_id)
    assert code(post(path, deploy(), engine)) == "ok"
    assert code(post(path, b"{", engine, content_type="text/plain")) == "rate_limited"
    assert {code(post(path, deploy(), reader)) for _ in range(3)} == {"scope_missing"}


# --- Failed credentials -------------------------------------------------------------------------


def test_beyond_its_failures_an_address_gets_429_for_what_is_invalid(limit, desk, address):
    limit(failures="2/minute")
    for _ in range(2):
        response = push(fanout(), "nonsense", **address)
        assert (response.status_code, code(response)) == (401, "token_invalid")
    response = push(fanout(), "nonsense", **address)
    assert (response.status_code, code(response)) == (429, "rate_limited")
    assert 1 <= int(response["Retry-After"]) <= 60
    assert "WWW-Authenticate" not in response


def test_a_valid_credential_is_never_refused_for_the_failures_of_its_address(limit, desk, address):
    limit(failures="1/minute")
    bot, engine = a_bot(desk), a_platform_token("write")
    for _ in range(3):
        push(fanout(), "nonsense", **address)
    assert code(push(fanout(), "nonsense", **address)) == "rate_limited"
    assert code(push(fanout(), engine, **address)) == "ok"
    assert code(push(tradingview(bot), secret=bot.secret, **address)) == "ok"
    assert code(push(fanout(), secret=a_shared_secret(), **address)) == "ok"


def test_every_kind_of_invalid_credential_counts(limit, desk, address):
    bot = a_bot(desk)
    floor = a_shared_secret()
    a_shared_secret("nox")
    body = written(tradingview(bot))
    malformed = {**signed(bot.secret, body=body), "X-SVC-Signature": "v1=x"}
    attempts = [
        lambda at: push(fanout(), "nonsense", **at),
        lambda at: push(fanout(), formats.new(formats.PLATFORM_TOKEN), **at),
        lambda at: push(fanout(), headers={"Authorization": "Basic x"}, **at),
        lambda at: push(tradingview(bot), secret="wrong", **at),
        lambda at: push(tradingview(bot, botId="bot_none"), secret="wrong", **at),
        lambda at: push(body, headers=malformed, **at),
        lambda at: push(nox(), secret=floor, **at),
        lambda at: post(deploy_path(desk.public_id), {}, "nonsense", **at),
        lambda at: post(TOKENS, {}, "nonsense", **at),
    ]
    limit(failures="1/minute")
    for attempt in attempts:
        fresh = {"REMOTE_ADDR": somebody()}
        assert attempt(fresh).status_code == 401
        assert attempt(fresh).status_code == 429


def test_nothing_presented_is_no_failure(limit, address):
    limit(failures="1/minute")
    for _ in range(3):
        assert code(push(fanout(), **address)) == "credentials_missing"
    assert code(push(fanout(), "nonsense", **address)) == "token_invalid"


def test_another_address_is_not_concerned(limit, address):
    limit(failures="1/minute")
    push(fanout(), "nonsense", **address)
    assert code(push(fanout(), "nonsense", **address)) == "rate_limited"
    assert code(push(fanout(), "nonsense", REMOTE_ADDR=somebody())) == "token_invalid"


def test_a_forwarded_address_is_anybodys_word_without_a_trusted_proxy(limit, address):
    limit(failures="1/minute")
    for number in range(3):
        headers = {**bearer("nonsense"), "X-Forwarded-For": f"203.0.113.{number}"}
        response = push(fanout(), headers=headers, **address)
    assert code(response) == "rate_limited"


@pytest.mark.parametrize(
    ("proxies", "forwarded", "same"),
    [
        (1, "{}", False),
        (1, "spoofed, {}", False),
        (1, "{}, 203.0.113.9", True),
        (2, "{}, 203.0.113.9", False),
        (2, "spoofed, {}, 203.0.113.9", False),
        (3, "{}, 203.0.113.9", True),  # fewer hops than proxies: the connection's own address
        (1, "", True),
        (1, "{}, ", True),
    ],
)
def test_the_address_is_the_one_that_the_outermost_trusted_proxy_saw(
    limit, settings, address, proxies, forwarded, same
):
    limit(failures="1/minute")
    settings.TRUSTED_PROXIES = proxies
    unique = somebody()

    def attempt(client: str) -> str:
        seen = forwarded.format(f"{unique}-{client}").replace("203.0.113.9", unique)
        return code(
            push(fanout(), headers={**bearer("nonsense"), "X-Forwarded-For": seen}, **address)
        )

    assert attempt("one") == "token_invalid"
    assert attempt("two") == ("rate_limited" if same else "token_invalid")


def test_the_contract_page_is_not_limited(limit, address):
    limit(reads="1/minute", failures="1/minute", platform="1/minute")
    assert {get(HOOK).status_code for _ in range(5)} == {200}


def test_a_window_of_an_hour_is_an_hour(limit):
    limit(minting="1/hour")
    who, start = somebody(), timezone.now()
    with time_machine.travel(start, tick=False):
        limits.spend("minting", who)
    with time_machine.travel(start + timedelta(minutes=59), tick=False), pytest.raises(RateLimited):
        limits.spend("minting", who)
