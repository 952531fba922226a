"""GET /api/v1/signals: what became of a signal, by nonce or by id (contract, section 4)."""

import pytest

from events.actors import SYSTEM
from tests.client import SIGNALS, code, faults, get, push
from tests.factories import a_bot, a_desk_token
from tests.signals.bodies import fanout, floor, tradingview
from tokens import actions

pytestmark = pytest.mark.django_db


def found(token, **query):
    """The response to a search."""
    return get(f"{SIGNALS}?{'&'.join(f'{name}={value}' for name, value in query.items())}", token)


def test_a_desk_finds_the_signals_of_its_own_bots_even_of_a_removed_one(desk, bot):
    own = a_desk_token(desk)
    signal = push(tradingview(bot, nonce="n"), secret=bot.secret).json()["signal"]
    actions.remove_automation(automation=bot.automation, actor=SYSTEM)
    assert found(own, nonce="n", botId=bot.id).json()["signal"] == signal
    assert get(f"{SIGNALS}/{signal['id']}", own).json()["signal"] == signal


def test_a_desk_finds_no_other_signal(engine, desk, stranger):
    bot, token = a_bot(desk), a_desk_token(stranger)
    theirs = push(tradingview(bot, nonce="n"), secret=bot.secret).json()["signal"]["id"]
    to_it = push(floor(stranger), engine).json()["signal"]["id"]
    to_all = push(fanout(), engine).json()["signal"]["id"]
    for signal in (theirs, to_it, to_all):
        assert code(get(f"{SIGNALS}/{signal}", token)) == "not_found"
    hidden, unknown = found(token, nonce="n", botId=bot.id), found(token, nonce="n", botId="bot_x")
    assert code(hidden) == code(unknown) == "not_found"
    assert hidden.json()["detail"] == unknown.json()["detail"]


@pytest.mark.once
@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("source=floor", "nonce"),
        ("nonce=&source=floor", "nonce"),
        ("nonce=%C3%A9&source=floor", "nonce"),
        ("nonce=n%0A&source=floor", "nonce"),
        (f"nonce={'n' * 129}&source=floor", "nonce"),
        ("nonce=n&nonce=n&source=floor", "nonce"),
        ("nonce=n&botId=", "botId"),
        ("nonce=n&botId=%00", "botId"),
        ("nonce=n&source=", "source"),
        ("nonce=n&source=floor&limit=1", "limit"),
    ],
)
def test_a_wrong_parameter_is_named(engine, query, field):
    answer = get(f"{SIGNALS}?{query}", engine)
    assert code(answer) == "invalid"
    assert field in faults(answer)


@pytest.mark.parametrize("nonce", ["x" * 128, "a+b/c", "%25"])
def test_any_nonce_that_a_signal_may_have_is_found(engine, desk, nonce):
    sent = nonce.replace("%25", "%")
    assert code(push(fanout(nonce=sent), engine)) == "ok"
    assert found(engine, nonce=nonce.replace("+", "%2B"), source="floor").status_code == 200


def test_no_more_than_one_query_finds_it(engine, desk, django_assert_num_queries):
    push(fanout(nonce="n"), engine)
    found(engine, nonce="n", source="floor")
    with django_assert_num_queries(2):  # the token, the signal
        found(engine, nonce="n", source="floor")
