"""GET /api/v1/signals: what became of a signal, by nonce or by id (contract, section 4)."""

import pytest

from events.actors import SYSTEM
from events.models import Head
from tests.client import SIGNALS, code, deploy_path, faults, get, post, push
from tests.factories import a_bot, a_desk_token
from tests.signals.bodies import deploy, fanout, floor, nox, tradingview
from tokens import actions

pytestmark = pytest.mark.django_db


def found(token, **query):
    """The response to a search."""
    return get(f"{SIGNALS}?{'&'.join(f'{name}={value}' for name, value in query.items())}", token)


@pytest.fixture
def own(desk):
    """The desk's token."""
    return a_desk_token(desk)


def test_the_platform_finds_every_signal_as_a_repeated_nonce_would_show_it(engine, desk, bot):
    sent = {
        "floor": (floor(desk), {"token": engine}),
        "nox": (nox(size_quote=5, decision_ref="d"), {"token": engine}),
        bot.id: (tradingview(bot), {"secret": bot.secret}),
    }
    for signer, (body, credential) in sent.items():
        assert code(push(body, **credential)) == "ok"
        first = push(body, **credential).json()["first"]
        nonce = body.get("nonce") or body["action_id"]
        name = "botId" if signer == bot.id else "source"
        assert found(engine, nonce=nonce, **{name: signer}).json() == first
        assert get(f"{SIGNALS}/{first['signal']['id']}", engine).json() == first


def test_a_deploy_and_the_hook_have_one_signer(engine, desk):
    answer = post(deploy_path(desk.public_id), deploy(nonce="d"), engine).json()
    assert found(engine, nonce="d", source="floor").json()["signal"] == answer["signal"]


def test_a_refused_signal_was_not_accepted(engine, desk):
    push(fanout(nonce="n", pair="NOT/IT"), engine)
    answer = found(engine, nonce="n", source="floor")
    assert code(answer) == "not_found"
    assert "send it again with the same nonce" in answer.json()["detail"]


def test_a_desk_finds_the_signals_of_its_own_bots_even_of_a_removed_one(own, bot):
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


def test_a_desk_token_names_its_bot(own, engine, bot):
    push(fanout(nonce="n"), engine)
    for query in ({"source": "floor"}, {"source": "nox"}):
        answer = found(own, nonce="n", **query)
        assert (code(answer), faults(answer)) == ("invalid", {"source": "forbidden"})


@pytest.mark.once
@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("", "nonce"),
        ("source=floor", "nonce"),
        ("nonce=&source=floor", "nonce"),
        ("nonce=%20n&source=floor", "nonce"),
        ("nonce=%00&source=floor", "nonce"),
        ("nonce=%C3%A9&source=floor", "nonce"),
        ("nonce=n%0A&source=floor", "nonce"),
        (f"nonce={'n' * 129}&source=floor", "nonce"),
        ("nonce=n&nonce=n&source=floor", "nonce"),
        ("nonce=n", "botId"),
        ("nonce=n&source=floor&botId=bot_x", "botId"),
        ("nonce=n&botId=", "botId"),
        ("nonce=n&botId=%00", "botId"),
        ("nonce=n&source=tradingview", "source"),
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


def test_looking_for_a_signal_writes_nothing(engine, desk, contiguous):
    before = Head.objects.get().position
    found(engine, nonce="n", source="floor")
    assert Head.objects.get().position == before
    assert code(push(fanout(nonce="n"), engine)) == "ok"
