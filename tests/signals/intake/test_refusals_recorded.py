"""signal.refused: which refusals are recorded, who sees them, and their data (section 4)."""

from datetime import timedelta

import pytest
import time_machine
from django.utils import timezone

from desks import actions as desks
from events.actors import SYSTEM
from events.models import Event, Head
from tests.client import (
    BOTS,
    EVENTS,
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
from tests.factories import a_bot, a_connected_desk, a_desk_token, a_platform_token
from tests.signals.bodies import deploy, fanout, floor, nox, tradingview
from tokens import actions
from tokens.crypto import formats
from tokens.models import SigningSecret, Token

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("contiguous")]


def recorded() -> list[Event]:
    return list(Event.objects.filter(kind="signal.refused"))


def codes() -> list[str]:
    return [event.content["data"]["code"] for event in recorded()]


# --- For which ----------------------------------------------------------------------------------


def test_no_card_no_election_and_a_desk_that_is_not_ready_are_recorded(engine, desk, bot):
    desks.withdraw(desk=bot.automation.desk, automation=bot.automation, actor=SYSTEM)
    assert code(push(tradingview(bot), secret=bot.secret)) == "no_election"
    desks.withdraw(desk=desk, actor=SYSTEM)
    assert code(push(floor(desk), engine)) == "desk_not_ready"
    desks.retire_card(actor=SYSTEM)
    assert code(push(fanout(), engine)) == "no_card"
    assert codes() == ["no_election", "desk_not_ready", "no_card"]


def test_a_bad_token_with_a_bad_signature_is_not_recorded(bot):
    before = Head.objects.get().position
    unknown = bearer(formats.new(formats.PLATFORM_TOKEN))
    body = written(tradingview(bot))
    assert code(push(body, headers={**signed("x", body=body), **unknown})) == "token_invalid"
    assert Head.objects.get().position == before


def test_a_known_bots_bad_signature_is_recorded_for_its_owner(bot, desk):
    named = {"X-Request-Id": "r-1"}
    body = written(tradingview(bot))
    answer = push(body, headers={**signed("wrong", body=body), **named})
    assert code(answer) == "signature_invalid"
    event = recorded()[0]
    assert event.topic == desk.public_id
    assert event.actor is None
    assert event.content["data"] == {
        "code": "signature_invalid",
        "source": "tradingview",
        "sent": {"pair": "ETH/USDT", "direction": "short"},
        "elected": {"pair": "ETH/USDT", "direction": "short"},
        "botId": bot.id,
        "requestId": "r-1",
        "nonce": None,
    }


MARKS = ("requestId", "nonce")


def marks(event, *, platform):
    """The request id and the nonce that this reader sees."""
    data = event.content_for(platform=platform)["data"]
    return tuple(data.get(name, "absent") for name in MARKS)


@pytest.mark.parametrize(
    ("changes", "nonce"),
    [
        ({"pair": "X/Y"}, "n-1"),
        ({"mode": "live"}, "n-1"),
        ({"direction": "up"}, "n-1"),
        ({"nonce": "has space", "pair": "X/Y"}, None),
        ({"nonce": 7}, None),
        ({"nonce": "n" * 129}, None),
        ({"apiKey": "x"}, None),
    ],
)
def test_the_bots_owner_and_the_platform_see_request_id_and_nonce(bot, changes, nonce):
    body = written({**tradingview(bot, nonce="n-1"), **changes})
    push(body, headers={**signed(bot.secret, body=body), "X-Request-Id": "r-1"})
    event = recorded()[0]
    assert marks(event, platform=False) == marks(event, platform=True) == ("r-1", nonce)


@pytest.mark.usefixtures("noon")
def test_a_repeated_signal_is_no_refusal_of_its_bot(bot, desk, settings):
    settings.LIMITS = {**settings.LIMITS, "refusals": "1/minute"}
    body = tradingview(bot)
    push(body, secret=bot.secret)
    position = Head.objects.get().position
    for _ in range(3):
        assert push(body, secret=bot.secret).json()["identical"] is True
    assert Head.objects.get().position == position
    (listed,) = get(BOTS, a_desk_token(desk)).json()["bots"]
    assert (listed["last"]["outcome"], listed["today"]) == (
        "filled",
        {"filled": 1, "refused": 0, "more": False},
    )
    push({**body, "direction": "long"}, secret=bot.secret)  # the allowance was not used
    assert recorded()[-1].content["data"]["code"] == "nonce_used"


def test_a_desk_does_not_see_the_marks_of_another_sender(engine, desk):
    body = floor(desk, pair="X/Y")
    push(body, engine, headers={"X-Request-Id": "r-1"})
    event = recorded()[0]
    assert event.topic == desk.public_id
    assert marks(event, platform=False) == ("absent", "absent")
    assert marks(event, platform=True) == ("r-1", body["nonce"])


def test_these_refusals_are_never_recorded(engine, desk, bot, settings):
    body = written(tradingview(bot))
    headers = signed(bot.secret, body=body)
    removed = a_bot(desk)
    actions.remove_automation(automation=removed.automation, actor=SYSTEM)
    before = Head.objects.get().position
    refused = [
        push(fanout(), "nonsense"),
        push(fanout(), engine[:-1] + "é"),
        push(body, headers={**headers, "X-SVC-Timestamp": "1"}),
        push(body, headers={**headers, "X-SVC-Signature": "v1=x"}),
        push(body, headers={"X-SVC-Timestamp": headers["X-SVC-Timestamp"]}),
        push(tradingview(bot, botId="bot_" + "0" * 22), secret="wrong"),
        push(tradingview(removed), secret=removed.secret),
        push(b"{", engine),
        push(b"{", secret="wrong"),
        push(b"x" * 65537, engine),
        post(deploy_path(desk.public_id), deploy(), engine, content_type="text/plain"),
        post(deploy_path(desk.public_id), b"{", engine),
        get(f"{EVENTS}?limit=0", engine),
    ]
    assert all(response.status_code >= 400 for response in refused)
    assert Head.objects.get().position == before


def test_rate_limited_is_never_recorded(engine, settings):
    settings.LIMITS = {**settings.LIMITS, "platform": "1/minute"}
    assert code(push(fanout(mode="live"), engine)) == "mode_refused"
    assert code(push(fanout(mode="live"), engine)) == "rate_limited"
    assert len(recorded()) == 1


@pytest.mark.parametrize(
    ("pair", "direction", "kept"),
    [
        ("BTC/USDT", "long", ("BTC/USDT", "long")),
        ("x;=cmd|'/C calc'!A0;", "go to evil.example", (None, None)),
        ("btc/usdt", "LONG", (None, None)),
        ("BTC/USDT\n", "long\n", (None, None)),
    ],
)
def test_a_stranger_writes_nothing_but_a_pair_and_a_direction(bot, pair, direction, kept):
    body = tradingview(bot, pair=pair, direction=direction)
    push(body, secret="wrong")
    sent = recorded()[-1].content["data"]["sent"]
    assert (sent["pair"], sent["direction"]) == kept


def test_a_bad_signature_from_a_rate_limited_address_is_not_recorded(bot, settings):
    settings.LIMITS = {**settings.LIMITS, "failures": "1/minute"}
    address = {"REMOTE_ADDR": "192.0.2.77"}
    assert code(push(tradingview(bot), secret="wrong", **address)) == "signature_invalid"
    assert code(push(tradingview(bot), secret="wrong", **address)) == "rate_limited"
    assert len(recorded()) == 1


def test_a_bad_signature_is_answered_alike_for_a_bot_and_no_bot_while_nothing_is_written(bot):
    Head.objects.update(halted=True)
    unknown = {**tradingview(bot), "botId": "bot_" + "0" * 22}
    for body in (tradingview(bot), unknown):
        answer = push(body, secret="wrong")
        assert (answer.status_code, code(answer)) == (401, "signature_invalid")
    Head.objects.update(halted=False)
    assert recorded() == []


# --- To whom ------------------------------------------------------------------------------------


def test_only_the_platform_sees_the_refusal_of_a_signal_to_no_desk(engine, desk):
    push(floor(desk, userId="usr_none", elected=False), engine)
    push(floor(desk, userId=5), engine)
    push(fanout(source="elsewhere"), engine)
    push({}, engine)
    assert len(recorded()) == 4
    assert {event.topic for event in recorded()} == {None}


# --- What it keeps ------------------------------------------------------------------------------


def test_nothing_else_of_the_body_is_stored(engine, desk):
    body = nox(
        userId=desk.public_id,
        mode="live",
        rationale="PRIVATE-1",
        decision_ref="PRIVATE-2",
        trace_id="trc_PRIVATE-3",
        nonce="PRIVATE-4",
        extra={"PRIVATE-5": "PRIVATE-6"},
    )
    push(body, engine)
    assert "PRIVATE" not in str(list(Event.objects.values()))


@pytest.mark.once
@pytest.mark.parametrize(
    "sent",
    [5, True, None, ["BTC/USDT"], {"a": "BTC/USDT"}, "x" * 42, "A/B\n", "A/\x1b[31mB", "\u202eA/B"],
)
def test_a_pair_or_direction_that_is_not_short_plain_text_is_not_stored(engine, desk, sent):
    push(floor(desk, pair=sent, direction=sent), engine)
    assert recorded()[0].content["data"]["sent"] == {"pair": None, "direction": None}


def test_pair_and_direction_of_a_body_with_a_secret_are_not_stored(engine, desk):
    push(floor(desk, pair="kX9credential", direction="kX9", api_key="kX9"), engine)
    data = recorded()[0].content["data"]
    assert data["sent"] == {"pair": None, "direction": None}
    assert "kX9" not in str(list(Event.objects.values()))


@pytest.mark.once
@pytest.mark.parametrize("source", [5, None, ["floor"], "kX9", {"floor": 1}])
def test_an_unknown_source_is_not_stored(engine, source):
    push(fanout(source=source), engine)
    assert recorded()[0].content["data"]["source"] is None


# --- How many, and where ------------------------------------------------------------------------


def test_at_most_60_refusals_a_minute_of_one_sender_are_recorded(engine, settings):
    settings.LIMITS = {**settings.LIMITS, "refusals": "60/minute"}
    now = timezone.now()
    other = a_platform_token("write")
    with time_machine.travel(now, tick=False):
        answers = {code(push(fanout(mode="live"), engine)) for _ in range(62)}
        assert answers == {"mode_refused"}
        assert codes() == ["mode_refused"] * 60 + ["refusals_suppressed"]
        push(fanout(mode="live"), other)
        assert codes()[61:] == ["mode_refused"]
    with time_machine.travel(now + timedelta(seconds=61), tick=False):
        push(fanout(mode="live"), engine)
        assert codes()[62:] == ["mode_refused"]


def test_refusals_under_the_lock_have_the_same_allowance_and_take_no_position_beyond_it(
    engine, settings
):
    settings.LIMITS = {**settings.LIMITS, "refusals": "1/minute"}
    for _ in range(3):
        push(fanout(pair="X/Y"), engine)
    push(fanout(mode="live"), engine)
    assert codes() == ["pair_mismatch", "refusals_suppressed"]
    position = recorded()[-1].position
    assert push(fanout(), engine).json()["signal"]["position"] == position + 1


def test_bad_signatures_do_not_use_up_the_bots_own_allowance(desk, bot, settings):
    settings.LIMITS = {**settings.LIMITS, "refusals": "2/minute"}
    for _ in range(3):
        push(tradingview(bot), secret="x")
    assert code(push(tradingview(bot, pair="X/Y"), secret=bot.secret)) == "pair_mismatch"
    assert codes() == [*["signature_invalid"] * 2, "refusals_suppressed", "pair_mismatch"]


def test_bad_signatures_of_all_bots_of_a_desk_share_one_allowance(desk, bot, settings):
    settings.LIMITS = {**settings.LIMITS, "refusals": "2/minute"}
    for each in (bot, a_bot(desk), a_bot(desk)):
        push(tradingview(each), secret="x")
    assert codes() == [*["signature_invalid"] * 2, "refusals_suppressed"]
    push(tradingview(a_bot(a_connected_desk())), secret="x")
    assert codes()[3:] == ["signature_invalid"]


class TestSuppressed:
    @pytest.fixture(autouse=True)
    def one_a_minute(self, settings):
        settings.LIMITS = {**settings.LIMITS, "refusals": "1/minute"}

    def test_the_owner_and_the_platform_see_that_more_was_refused(self, engine, desk, bot):
        for _ in range(4):
            push(tradingview(bot, pair="X/Y"), secret=bot.secret)
        to_platform = get(f"{EVENTS}?order=desc&limit=1", engine).json()["events"][0]
        to_desk = get(f"{EVENTS}?order=desc&limit=2", a_desk_token(desk)).json()["events"][1]
        assert to_desk["data"] == to_platform["data"]
        assert to_desk["data"] == {
            "code": "refusals_suppressed",
            "source": None,
            "sent": {"pair": None, "direction": None},
            "elected": None,
            "botId": bot.id,
            "suppressed": 1,
        }
        secret = SigningSecret.objects.get().actor.to_dict()
        assert to_platform["actor"] == to_desk["actor"] == secret
        assert to_platform["userId"] == to_desk["userId"] == desk.public_id

    def test_the_desk_sees_its_own_and_only_the_platform_that_of_a_platform_token(
        self, engine, desk, bot
    ):
        for _ in range(3):
            push(tradingview(bot), secret="x")
            push(floor(desk, pair="X/Y"), engine)
        of_strangers, of_engine = recorded()[2:]
        assert (of_strangers.topic, of_strangers.actor) == (desk.public_id, None)
        assert of_strangers.content["data"]["botId"] is None
        assert (of_engine.topic, of_engine.actor) == (None, Token.objects.get().actor)

    def test_it_is_recorded_once_a_minute(self, engine, settings):
        settings.LIMITS = {**settings.LIMITS, "refusals": "1/second"}
        now, other = timezone.now(), a_platform_token("write")
        with time_machine.travel(now, tick=False):
            for _ in range(3):
                push(fanout(mode="live"), engine)
                push(fanout(pair="X/Y"), engine)
        assert codes() == ["mode_refused", "refusals_suppressed"]
        with time_machine.travel(now + timedelta(seconds=59), tick=False):
            for _ in range(2):
                push(fanout(mode="live"), engine)
        assert codes()[2:] == ["mode_refused"]
        with time_machine.travel(now + timedelta(seconds=61), tick=False):
            for _ in range(2):
                push(fanout(mode="live"), engine)
            push(fanout(mode="live"), other)
        assert codes()[3:] == ["mode_refused", "refusals_suppressed", "mode_refused"]

    def test_the_page_says_so(self, desk, bot):
        for _ in range(3):
            push(tradingview(bot), secret="x")
        page = signed_in(desk.user).get("/activity").content.decode()
        assert "More refused signals were not recorded individually." in " ".join(page.split())


def test_a_refusal_decided_under_the_lock_is_recorded_at_that_position(engine, desk, card):
    """The refusal is between the withdrawal and the new enrolment, so the log explains it."""
    desks.withdraw(desk=desk, actor=SYSTEM)
    withdrawn = Head.objects.get().position
    assert code(push(floor(desk), engine)) == "desk_not_ready"
    desks.enrol(desk=desk, card_id=card.pk, actor=SYSTEM)
    assert recorded()[0].position == withdrawn + 1
    assert Event.objects.last().kind == "election.made"
    assert Event.objects.last().position == withdrawn + 2
