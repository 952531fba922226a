"""POST /api/hooks/signal: what it looks at in a request, and that no secret is kept."""

import pytest

from events.models import Event
from signals.intake.models import Signal
from tests.client import HOOK, code, post, push
from tests.signals.bodies import fanout, floor, nox, tradingview
from tokens.crypto import formats

pytestmark = pytest.mark.django_db

PEM = "-----BEGIN PRIVATE KEY-----\nMHcCAQ\n-----END PRIVATE KEY-----"


def test_a_bots_signal_fills_its_owners_desk(bot, desk, stranger):
    answer = push(tradingview(bot), secret=bot.secret).json()
    assert (answer["outcome"], answer["matched"], answer["filled"]) == ("filled", 1, 1)
    assert answer["signal"]["userId"] == desk.public_id
    assert Signal.objects.get().card_id is None


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
