"""Check a message: the verdict of the hook, with nothing recorded and no nonce spent."""

import json
import re

import pytest

from desks import actions as desks
from events.models import Event
from signals.models import Signal
from tests.client import push, signed_in
from tests.factories import a_bot
from tests.pages import errors, problem, source, words
from tests.signals.bodies import tradingview
from tokens import formats

pytestmark = pytest.mark.django_db

# Messages of the bot's, by what is changed, or as they stand.
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


@pytest.fixture
def owner(desk):
    return signed_in(desk.user)


@pytest.fixture
def bot(desk):
    return a_bot(desk)


def check(browser, bot, message):
    text = message if isinstance(message, str) else json.dumps(message)
    return browser.post(f"/bots/{bot.id}/check", {"message": text})


def code(page):
    """The code that a verdict names; ``ok`` for an accepted message."""
    found = re.search(r'href="/problems/([a-z_]+)"><code>', source(page).partition("<main")[2])
    return found.group(1) if found else "ok"


@pytest.mark.parametrize("expected", MESSAGES)
def test_the_verdict_is_the_hooks(owner, bot, expected):
    message = tradingview(bot) | MESSAGES[expected]
    page = check(owner, bot, message)
    assert code(page) == expected
    answer = push(message, secret=bot.secret)
    assert ("ok" if answer.status_code == 200 else answer.json()["code"]) == expected
    if expected != "ok":
        assert answer.json()["detail"] in words(page)


@pytest.mark.parametrize("message", ["", "[]", "{", '{"a":1,"a":2}', '{"a":NaN}', "x" * 70_000])
def test_what_is_no_message_is_told_so(owner, bot, message):
    page = check(owner, bot, message)
    if not message:
        assert errors(page) == ["Paste the message that is to be checked."]
    elif len(message) > 65536:
        assert problem(page) == "body_too_large"
    else:
        assert code(page) == "malformed"


def test_without_an_election_there_is_nothing_to_repeat(owner, desk, bot):
    desks.withdraw_from_automation(automation=desk.automations.get())
    assert code(check(owner, bot, tradingview(bot))) == "no_election"


def test_a_nonce_that_was_spent_is_told(owner, bot):
    message = tradingview(bot)
    push(message, secret=bot.secret)
    assert code(check(owner, bot, message)) == "nonce_used"


@pytest.mark.parametrize("other", [{"botId": "bot_" + "0" * 22}, {"source": "floor"}])
def test_what_this_bots_secret_does_not_sign_for_is_told(owner, bot, other):
    page = check(owner, bot, tradingview(bot) | other)
    assert code(page) == "signature_invalid"
    assert "this botId alone" in words(page)


def test_another_bots_nonces_and_elections_stay_unseen(owner, bot, stranger):
    other = a_bot(stranger)
    spent = tradingview(other)
    push(spent, secret=other.secret)
    assert code(check(owner, bot, spent)) == "signature_invalid"
    assert code(check(owner, bot, tradingview(bot) | {"nonce": spent["nonce"]})) == "ok"


@pytest.mark.parametrize("expected", MESSAGES)
def test_nothing_is_recorded_and_no_nonce_is_spent(owner, bot, expected):
    before = Event.objects.count()
    message = tradingview(bot) | MESSAGES[expected]
    check(owner, bot, message)
    assert (Event.objects.count(), Signal.objects.count()) == (before, 0)
    later = tradingview(bot) | {"nonce": message["nonce"] or "n"}
    assert push(later, secret=bot.secret).status_code == 200


def test_what_came_stands_beside_what_is_elected(owner, bot):
    page = words(check(owner, bot, tradingview(bot, pair="SOL/USDT")))
    assert "pair SOL/USDT differs ETH/USDT direction short same short" in page


def test_a_message_with_a_credential_is_refused_and_not_shown_again(owner, bot):
    secret = formats.new(formats.SIGNING_SECRET)
    page = check(owner, bot, tradingview(bot) | {"note": secret})
    assert problem(page) == "exchange_secret"
    assert secret not in source(page)


def test_what_was_pasted_stays_in_the_form_as_text(owner, bot):
    page = check(owner, bot, '{"a": "</textarea><b>"}')
    assert "&lt;/textarea&gt;&lt;b&gt;" in source(page)


def test_it_begins_with_the_message_of_the_bot(owner, bot):
    assert f'"botId": "{bot.id}"' in words(owner.get(f"/bots/{bot.id}/check"))


def test_it_is_for_the_owner(card, bot, stranger):
    browser = signed_in(stranger.user)
    assert problem(check(browser, bot, tradingview(bot))) == "not_found"
    assert problem(browser.get(f"/bots/{bot.id}/check")) == "not_found"
