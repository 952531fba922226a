"""The playground of the home page: what the hook would answer, for anybody, recording nothing."""

import json
import logging
import random

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from events.models import Event
from signals.intake.models import Signal
from tests.client import push
from tests.factories import a_bot
from tests.pages import errors, problem, source, words
from tests.signals.bodies import tradingview
from tests.signals.site.test_message_check import code
from tokens.crypto import formats

pytestmark = [pytest.mark.django_db, pytest.mark.once]

SECRET = "vmPUZE6mv9SD5VNHk4HlWFsOr6aKE2zvsw0MuIgwCIPy6utIco14y7Ju91duEh8A"
ELECTED = {"pair": "ETH/USDT", "direction": "short"}
# What changes a message so that it gets this answer.
MESSAGES = {
    "ok": {},
    "ticker_only": {"pair": "ETHUSDT"},
    "mode_refused": {"mode": "live"},
    "not_elected": {"elected": "true"},
    "invalid": {"direction": "up", "nonce": ""},
    "pair_mismatch": {"pair": "SOL/USDT"},
    "direction_mismatch": {"direction": "long"},
    "exchange_secret": {"note": {"apiKey": "x"}},
}


def attempt(message="", browser=None, **form):
    text = message if isinstance(message, str) else json.dumps(message)
    return (browser or Client(raise_request_exception=False)).post(
        "/", {**ELECTED, "message": text, **form}
    )


@pytest.mark.parametrize("expected", MESSAGES)
def test_it_answers_as_the_hook_answers_a_bot_that_elected_the_same(desk, expected):
    bot = a_bot(desk, **ELECTED)
    message = tradingview(bot) | MESSAGES[expected]
    page = attempt(message)
    answer = push(message, secret=bot.secret)
    assert (page.status_code, code(page)) == (200, expected)
    assert ("ok" if answer.status_code == 200 else answer.json()["code"]) == expected
    if expected != "ok":
        assert (answer.json()["detail"] in words(page), "no: this decided" in words(page)) == (
            True,
            True,
        )
        assert f"The hook answers {answer.status_code} with the first mistake" in words(page)


@pytest.mark.parametrize(
    "body",
    [
        {"source": "floor", "fanout": True, "nonce": "n-1"},
        {"source": "floor", "userId": "usr_nobody", "nonce": "n-1"},
        {
            "source": "nox",
            "fanout": True,
            "mode": "draft",
            "action_id": "act_1",
            "trace_id": "trc_1",
        },
    ],
)
def test_signals_of_engines_are_tried_too(body):
    assert code(attempt({**ELECTED, "elected": True, **body})) == "ok"
    other = attempt({**ELECTED, "direction": "long", "elected": True, **body})
    assert code(other) == "direction_mismatch"


def test_each_example_shows_another_decision():
    found = {
        name: code(attempt("{}", example=name))
        for name in ("As elected", "Another pair", "Only a ticker", "Mode live")
    }
    assert list(found.values()) == ["ok", "pair_mismatch", "ticker_only", "mode_refused"]
    key = attempt("{}", example="With an exchange key")
    assert code(key) == "exchange_secret"
    assert '"apiKey": "… (a made-up key)"' in words(key)
    assert "not shown again" not in words(key)
    page = source(Client().get("/"))
    assert all(f'value="{name}"' in page for name in found)


def test_trying_reads_no_more_than_the_page_and_writes_nothing():
    with CaptureQueriesContext(
        connection,
    ) as looked:
        Client().get("/")
    with CaptureQueriesContext(connection) as tried:
        attempt({**ELECTED, "elected": True, "source": "floor", "fanout": True, "nonce": "n-1"})
    assert [each["sql"] for each in tried] == [each["sql"] for each in looked]
    assert (Event.objects.count(), Signal.objects.count()) == (0, 0)


SECRETS = {
    "a name": json.dumps({"apiKey": "hunter-mark"}),
    "a name, in what is not JSON": "{password: hunter-mark",
    "a value": json.dumps({"note": f"apiKey={SECRET}"}),
    "a name in a name": json.dumps({f"apiKey={SECRET}": 1}),
    "escaped": '{"\\u0061piKey": "hunter-mark"}',
    "our own": json.dumps({"note": formats.new(formats.SIGNING_SECRET)}),
    "too long": "{" + json.dumps({"apiKey": "hunter-mark"}) + " " * 5000,
}


@pytest.mark.parametrize("message", SECRETS.values(), ids=SECRETS)
def test_a_secret_is_refused_and_shown_and_logged_nowhere(message, caplog):
    caplog.set_level(logging.DEBUG)
    page = attempt(message)
    assert page.status_code in (200, 422)
    for secret in ("hunter-mark", SECRET, "svc_sign_"):
        assert secret not in source(page) + str(page.headers) + caplog.text
    assert ("Your message is not shown again" in words(page)) is (code(page) == "exchange_secret")


@pytest.mark.parametrize("field", ["pair", "direction", "message", "example", "more"])
def test_a_secret_in_any_field_is_refused(field):
    page = attempt(**{"message": "{}", field: f"apiKey={SECRET}"})
    assert (page.status_code, problem(page)) == (422, "exchange_secret")
    assert SECRET not in source(page)


@pytest.mark.parametrize("message", ["", "x" * 4001])
def test_no_message_or_a_long_one_gets_no_answer(message):
    page = attempt(message)
    assert (page.status_code, errors(page)) == (
        422,
        ["Enter a message of at most 4,000 characters."],
    )
    assert "No answer yet" in words(page)


@pytest.mark.parametrize("message", ["[]", "BTCUSDT"])
def test_what_is_no_json_object_is_malformed_and_no_check_decides(message):
    page = attempt(message)
    assert (code(page), "Which check decided" in words(page)) == ("malformed", False)


def test_whatever_bytes_are_sent_get_an_answer():
    chance = random.Random(7)
    for size in [1, 10, 100, 1000] * 10:
        body = b"pair=BTC%2FUSDT&direction=long&message=" + chance.randbytes(size)
        page = Client(raise_request_exception=False).generic(
            "POST", "/", body, "application/x-www-form-urlencoded"
        )
        assert page.status_code in (200, 400, 422)


def test_markup_is_shown_as_text():
    mark = "<script>alert(1)</script>"
    page = attempt({**ELECTED, "pair": mark, mark: mark}, pair=mark)
    assert mark not in source(page) + source(attempt({**ELECTED, mark: mark, "pair": "A/B"}))


def test_it_needs_the_field_of_its_own_form():
    browser = Client(enforce_csrf_checks=True, raise_request_exception=False)
    page = browser.get("/")
    assert page["Cache-Control"] == "no-store"
    assert problem(attempt("{}", browser)) == "csrf_failed"
    (cookie,) = browser.cookies
    token = browser.cookies[cookie].value
    tried = attempt("{}", browser, csrfmiddlewaretoken=token)
    assert (tried.status_code, tried["Cache-Control"]) == (200, "no-store")
    assert list(browser.cookies) == [cookie]


def test_each_address_has_a_limit(settings):
    settings.LIMITS = {**settings.LIMITS, "pages": "2/day"}
    one, other = (Client(REMOTE_ADDR=address) for address in ("198.51.100.77", "198.51.100.78"))
    assert [attempt("{}", one).status_code for _ in range(3)] == [200, 200, 429]
    assert (attempt("{}", other).status_code, one.get("/").status_code) == (200, 200)
