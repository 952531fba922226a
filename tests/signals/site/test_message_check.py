"""The dry check of a message: the result of the hook, without recording or spending a nonce."""

import json
import re
from datetime import timedelta
from unittest import mock

import pytest
from django.utils.timezone import now

from desks import actions as desks
from events.actors import SYSTEM
from events.models import Event
from signals.contract.sample_code import STRATEGY
from signals.intake.models import Signal
from tests.client import push
from tests.factories import a_bot, expect
from tests.pages import copied, errors, problem, source, words
from tests.signals.bodies import tradingview
from tokens.crypto import formats

pytestmark = [pytest.mark.django_db, pytest.mark.once]


def check(browser, bot, message):
    text = message if isinstance(message, str) else json.dumps(message)
    return browser.post(f"/bots/{bot.id}/check", {"message": text})


def code(page):
    """The code of the result, ``ok`` for an accepted message."""
    found = re.search(r'href="/problems/([a-z_]+)"><code>', source(page).partition("<main")[2])
    return found.group(1) if found else "ok"


def offered_to_alerts(browser, bot):
    """The messages that the bot's page says to paste into an alert."""
    texts = copied(browser.get(f"/bots/{bot.id}/tradingview"))
    return [text for text in texts if text.startswith("{")]


@pytest.mark.parametrize("message", ["", '{"a":1,"a":2}', "x" * 4001, "x" * 70_000])
def test_an_invalid_message_is_reported(owner, bot, message):
    page = check(owner, bot, message)
    if len(message) in (0, 4001):
        assert "xxxx" not in source(page)  # nobody has searched it for secrets
        assert errors(page) == ["Enter a message of at most 4,000 characters."]
    elif len(message) > 65536:
        assert problem(page) == "body_too_large"
    else:
        assert code(page) == "malformed"


def test_a_text_of_the_platform_is_answered_with_what_to_paste(owner, bot):
    page = check(owner, bot, "ETHUSDT Crossing 2000")
    assert code(page) == "malformed"
    assert "paste the message of the TradingView tab into the alert" in words(page)
    assert "16 levels" in words(check(owner, bot, '{"a":'))


class TestAge:
    """A bot whose signals have a maximum age."""

    @pytest.fixture(autouse=True)
    def limited(self, bot):
        expect(bot, max_age=timedelta(hours=1))

    @pytest.mark.parametrize(
        ("said", "expected"),
        [({}, "invalid"), ({"sentAt": "2026-01-01T00:00:00Z"}, "signal_too_old")],
    )
    def test_a_message_without_a_recent_time_is_mended_with_the_present_one(
        self, owner, bot, said, expected
    ):
        page = check(owner, bot, tradingview(bot, **said))
        assert code(page) == expected
        mended = json.loads(copied(page)[0])
        assert push(mended, secret=bot.secret).status_code == 200

    def test_the_message_for_an_alert_is_accepted(self, owner, bot):
        for alert in offered_to_alerts(owner, bot):
            assert code(check(owner, bot, alert)) == "ok"

    def test_a_mended_alert_keeps_the_placeholder_for_the_time(self, owner, bot):
        alert = json.loads(offered_to_alerts(owner, bot)[0])
        for said in [{"sentAt": "2026-01-01T00:00:00Z"}, {"direction": "long"}]:
            mended = json.loads(copied(check(owner, bot, alert | said))[0])
            assert (mended["sentAt"], mended["direction"]) == ("{{timenow}}", "short")

    def test_a_test_is_accepted_however_long_the_page_was_open(self, owner, bot):
        owner.get(f"/bots/{bot.id}/send")
        with mock.patch("django.utils.timezone.now", return_value=now() + timedelta(days=1)):
            assert "Would be accepted" in words(owner.post(f"/bots/{bot.id}/send"))

    def test_the_pages_say_to_fill_in_the_time_too(self, owner, bot):
        assert "a new nonce and the present time as sentAt each time" in words(
            owner.get(f"/bots/{bot.id}/send")
        )
        assert '"sentAt": "{{timenow}}"' in words(owner.get(f"/bots/{bot.id}/tradingview"))
        page = check(owner, bot, tradingview(bot))
        assert "Let your chart or program fill in both each time." in words(page)


@pytest.mark.parametrize("other", [{"botId": "bot_" + "0" * 22}, {"source": "floor"}])
def test_a_message_for_another_bot_is_reported(owner, bot, other):
    page = check(owner, bot, tradingview(bot) | other)
    assert code(page) == "signature_invalid"
    assert "only source tradingview with this botId" in words(page)


def test_nonces_and_elections_of_another_bot_are_not_revealed(owner, bot, stranger):
    other = a_bot(stranger)
    spent = tradingview(other)
    push(spent, secret=other.secret)
    assert code(check(owner, bot, spent)) == "signature_invalid"
    assert code(check(owner, bot, tradingview(bot) | {"nonce": spent["nonce"]})) == "ok"


def test_nothing_is_recorded_and_no_nonce_is_spent(owner, bot):
    before, message = Event.objects.count(), tradingview(bot)
    for said in (message, message | {"direction": "long"}):
        check(owner, bot, said)
    assert (Event.objects.count(), Signal.objects.count()) == (before, 0)
    assert push(message, secret=bot.secret).status_code == 200


def test_the_sent_pair_is_shown_beside_the_elected_one(owner, bot):
    page = words(check(owner, bot, tradingview(bot, pair="SOL/USDT")))
    assert "Pair SOL/USDT differs ETH/USDT Direction short same short" in page


@pytest.mark.parametrize("note", ["CREDENTIAL", "-----BEGIN PRIVATE KEY-----HUSH", "apiKey=HUSH"])
def test_a_message_with_a_secret_in_a_text_is_refused_and_not_shown_again(owner, bot, note):
    secret = formats.new(formats.SIGNING_SECRET)
    note = note.replace("CREDENTIAL", secret).replace("=HUSH", f"={secret[9:]}")
    page = check(owner, bot, tradingview(bot) | {"note": note})
    assert problem(page) == "exchange_secret"
    for shown in (secret[9:], "HUSH"):
        assert shown not in source(page)


@pytest.mark.parametrize(
    "message",
    [
        '{"source": "tradingview", "botId": BOT, "apiKey": "HUSH"}',
        '{"source": "tradingview", "botId": "bot_0000000000000000000000", "apiKey": "HUSH"}',
        '{"source": "floor", "deep": [{"passphrase": "HUSH"}]}',
        '{"apiKey": "HUSH"',
        '{"apiKey": "HUSH", "a": 1, "a": 2}',
        '[{"api_secret" : "HUSH"}]',
        '{"api\\u004bey": "HUSH",}',
        "{'secret': 'HUSH'}",
        "pair=BTC/USDT\npassword = HUSH",
        '"{\\"apiKey\\": \\"HUSH\\"}"',
    ],
)
def test_a_message_with_a_secret_is_not_shown_again_for_any_bot_id(owner, bot, message):
    page = check(owner, bot, message.replace("BOT", json.dumps(bot.id)))
    assert code(page) == "exchange_secret"
    assert "HUSH" not in source(page)
    assert f'"botId": "{bot.id}"' in words(page)  # the sample again


def test_what_a_relay_takes_out_of_a_strategys_message_is_not_listed_as_ignored(owner, bot):
    message = tradingview(bot) | {"note": 1} | STRATEGY
    said = words(check(owner, bot, message))
    assert "The hook ignores: note" in said
    assert f"ignores: note {next(iter(STRATEGY))}" not in said


def test_the_pasted_message_stays_in_the_form_escaped(owner, bot):
    page = check(owner, bot, '{"a": "</textarea><b>"}')
    assert "&lt;/textarea&gt;&lt;b&gt;" in source(page)


def test_the_form_starts_with_the_bots_sample_message(owner, bot):
    assert f'"botId": "{bot.id}"' in words(owner.get(f"/bots/{bot.id}/check"))


# Several mistakes in one message, in the hook's order.
SEVERAL = [
    ({"pair": "ETHUSDT", "elected": "true", "nonce": ""}, "ticker_only not_elected invalid"),
    ({"mode": "live", "direction": "buy"}, "mode_refused invalid"),
    ({"pair": "SOL/USDT", "direction": "long"}, "pair_mismatch direction_mismatch"),
    ({"source": "floor", "elected": None}, "signature_invalid not_elected"),
    ({"botId": "bot_x", "pair": "SOL/USDT"}, "signature_invalid pair_mismatch"),
    ({"pair": None, "direction": None, "ticker": "ETHUSDT"}, "ticker_only"),
    ({"pair": None, "symbol": "ETHUSDT", "direction": "long"}, "ticker_only direction_mismatch"),
    ({"pair": 7, "direction": None, "nonce": "a b", "mode": "draft"}, "invalid"),
    ({"apiKey": "HUSH", "pair": "SOL/USDT", "deep": [{"otp": 1}]}, "exchange_secret pair_mismatch"),
]


@pytest.mark.parametrize(("changes", "expected"), SEVERAL)
def test_every_mistake_is_listed_and_the_corrected_message_is_accepted(
    owner, bot, changes, expected
):
    page = check(owner, bot, tradingview(bot) | {"note": 1.5} | changes)
    listed = source(page).partition('<ol class="mistakes">')[2].partition("</ol>")[0]
    assert re.findall(r'href="/problems/([a-z_]+)"', listed) == expected.split()
    mended = copied(page)[0]
    assert "HUSH" not in source(page)
    again = check(owner, bot, mended)
    assert code(again) == "ok"
    assert copied(again) == []
    assert json.loads(mended)["note"] == 1.5
    assert push(mended.encode(), secret=bot.secret).status_code == 200


def test_a_corrected_message_has_its_numbers_as_they_were_sent(owner, bot):
    numbers, text = "[250.50,-1E+400,12345678901234567890123,7]", r'"\\u00007"'
    message = json.dumps(tradingview(bot, direction="long")).removesuffix("}")
    mended = copied(check(owner, bot, f'{message}, "note": {numbers}, "text": {text}}}'))[0]
    assert f'"note":{numbers},"text":{text}' in "".join(mended.split())


def test_a_spent_nonce_is_reported_and_replaced(owner, bot):
    message = tradingview(bot)
    push(message, secret=bot.secret)
    assert code(check(owner, bot, message)) == "nonce_used"
    mended = json.loads(copied(check(owner, bot, message | {"direction": "long"}))[0])
    assert mended["nonce"] != message["nonce"]
    assert mended["direction"] == "short"


def test_without_an_election_nothing_is_corrected(owner, desk, bot):
    desks.withdraw(desk=desk, automation=desk.automations.get(), actor=SYSTEM)
    page = check(owner, bot, tradingview(bot, elected="true"))
    assert re.findall(r'href="/problems/([a-z_]+)"', source(page))[:2] == [
        "not_elected",
        "no_election",
    ]
    assert copied(page) == []


def test_for_a_message_that_is_not_json_the_bots_own_is_offered(owner, bot):
    mended = copied(check(owner, bot, "{'pair': 'ETH/USDT'}"))[0]
    assert json.loads(mended)["botId"] == bot.id


def test_the_check_of_many_mistakes_costs_few_queries(owner, bot, django_assert_max_num_queries):
    message = tradingview(bot)
    push(message, secret=bot.secret)
    worst = message | {"elected": 1, "pair": "SOL/USDT", "direction": "long", "mode": "armed"}
    with django_assert_max_num_queries(14):
        check(owner, bot, worst)
