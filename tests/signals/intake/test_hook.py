"""POST /api/hooks/signal: accepted signals, refusals and their order (sections 4 and 5)."""

import json

import pytest

from desks import actions as desks
from events.actors import SYSTEM
from events.models import Event, Head
from signals.intake.models import Signal
from tests.client import HOOK, code, faults, post, push
from tests.factories import a_bot, a_card, a_connected_desk, a_desk, a_ready_desk
from tests.signals.bodies import fanout, floor, nox, tradingview
from tokens import account_closing
from tokens.crypto import formats

pytestmark = pytest.mark.django_db

PEM = "-----BEGIN PRIVATE KEY-----\nMHcCAQ\n-----END PRIVATE KEY-----"
SOMEBODY = "usr_" + "0" * 22


# --- Accepted -----------------------------------------------------------------------------------


def test_a_bots_signal_fills_its_owners_desk(bot, desk):
    a_ready_desk(desk.elections.get(card__isnull=False).card)
    body = tradingview(bot, nonce="bar-1")
    response = push(body, secret=bot.secret)
    assert response.status_code == 200
    answer = response.json()
    assert (answer["outcome"], answer["matched"], answer["filled"]) == ("filled", 1, 1)
    assert (answer["paper"], answer["liveWrites"]) == (True, False)
    sent = answer["signal"]
    assert sent.pop("id").startswith("sig_")
    assert sent.pop("receivedAt").endswith("Z")
    assert sent == {
        "source": "tradingview",
        "mode": "paper",
        "pair": "ETH/USDT",
        "direction": "short",
        "nonce": "bar-1",
        "fanout": False,
        "userId": desk.public_id,
        "botId": bot.id,
        "traceId": None,
        "sizeQuote": None,
        "rationale": None,
        "decisionRef": None,
        "position": Head.objects.get().position,
    }


def test_a_fan_out_without_a_ready_desk_is_accepted_and_matches_none(engine):
    answer = push(fanout(), engine).json()
    assert (answer["outcome"], answer["matched"], answer["filled"]) == ("filled", 0, 0)


def test_an_accepted_signal_is_one_row_and_one_event_at_one_position(engine, desk):
    before = Head.objects.get().position
    answer = push(fanout(), engine).json()
    signal, event = Signal.objects.get(), Event.objects.last()
    assert signal.position == event.position == before + 1 == Head.objects.get().position
    assert event.signal_id == answer["signal"]["id"]


@pytest.mark.once
@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain; charset=undefined",
        "application/x-www-form-urlencoded",
        "",
        "multipart/form-data; boundary=x",
        "application/json; charset=utf-16",
    ],
)
def test_the_content_type_is_ignored(bot, content_type):
    response = push(tradingview(bot), secret=bot.secret, content_type=content_type)
    assert response.status_code == 200


@pytest.mark.once
@pytest.mark.parametrize("accept", ["text/html", "", "x/y;q=0"])
def test_the_response_is_json_whatever_the_accept_header(engine, accept):
    response = push(fanout(), engine, headers={"Accept": accept})
    assert response.status_code == 200
    assert response["Content-Type"] == "application/json"


@pytest.mark.once
def test_query_parameters_of_the_hook_are_ignored(engine):
    assert post(f"{HOOK}?mode=live&format=xml", fanout(), engine).status_code == 200


# --- Bodies -------------------------------------------------------------------------------------

DEEP_16 = b'{"a":' * 16 + b"1" + b"}" * 16


@pytest.mark.once
def test_a_body_that_is_not_one_plain_json_object_is_malformed(engine):
    for token, secret in ((engine, None), (None, "wrong")):
        response = push(b'{"a":1,"\\u0061":2}', token, secret=secret)
        assert (response.status_code, code(response)) == (400, "malformed")


@pytest.mark.once
def test_16_levels_are_read_and_brackets_in_strings_do_not_count(engine):
    assert code(push(DEEP_16, engine)) == "not_elected"
    body = fanout(note="[" * 5000, escaped='\\"[[[[[[[[[[[[[[[[[[[[')
    assert code(push(body, engine)) == "ok"


@pytest.mark.once
@pytest.mark.parametrize("number", ["1e99999999999999999999", "1" * 5000])
def test_a_number_of_any_size_is_accepted_in_an_unused_field(engine, number):
    body = json.dumps(fanout())[:-1] + f', "extra": {number}}}'
    assert code(push(body.encode(), engine)) == "ok"
    sized = json.dumps(nox())[:-1].replace('"size_quote": null', f'"size_quote": {number}') + "}"
    response = push(sized.encode(), engine)
    assert (code(response), faults(response)) == ("invalid", {"size_quote": "range"})


# --- What the law refuses, and which reason comes first -----------------------------------------

SECRET = {"api_key": "x"}
TICKER = {"pair": "BTCUSDT"}
LIVE = {"mode": "live"}
NOT_ELECTED = {"elected": False}
INVALID = {"direction": "up"}
UNKNOWN_DESK = {"userId": SOMEBODY}


@pytest.mark.once
@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (SECRET, "exchange_secret"),
        (TICKER, "ticker_only"),
        (LIVE, "mode_refused"),
        ({"mode": "armed"}, "mode_refused"),
        (NOT_ELECTED, "not_elected"),
        (INVALID, "invalid"),
        (UNKNOWN_DESK, "not_found"),
        ({"pair": "ETH/USDT"}, "pair_mismatch"),
        ({"direction": "short"}, "direction_mismatch"),
    ],
)
def test_each_fault_alone_has_its_own_code(engine, desk, fault, expected):
    for body in (floor(desk), fanout(userId=desk.public_id), nox(userId=desk.public_id)):
        assert code(push({**body, **fault}, engine)) == expected
    assert not Signal.objects.exists()


def test_a_spent_nonce_is_reported_before_a_missing_card_or_election(engine, desk, bot):
    everyone, own = fanout(), tradingview(bot)
    assert code(push(everyone, engine)) == "ok"
    assert code(push(own, secret=bot.secret)) == "ok"
    desks.retire_card(actor=SYSTEM)
    desks.withdraw(desk=bot.automation.desk, automation=bot.automation, actor=SYSTEM)
    assert code(push(everyone, engine)) == "nonce_used"
    assert code(push(own, secret=bot.secret)) == "nonce_used"
    assert code(push(fanout(), engine)) == "no_card"
    assert code(push(tradingview(bot), secret=bot.secret)) == "no_election"


def test_a_bots_signal_records_no_card(bot, card):
    assert code(push(tradingview(bot), secret=bot.secret)) == "ok"
    assert Signal.objects.get().card_id is None


def test_a_bot_needs_no_enrolment_in_the_card():
    bot = a_bot(a_connected_desk())
    assert code(push(tradingview(bot), secret=bot.secret)) == "ok"


def test_while_no_card_is_published_a_named_desk_is_not_ready_and_a_fan_out_has_no_card(
    engine, desk
):
    desks.retire_card(actor=SYSTEM)
    assert code(push(floor(desk), engine)) == "desk_not_ready"
    assert code(push(fanout(userId=desk.public_id), engine)) == "desk_not_ready"
    assert code(push(fanout(), engine)) == "no_card"


def test_an_election_on_a_replaced_card_has_ended(engine, desk):
    a_card("Evening")  # the same pair and direction: still another card
    assert code(push(floor(desk), engine)) == "desk_not_ready"
    answer = push(fanout(), engine).json()
    assert answer["matched"] == 0


@pytest.mark.parametrize("which", ["not connected", "not enrolled"])
def test_a_desk_that_is_not_ready_is_never_filled(engine, card, which):
    other = a_desk() if which == "not connected" else a_connected_desk()
    response = push(floor(other), engine)
    assert (response.status_code, code(response)) == (422, "desk_not_ready")


@pytest.mark.parametrize("user_id", [SOMEBODY, "", "é"])
def test_an_unknown_desk_is_not_found(engine, desk, user_id):
    response = push(floor(desk, userId=user_id), engine)
    assert (response.status_code, code(response)) == (404, "not_found")


def test_a_ticker_beside_pair_and_direction_is_ignored(engine, desk):
    response = push(fanout(ticker="BTCUSDT", symbol="BTC"), engine)
    assert response.json()["ignored"] == ["ticker", "symbol"]


# --- Exchange secrets ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["note", "nonce"])
def test_a_secret_at_any_depth_is_refused_and_stored_nowhere(engine, desk, name, caplog):
    """Where it may stand, and what its names are: tests/tokens/crypto/test_exchange_secrets.py."""
    value = "kX9-exchange-credential-7Qz"
    body = {**floor(desk), name: f"{PEM} {value}", "deep": [{"api_secret": value}]}
    response = push(body, engine)
    assert (response.status_code, code(response)) == (422, "exchange_secret")
    kept = str(list(Event.objects.values())) + str(list(Signal.objects.values()))
    for secret in (value, "MHcCAQ", "PRIVATE"):
        assert secret not in response.text
        assert secret not in kept
        assert secret not in caplog.text


@pytest.mark.parametrize("field", ["rationale", "anything"])
def test_a_credential_of_this_service_in_any_field_is_refused_and_stored_nowhere(
    engine, desk, field, caplog
):
    value = formats.new(formats.SIGNING_SECRET)
    response = push(nox(**{field: value}), engine)
    assert code(response) == "exchange_secret"
    kept = str(list(Event.objects.values()))
    assert value[9:] not in response.text + kept + caplog.text
    assert code(push(fanout(**{value: 1}), engine)) == "exchange_secret"


def test_a_secret_in_an_unsigned_body_is_in_no_log(bot, caplog):
    value = "kX9-exchange-credential-7Qz"
    response = push(tradingview(bot, api_key=value), secret="wrong")
    assert code(response) == "signature_invalid"
    assert value not in response.text + caplog.text + str(list(Event.objects.values()))


def test_a_deactivated_desk_is_not_filled(engine, desk):
    account_closing.deactivate(user=desk.user, actor=SYSTEM)
    assert code(push(floor(desk), engine)) == "desk_not_ready"
    assert push(fanout(), engine).json()["matched"] == 0
