"""Rate limits (contract, section 7), counted in memory and in Redis."""

import ast
import os
import socket
import subprocess
import sys
import uuid

import pytest
import time_machine
from django.test import Client
from django.test.client import MULTIPART_CONTENT as FORM
from django.utils import timezone
from limits import parse

from events.http import rate_limits
from events.http.refusals import RateLimited
from events.models import Event
from tests import shared_store
from tests.client import (
    JSON,
    ME,
    SUBSCRIPTIONS,
    TOKENS,
    bearer,
    code,
    deploy_path,
    get,
    post,
    push,
    signed,
    signed_in,
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
from tests.pages import problem
from tests.signals.bodies import deploy, fanout, nox, tradingview
from tests.signals.notices.chats.stage import DISCORD
from tests.signals.webhooks.stage import URL, a_webhook
from tokens.choices import Source
from tokens.crypto import formats
from tokens.models import SigningSecret, Token

pytestmark = pytest.mark.django_db


# In this process, and in Redis if one is configured.
@pytest.fixture(
    params=[
        pytest.param("", marks=pytest.mark.once),
        *([shared_store.URL] if shared_store.URL else []),
    ],
    ids=lambda url: url[:5] or "memory",
    autouse=True,
)
def store(request, settings) -> str:
    """The store that counts the limits: this process or Redis."""
    settings.LIMITS_URL = request.param
    return request.param


@pytest.fixture
def limit(settings):
    """Turns limits on: ``limit(automation="2/minute")``."""

    def turn_on(**chosen: str) -> None:
        settings.LIMITS = {**settings.LIMITS, **chosen}

    return turn_on


@pytest.fixture
def address() -> dict[str, str]:
    """An address without failed credentials."""
    return {"REMOTE_ADDR": a_network()}


def a_network() -> str:
    """An address in a /64 network that no other test uses."""
    return f"2001:db8:{uuid.uuid4().hex[:4]}:{uuid.uuid4().hex[:4]}::1"


def somebody() -> str:
    return uuid.uuid4().hex


# --- Counting -----------------------------------------------------------------------------------


def test_the_default_limits_are_those_of_the_contract():
    """Reads the defaults of the settings, because the test suite turns limits off."""
    code = "from config.settings import LIMITS; print(LIMITS)"
    plain = {n: v for n, v in os.environ.items() if not n.startswith("LIMIT")}
    printed = subprocess.run(
        [sys.executable, "-c", code], env=plain, capture_output=True, text=True, check=True
    )
    assert ast.literal_eval(printed.stdout) == {
        "automation": "120/minute",
        "platform": "6000/minute",
        "reads": "600/minute",
        "large_reads": "60/minute",
        "failures": "60/minute",
        "minting": "20/hour",
        "destinations": "20/hour",
        "changes": "60/minute",
        "rewinds": "10/hour",
        "desk": "600/minute",
        "desk_day": "50000/day",
        "pages": "300/minute",
        "refusals": "60/minute",
        "refusals_suppressed": "1/minute",
    }


def test_the_window_moves(limit):
    limit(changes="2/minute")
    who, start = somebody(), timezone.now()
    with time_machine.travel(start, tick=False) as clock:
        rate_limits.consume("changes", who)
        clock.shift(40)
        rate_limits.consume("changes", who)
        clock.shift(19)  # 59 seconds after the first
        with pytest.raises(RateLimited):
            rate_limits.consume("changes", who)
        clock.shift(2)
        rate_limits.consume("changes", who)
        with pytest.raises(RateLimited):
            rate_limits.consume("changes", who)


def test_a_refused_request_is_not_counted(limit):
    limit(changes="1/minute")
    who, start = somebody(), timezone.now()
    with time_machine.travel(start, tick=False) as clock:
        rate_limits.consume("changes", who)
        for _ in range(5):
            clock.shift(10)
            with pytest.raises(RateLimited):
                rate_limits.consume("changes", who)
        clock.shift(11)
        rate_limits.consume("changes", who)


def test_retry_after_is_the_time_until_a_request_is_allowed(limit):
    limit(changes="1/minute")
    who = somebody()
    with time_machine.travel(timezone.now(), tick=False) as clock:
        rate_limits.consume("changes", who)
        clock.shift(20)
        with pytest.raises(RateLimited) as refused:
            rate_limits.consume("changes", who)
        assert 39 <= int(refused.value.headers["Retry-After"]) <= 41


def test_if_one_of_several_limits_refuses_the_others_do_not_count(limit):
    limit(changes="2/minute", desk="5/minute", desk_day="5/day")
    who, desk = somebody(), somebody()
    accounts = [("changes", who), *rate_limits.desk_limits(desk)]
    for _ in range(2):
        rate_limits.consume_all(accounts)
    for _ in range(5):
        with pytest.raises(RateLimited) as refused:
            rate_limits.consume_all(accounts)
    assert refused.value.headers["RateLimit-Policy"] == '"changes";q=2;w=60'
    assert [rate_limits.budget(name, desk).remaining for name in ("desk", "desk_day")] == [3, 3]


def test_limits_checked_before_the_refusing_one_do_not_count_either(limit):
    limit(changes="5/minute", desk="2/minute", desk_day="5/day")
    who, desk = somebody(), somebody()
    for _ in range(2):
        rate_limits.consume_all(rate_limits.desk_limits(desk))
    with pytest.raises(RateLimited):
        rate_limits.consume_all([("changes", who), *rate_limits.desk_limits(desk)])
    assert rate_limits.budget("changes", who).remaining == 5


def test_of_several_limits_the_most_restrictive_is_reported(limit):
    limit(changes="9/minute", desk="off", desk_day="3/day")
    budget = rate_limits.consume_all(
        [("changes", somebody()), *rate_limits.desk_limits(somebody())]
    )
    assert (budget.name, budget.remaining, budget.window) == (
        "desk_day",
        2,
        24 * 3600,
    )
    assert budget.resets_in > 24 * 3600 - 60


def test_without_any_limit_nothing_is_reported():
    assert (
        rate_limits.consume_all([("changes", somebody()), *rate_limits.desk_limits(somebody())])
        is None
    )


def test_of_equal_limits_the_one_that_takes_longest_to_reset_says_when_to_ask_again(limit):
    limit(desk="1/minute", desk_day="1/day")
    desk = somebody()
    rate_limits.consume_all(rate_limits.desk_limits(desk))
    with pytest.raises(RateLimited) as refused:
        rate_limits.consume_all(rate_limits.desk_limits(desk))
    assert int(refused.value.headers["Retry-After"]) > 3600


def test_a_desks_daily_limit_is_stored_as_one_number(limit, store):
    limit(desk_day="1000/day")
    desk = somebody()
    for _ in range(3):
        rate_limits.consume("desk_day", desk)
    key = parse("1000/day").key_for("desk_day", desk)
    assert rate_limits.store(store or rate_limits.IN_MEMORY).get(key) == 3


def test_while_the_store_is_down_each_process_counts_alone_and_logs_it(limit, settings, caplog):
    settings.LIMITS_URL = "redis://127.0.0.1:1/0"
    limit(changes="1/minute")
    who = somebody()
    rate_limits.consume("changes", who)
    with pytest.raises(RateLimited):
        rate_limits.consume("changes", who)
    assert "counts for itself" in caplog.text


def test_a_store_that_hangs_is_retried_only_now_and_then(limit, settings, monkeypatch):
    monkeypatch.setattr(rate_limits, "TIMEOUT", 0.1)
    monkeypatch.setattr(rate_limits, "COOLDOWN", 60)
    limit(changes="9/minute")
    with socket.create_server(("127.0.0.1", 0)) as hangs:
        hangs.setblocking(False)
        settings.LIMITS_URL = f"redis://127.0.0.1:{hangs.getsockname()[1]}/0"
        who = somebody()
        for _ in range(9):
            rate_limits.consume("changes", who)
        with pytest.raises(RateLimited):
            rate_limits.consume("changes", who)
        hangs.accept()[0].close()
        with pytest.raises(BlockingIOError):
            hangs.accept()


# --- Who is limited in what ---------------------------------------------------------------------


def test_an_unauthenticated_request_counts_against_no_caller(limit, desk):
    limit(automation="1/minute", platform="1/minute")
    bot, engine = a_bot(desk), a_platform_token("write")
    reader = a_platform_token("read")
    for _ in range(3):
        push(tradingview(bot), secret="wrong")
        push(tradingview(bot), engine)
        push(fanout(), reader)
    assert code(push(tradingview(bot), secret=bot.secret)) == "ok"
    assert code(push(fanout(), engine)) == "ok"


def test_each_platform_token_has_one_limit_for_all_its_signals(limit, desk):
    limit(platform="3/minute")
    one, other = a_platform_token("write"), a_platform_token("write")
    path = deploy_path(desk.public_id)
    assert code(push(fanout(), one)) == "ok"
    assert code(push(nox(), one)) == "ok"
    assert code(post(path, deploy(), one)) == "ok"
    for response in (push(fanout(), one), post(path, deploy(), one)):
        assert (response.status_code, code(response)) == (429, "rate_limited")
    assert code(push(fanout(), other)) == "ok"


def test_a_desk_token_over_its_read_limit_can_still_revoke_itself(limit, desk):
    limit(reads="1/minute")
    own = a_desk_token(desk)
    assert get(ME, own).status_code == 200
    assert get(ME, own).status_code == 429
    assert Client().delete(TOKENS, headers=bearer(own)).status_code == 200
    assert get(ME, own).status_code == 401


# --- What a desk's owner and bots cause in the log ------------------------------------------------


@pytest.mark.parametrize("name", ["desk", "desk_day"])
def test_the_bots_of_a_desk_share_its_limit(limit, desk, name):
    limit(**{name: "3/day"})
    one, other, elsewhere = a_bot(desk), a_bot(desk), a_bot(a_ready_desk(a_card()))
    pushes = [(one, {}), (other, {}), (one, {"mode": "live"}), (one, {}), (other, {})]
    answers = [push(tradingview(bot, **fields), secret=bot.secret) for bot, fields in pushes]
    refused = ["rate_limited", "rate_limited"]
    assert [code(answer) for answer in answers] == ["ok", "ok", "mode_refused", *refused]
    assert answers[-1]["RateLimit-Policy"] == f'"{name}";q=3;w=86400'
    assert Event.objects.filter(kind="signal.refused").count() == 1
    assert code(push(tradingview(elsewhere), secret=elsewhere.secret)) == "ok"


def test_a_bot_over_its_own_limit_does_not_count_against_its_desk(limit, desk):
    limit(automation="1/minute", desk="3/minute", desk_day="3/day")
    one, other = a_bot(desk), a_bot(desk)
    answers = [push(tradingview(one), secret=one.secret) for _ in range(9)]
    assert [code(answer) for answer in answers] == ["ok", *["rate_limited"] * 8]
    assert code(push(tradingview(other), secret=other.secret)) == "ok"


def test_requests_by_others_do_not_count_against_a_desk(limit, desk):
    """Deploys, fan-outs, bad signatures for its bots, and reads with its token do not count."""
    limit(desk="1/minute", desk_day="1/day")
    bot, engine, reader = a_bot(desk), a_platform_token(), a_desk_token(desk)
    for _ in range(3):
        assert code(post(deploy_path(desk.public_id), deploy(), engine)) == "ok"
        assert code(push(fanout(), engine)) == "ok"
        assert code(push(tradingview(bot), secret="wrong")) == "signature_invalid"
        assert get(ME, reader).status_code == 200
    assert code(push(tradingview(bot), secret=bot.secret)) == "ok"
    assert code(push(tradingview(bot), secret=bot.secret)) == "rate_limited"
    assert code(post(deploy_path(desk.public_id), deploy(), engine)) == "ok"


def test_changes_by_page_and_by_session_count_for_the_desk_with_its_signals(limit, desk):
    limit(desk="4/minute")
    bot, browser = a_bot(desk), signed_in(desk.user)
    assert code(push(tradingview(bot), secret=bot.secret)) == "ok"
    assert browser.post("/bots", {"name": "Another"}).status_code == 302
    assert browser.post("/desk/token").status_code == 200
    assert code(browser.post(TOKENS, {"scope": "desk"}, JSON)) == "ok"
    assert code(push(tradingview(bot), secret=bot.secret)) == "rate_limited"
    assert code(browser.post(TOKENS, {"scope": "desk"}, JSON)) == "rate_limited"
    for path, fields in [("/bots", {"name": "One more"}), ("/desk/token", {})]:
        assert problem(browser.post(path, fields)) == "rate_limited"
    assert browser.post("/desk/withdraw").status_code == 302


def test_a_dry_check_counts_as_a_page_view_and_not_against_the_desk(limit, desk):
    limit(desk="1/minute", changes="1/minute", pages="3/minute")
    bot, browser = a_bot(desk), signed_in(desk.user)
    answers = [browser.post(f"/bots/{bot.id}/check", {"message": "{}"}) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert code(push(tradingview(bot), secret=bot.secret)) == "ok"


# --- Pages ---------------------------------------------------------------------------------------


def test_each_user_has_a_limit_of_page_views(limit, desk):
    limit(pages="3/minute")
    browser, other = signed_in(desk.user), signed_in(a_ready_desk(a_card()).user)
    assert [browser.get(path).status_code for path in ("/desk", "/bots", "/activity")] == [200] * 3
    answer = browser.get("/desk")
    assert (answer.status_code, problem(answer)) == (429, "rate_limited")
    assert 1 <= int(answer["Retry-After"]) <= 60
    assert browser.head("/desk").status_code == 429
    assert browser.post("/bots", {"name": "Another"}).status_code == 302
    assert other.get("/desk").status_code == 200


def test_withdrawing_has_no_limit(limit, desk):
    """The pages and forms work after the user, or an attacker, has used up every limit."""
    limit(pages="1/minute", changes="1/minute", minting="1/minute", desk="1/minute")
    a_desk_token(desk)
    bot, browser = a_bot(desk), signed_in(desk.user)
    secret = SigningSecret.objects.get(automation=bot.id).public_id
    for path in ("/desk", "/desk", "/bots"):
        browser.get(path), browser.post(path, {"name": "One"})
    assert (browser.get("/desk").status_code, browser.post("/bots").status_code) == (429, 429)
    for path in ("/desk/end", "/desk/disconnect", f"/bots/{bot.id}/remove"):
        assert browser.get(path).status_code == 200
    assert browser.post("/desk/end", {"token": "on"}).status_code == 302
    for path in (
        "/desk/token/revoke",
        "/desk/withdraw",
        f"/bots/{bot.id}/withdraw",
        f"/bots/{bot.id}/secrets/{secret}/end",
        f"/bots/{bot.id}/remove",
        "/desk/disconnect",
    ):
        assert browser.post(path).status_code == 302, path
    token = Token.objects.get(desk=desk).public_id
    assert {code(browser.delete(f"{TOKENS}?id={token}")) for _ in range(3)} == {"ok"}


# --- What a user makes ---------------------------------------------------------------------------

# Where something is made, how it is sent, what is refused, what is made, and what counts that.
MAKING = {
    "a token": (TOKENS, JSON, {"scope": "x"}, {"scope": "desk"}, "minting"),
    "a webhook": (SUBSCRIPTIONS, JSON, {"url": "x"}, {"url": URL}, "destinations"),
    "a webhook by its page": ("/webhooks/new", FORM, {"url": "x"}, {"url": URL}, "destinations"),
    "a chat": ("/notices/chats/new", FORM, {"url": "x"}, {"url": DISCORD}, "destinations"),
}


@pytest.mark.parametrize("what", MAKING)
def test_a_refused_attempt_to_make_something_counts_as_a_change_alone(limit, desk, what):
    path, content_type, refused, made, counted = MAKING[what]
    limit(minting="1/hour", destinations="1/hour", changes="5/minute")
    browser = signed_in(desk.user, "password")

    def send(body: dict[str, str]) -> int:
        return int(browser.post(path, body, content_type).status_code)

    assert [send(refused) for _ in range(3)] == [422] * 3
    assert send(made) in (200, 201, 302)
    assert rate_limits.budget(counted, str(desk.user.pk)).remaining == 0
    assert [send(made), send(refused)] == [429] * 2
    assert rate_limits.budget("changes", str(desk.user.pk)).remaining == 1
    left = ({"minting", "destinations"} - {counted}).pop()
    assert rate_limits.budget(left, str(desk.user.pk)).remaining == 1


def test_an_attempt_without_a_recent_sign_in_makes_nothing(limit, desk):
    limit(destinations="1/hour")
    stale = signed_in(desk.user, "password", at=0)
    assert stale.post("/webhooks/new", {"url": URL}).status_code == 302
    assert rate_limits.budget("destinations", str(desk.user.pk)).remaining == 1


def test_the_secret_of_a_webhook_and_the_code_for_telegram_count_with_webhooks(
    limit, desk, settings
):
    settings.TELEGRAM_BOT, settings.TELEGRAM_BOT_TOKEN = "SignalsBot", "1:a"
    limit(destinations="2/hour", minting="1/hour")
    webhook, browser = a_webhook(desk), signed_in(desk.user, "password")
    secret = f"{SUBSCRIPTIONS}/{webhook.public_id}/secret"
    assert browser.post(secret, {}, JSON).status_code == 201
    assert browser.post("/notices/chats/new/telegram").status_code == 200
    assert browser.post(secret, {}, JSON).status_code == 429
    assert browser.post("/notices/chats/new/telegram").status_code == 429
    assert browser.post(TOKENS, {"scope": "desk"}, JSON).status_code == 201


def test_a_sessions_request_shows_the_limit_with_the_least_left(limit, desk):
    limit(minting="4/hour", destinations="9/hour", changes="5/minute", desk="600/minute")
    browser = signed_in(desk.user, "password")

    def shown(path: str, body: dict[str, str]) -> str:
        return str(browser.post(path, body, JSON)["RateLimit"]).rpartition(";")[0]

    assert shown(TOKENS, {"scope": "desk"}) == '"minting";r=3'
    assert shown(TOKENS, {"scope": "x"}) == '"minting";r=3'
    assert shown(SUBSCRIPTIONS, {"url": "x"}) == '"changes";r=2'
    assert shown(SUBSCRIPTIONS, {"url": URL}) == '"changes";r=1'
    assert "RateLimit" not in browser.get(TOKENS)


# --- Failed credentials -------------------------------------------------------------------------


def test_a_valid_credential_is_accepted_from_an_address_over_its_failure_limit(
    limit, desk, address
):
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
    a_shared_secret(Source.NOX)
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
        fresh = {"REMOTE_ADDR": a_network()}
        assert attempt(fresh).status_code == 401
        assert attempt(fresh).status_code == 429


def test_a_request_without_credentials_is_not_a_failure(limit, address):
    limit(failures="1/minute")
    for _ in range(3):
        assert code(push(fanout(), **address)) == "credentials_missing"
    assert code(push(fanout(), "nonsense", **address)) == "token_invalid"
