"""signal.refused: for which refusals it is written, to whom, and what it keeps (section 4)."""

from datetime import timedelta

import pytest
import time_machine
from django.utils import timezone

from desks import actions as desks
from desks.models import Desk
from events.models import Event, Head
from tests.client import EVENTS, bearer, code, deploy_path, get, post, push, signed, written
from tests.factories import (
    Bot,
    a_bot,
    a_card,
    a_connected_desk,
    a_desk_token,
    a_platform_token,
    a_ready_desk,
    a_shared_secret,
)
from tests.signals.bodies import deploy, fanout, floor, nox, tradingview
from tokens import actions, formats
from tokens.models import SigningSecret, Source

pytestmark = pytest.mark.django_db


@pytest.fixture
def card():
    return a_card()


@pytest.fixture
def desk(card) -> Desk:
    return a_ready_desk(card)


@pytest.fixture
def bot(desk) -> Bot:
    return a_bot(desk)


@pytest.fixture
def engine(card) -> str:
    return a_platform_token()


@pytest.fixture(autouse=True)
def contiguous():
    """After every test here, whatever it refused: no position is missing."""
    yield
    found = list(Event.objects.values_list("position", flat=True))
    assert found == list(range(1, Head.objects.get().position + 1))


def recorded() -> list[Event]:
    return list(Event.objects.filter(kind="signal.refused"))


# --- For which ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"api_key": 1}, "exchange_secret"),
        ({"pair": "BTCUSDT"}, "ticker_only"),
        ({"mode": "live"}, "mode_refused"),
        ({"elected": False}, "not_elected"),
        ({"mode": "x"}, "invalid"),
        ({"pair": "X/Y"}, "pair_mismatch"),
        ({"direction": "short"}, "direction_mismatch"),
    ],
)
def test_what_the_law_refuses_is_recorded_once(engine, desk, change, expected):
    before = Head.objects.get().position
    assert code(push({**floor(desk), **change}, engine)) == expected
    event = recorded()[-1]
    assert event.position == before + 1 == Head.objects.get().position
    assert event.content["data"]["code"] == expected
    assert post(deploy_path(desk.public_id), {**deploy(), **change}, engine).status_code == 422
    assert len(recorded()) == 2


def test_no_card_no_election_and_a_desk_that_is_not_ready_are_recorded(engine, desk, bot):
    desks.withdraw_from_automation(automation=bot.automation)
    assert code(push(tradingview(bot), secret=bot.secret)) == "no_election"
    desks.withdraw_from_card(desk=desk)
    assert code(push(floor(desk), engine)) == "desk_not_ready"
    desks.retire_card()
    assert code(push(fanout(), engine)) == "no_card"
    codes = [event.content["data"]["code"] for event in recorded()]
    assert codes == ["no_election", "desk_not_ready", "no_card"]


def test_a_spent_nonce_is_recorded(engine):
    body = fanout()
    push(body, engine)
    assert code(push(body, engine)) == "nonce_used"
    assert [event.content["data"]["code"] for event in recorded()] == ["nonce_used"]


def test_a_known_bots_bad_signature_is_recorded_for_its_owner(bot, desk):
    assert code(push(tradingview(bot), secret="wrong")) == "signature_invalid"
    event = recorded()[0]
    assert event.topic == desk.public_id
    assert event.platform_content["data"]["credential"] is None
    assert event.content["data"] == {
        "code": "signature_invalid",
        "source": "tradingview",
        "sent": {"pair": "ETH/USDT", "direction": "short"},
        "elected": {"pair": "ETH/USDT", "direction": "short"},
        "botId": bot.id,
    }


def test_what_is_never_recorded(engine, desk, bot, settings):
    body = written(tradingview(bot))
    headers = signed(bot.secret, body=body)
    removed = a_bot(desk)
    actions.remove_automation(automation=removed.automation)
    before = Head.objects.get().position
    refused = [
        push(fanout()),
        push(fanout(), formats.new(formats.PLATFORM_TOKEN)),
        push(fanout(), "nonsense"),
        push(fanout(), engine[:-1] + "é"),
        push(body, headers={**headers, "X-SVC-Timestamp": "1"}),
        push(body, headers=signed(bot.secret, body=body, at=1_000_000_000)),
        push(body, headers={**headers, "X-SVC-Signature": "v1=x"}),
        push(body, headers={"X-SVC-Timestamp": headers["X-SVC-Timestamp"]}),
        push(tradingview(bot), engine),
        push(fanout(), secret="wrong"),
        push(nox(), secret="wrong"),
        push(tradingview(bot, botId="bot_" + "0" * 22), secret="wrong"),
        push(tradingview(removed), secret=removed.secret),
        push(b"{", engine),
        push(b"{", secret="wrong"),
        push(b"x" * 65537, engine),
        push(floor(desk, userId="usr_none"), engine),
        post(deploy_path("usr_" + "0" * 22), deploy(), engine),
        post(deploy_path(desk.public_id), deploy(), engine, content_type="text/plain"),
        post(deploy_path(desk.public_id), b"{", engine),
        get(f"{EVENTS}?limit=0", engine),
    ]
    assert all(response.status_code >= 400 for response in refused)
    assert Head.objects.get().position == before


def test_scope_missing_and_not_allowed_are_never_recorded(desk):
    reader, own = a_platform_token("read"), a_desk_token(desk)
    before = Head.objects.get().position
    assert code(push(fanout(mode="live"), reader)) == "scope_missing"
    assert code(push(fanout(mode="live"), own)) == "not_allowed"
    assert Head.objects.get().position == before


def test_a_refused_floor_secret_is_never_recorded(desk):
    floor_secret = a_shared_secret(Source.FLOOR)
    a_shared_secret(Source.NOX)
    before = Head.objects.get().position
    assert code(push(nox(), secret=floor_secret)) == "floor_secret_refused"
    assert Head.objects.get().position == before


def test_rate_limited_is_never_recorded(engine, settings):
    settings.LIMITS = {**settings.LIMITS, "platform": "1/minute"}
    assert code(push(fanout(mode="live"), engine)) == "mode_refused"
    assert code(push(fanout(mode="live"), engine)) == "rate_limited"
    assert len(recorded()) == 1


def test_beyond_the_failures_of_an_address_a_bad_signature_is_not_recorded(bot, settings):
    settings.LIMITS = {**settings.LIMITS, "failures": "1/minute"}
    address = {"REMOTE_ADDR": "192.0.2.77"}
    assert code(push(tradingview(bot), secret="wrong", **address)) == "signature_invalid"
    assert code(push(tradingview(bot), secret="wrong", **address)) == "rate_limited"
    assert len(recorded()) == 1


# --- To whom ------------------------------------------------------------------------------------


def test_a_bots_refusal_is_told_to_its_owner_with_what_was_elected(bot, desk):
    push(tradingview(bot, pair="X/Y", userId="usr_other"), secret=bot.secret)
    event = recorded()[0]
    assert event.topic == desk.public_id
    assert event.content == {
        "signal": None,
        "data": {
            "code": "pair_mismatch",
            "source": "tradingview",
            "sent": {"pair": "X/Y", "direction": "short"},
            "elected": {"pair": "ETH/USDT", "direction": "short"},
            "botId": bot.id,
        },
    }
    own = SigningSecret.objects.get().public_id
    assert event.platform_content["data"] == {**event.content["data"], "credential": own}


def test_a_refusal_for_one_desk_is_told_to_that_desk(engine, desk):
    for response in (
        push(floor(desk, pair="X/Y"), engine),
        push(floor(desk, elected=False), engine),
        push(fanout(userId=desk.public_id, pair="X/Y"), engine),
        push(nox(userId=desk.public_id, mode="live"), engine),
        post(deploy_path(desk.public_id), deploy(direction="short"), engine),
        post(deploy_path(desk.public_id), deploy(userId="usr_other"), engine),
    ):
        assert response.status_code == 422
    assert {event.topic for event in recorded()} == {desk.public_id}


def test_any_other_refusal_is_told_to_the_platform_only(engine, desk):
    push(fanout(pair="X/Y"), engine)
    push(nox(mode="live"), engine)
    push(floor(desk, userId="usr_none", elected=False), engine)
    push(floor(desk, userId=5), engine)
    push(fanout(source="elsewhere"), engine)
    push({}, engine)
    assert len(recorded()) == 6
    assert {event.topic for event in recorded()} == {None}


def test_a_desk_reads_its_refusals_without_the_credential_and_the_platform_with_it(engine, desk):
    push(floor(desk, pair="X/Y"), engine)
    query = f"{EVENTS}?kind=signal.refused"
    to_platform = get(query, engine).json()["events"][0]
    to_desk = get(query, a_desk_token(desk)).json()["events"][0]
    assert to_platform["data"].pop("credential").startswith("tok_")
    assert to_desk == to_platform
    assert to_desk["userId"] == desk.public_id
    assert to_desk["signal"] is None
    assert to_desk["data"] == {
        "code": "pair_mismatch",
        "source": "floor",
        "sent": {"pair": "X/Y", "direction": "long"},
        "elected": {"pair": "BTC/USDT", "direction": "long"},
        "botId": None,
    }


def test_another_desk_sees_nothing_of_it(engine, desk, card):
    push(floor(desk, pair="X/Y"), engine)
    stranger = a_desk_token(a_ready_desk(card))
    assert get(f"{EVENTS}?kind=signal.refused", stranger).json()["events"] == []


# --- What it keeps ------------------------------------------------------------------------------


def test_nothing_else_of_the_body_is_kept(engine, desk):
    body = nox(
        userId=desk.public_id,
        mode="live",
        rationale="PRIVATE-1",
        decision_ref="PRIVATE-2",
        trace_id="trc_PRIVATE-3",
        action_id="act_PRIVATE-4",
        extra={"PRIVATE-5": "PRIVATE-6"},
    )
    push(body, engine)
    assert "PRIVATE" not in str(list(Event.objects.values()))


@pytest.mark.parametrize(
    "sent",
    [5, True, None, ["BTC/USDT"], {"a": "BTC/USDT"}, "x" * 42, "A/B\n", "A/\x1b[31mB", "\u202eA/B"],
)
def test_a_pair_or_direction_that_is_no_short_plain_text_is_not_kept(engine, desk, sent):
    push(floor(desk, pair=sent, direction=sent), engine)
    assert recorded()[0].content["data"]["sent"] == {"pair": None, "direction": None}


def test_of_a_body_with_a_secret_neither_pair_nor_direction_is_kept(engine, desk):
    push(floor(desk, pair="kX9credential", direction="kX9", api_key="kX9"), engine)
    data = recorded()[0].content["data"]
    assert data["sent"] == {"pair": None, "direction": None}
    assert "kX9" not in str(list(Event.objects.values()))


@pytest.mark.parametrize("source", [5, None, ["floor"], "kX9", {"floor": 1}])
def test_a_source_that_is_none_is_not_kept(engine, source):
    push(fanout(source=source), engine)
    assert recorded()[0].content["data"]["source"] is None


# --- How many, and where ------------------------------------------------------------------------


def test_at_most_60_a_minute_of_one_sender_are_recorded(engine, settings):
    settings.LIMITS = {**settings.LIMITS, "refusals": "60/minute"}
    now = timezone.now()
    other = a_platform_token("write")
    with time_machine.travel(now, tick=False):
        answers = {code(push(fanout(mode="live"), engine)) for _ in range(61)}
        assert answers == {"mode_refused"}
        assert len(recorded()) == 60
        push(fanout(mode="live"), other)
        assert len(recorded()) == 61
    with time_machine.travel(now + timedelta(seconds=61), tick=False):
        push(fanout(mode="live"), engine)
        assert len(recorded()) == 62


def test_the_allowance_holds_for_refusals_under_the_lock_and_bad_signatures_too(
    engine, bot, settings
):
    settings.LIMITS = {**settings.LIMITS, "refusals": "2/minute"}
    assert {code(push(fanout(pair="X/Y"), engine)) for _ in range(4)} == {"pair_mismatch"}
    assert len(recorded()) == 2
    assert {code(push(tradingview(bot), secret="x")) for _ in range(4)} == {"signature_invalid"}
    assert len(recorded()) == 4
    assert code(push(tradingview(bot, pair="X/Y"), secret=bot.secret)) == "pair_mismatch"
    assert len(recorded()) == 4


def test_a_refusal_that_the_log_decided_stands_at_the_position_that_decided_it(engine, desk, card):
    """The withdrawal stands before it and the new enrolment after it: the log explains it."""
    desks.withdraw_from_card(desk=desk)
    withdrawn = Head.objects.get().position
    assert code(push(floor(desk), engine)) == "desk_not_ready"
    desks.enrol(desk=desk, card_id=card.pk)
    assert recorded()[0].position == withdrawn + 1
    assert Event.objects.last().kind == "election.made"
    assert Event.objects.last().position == withdrawn + 2


def test_a_refusal_beyond_the_allowance_takes_no_position(engine, settings):
    settings.LIMITS = {**settings.LIMITS, "refusals": "1/minute"}
    push(fanout(pair="X/Y"), engine)
    before = Head.objects.get().position
    push(fanout(pair="X/Y"), engine)
    push(fanout(mode="live"), engine)
    assert Head.objects.get().position == before
    answer = push(fanout(), engine).json()
    assert answer["signal"]["position"] == before + 1


def test_a_refused_bearer_beside_a_bad_signature_is_not_recorded(bot):
    before = Head.objects.get().position
    unknown = bearer(formats.new(formats.PLATFORM_TOKEN))
    body = written(tradingview(bot))
    assert code(push(body, headers={**signed("x", body=body), **unknown})) == "token_invalid"
    assert Head.objects.get().position == before


def test_a_desk_that_was_never_ready_is_told_that_it_was_tried(engine, card):
    other = a_connected_desk()
    push(floor(other), engine)
    assert recorded()[0].topic == other.public_id
    assert recorded()[0].content["data"]["elected"] is None
