"""Source nox: the outcome of each mode, and what is recorded (contract, section 4)."""

import json
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from desks import actions as desks
from events.actors import SYSTEM
from events.kinds import Kind
from events.models import Event
from tests.client import DESKS, EVENTS, code, faults, get, push
from tests.factories import a_connected_desk, a_desk_token, a_ready_desk
from tests.signals.bodies import nox

pytestmark = pytest.mark.django_db

SOMEBODY = "usr_" + "0" * 22


def outcome(response) -> tuple[str, int, int]:
    answer = response.json()
    return answer["outcome"], answer["matched"], answer["filled"]


# --- The table ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("draft", ("recorded", 0, 0)),
        ("dry_run", ("dry_run", 2, 0)),
        ("paper", ("filled", 2, 2)),
    ],
)
def test_to_every_ready_desk(engine, desk, card, mode, expected):
    a_ready_desk(card)
    response = push(nox(mode=mode), engine)
    assert outcome(response) == expected
    assert response.json()["signal"]["mode"] == mode


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("draft", ("recorded", 0, 0)),
        ("dry_run", ("dry_run", 1, 0)),
        ("paper", ("filled", 1, 1)),
    ],
)
@pytest.mark.parametrize("fanout", [True, False])
def test_to_one_desk(engine, desk, card, mode, fanout, expected):
    a_ready_desk(card)
    response = push(nox(mode=mode, fanout=fanout, userId=desk.public_id), engine)
    assert outcome(response) == expected
    assert response.json()["signal"]["userId"] == desk.public_id


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("draft", ("recorded", 0, 0)),
        ("dry_run", ("dry_run", 0, 0)),
        ("paper", ("recorded", 0, 0)),
    ],
)
def test_without_a_target(engine, desk, mode, expected):
    response = push(nox(mode=mode, fanout=False), engine)
    assert outcome(response) == expected
    assert response.json()["signal"]["userId"] is None


@pytest.mark.parametrize("mode", ["draft", "dry_run", "paper"])
def test_without_a_target_the_published_card_is_repeated(engine, mode):
    assert code(push(nox(mode=mode, fanout=False, pair="X/Y"), engine)) == "pair_mismatch"
    wrong = nox(mode=mode, fanout=False, direction="short")
    assert code(push(wrong, engine)) == "direction_mismatch"
    desks.retire_card(actor=SYSTEM)
    assert code(push(nox(mode=mode, fanout=False), engine)) == "no_card"


@pytest.mark.parametrize("mode", ["dry_run", "paper"])
def test_a_dry_run_is_checked_as_paper_would_be(engine, card, mode):
    other = a_connected_desk().public_id
    assert code(push(nox(mode=mode, userId=other), engine)) == "desk_not_ready"
    assert code(push(nox(mode=mode, userId=SOMEBODY), engine)) == "not_found"
    assert code(push(nox(mode=mode, pair="X/Y"), engine)) == "pair_mismatch"
    desks.retire_card(actor=SYSTEM)
    assert code(push(nox(mode=mode), engine)) == "no_card"


def test_a_draft_is_checked_against_the_card_only(engine, card):
    other = a_connected_desk().public_id
    for target in ({"userId": other}, {"userId": other, "fanout": False}, {}, {"fanout": False}):
        assert outcome(push(nox(mode="draft", **target), engine)) == ("recorded", 0, 0)
    assert code(push(nox(mode="draft", userId=SOMEBODY), engine)) == "not_found"
    assert code(push(nox(mode="draft", pair="X/Y"), engine)) == "pair_mismatch"


@pytest.mark.parametrize("mode", ["armed", "live"])
def test_armed_and_live_are_refused(engine, desk, mode):
    response = push(nox(mode=mode), engine)
    assert (response.status_code, code(response)) == (422, "mode_refused")


# --- To whom it is told -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "kind"),
    [
        ("draft", Kind.SIGNAL_RECORDED),
        ("dry_run", Kind.SIGNAL_DRY_RUN),
        ("paper", Kind.SIGNAL_FILLED),
    ],
)
def test_a_desk_sees_the_signals_sent_to_it(engine, desk, mode, kind):
    push(nox(mode=mode, userId=desk.public_id), engine)
    event = Event.objects.last()
    assert (event.kind, event.topic) == (kind, desk.public_id)


def test_a_fan_out_is_addressed_to_the_card_and_a_recorded_one_to_the_platform(engine, desk, card):
    for mode, topic in (("paper", card.pk), ("dry_run", None), ("draft", None)):
        push(nox(mode=mode), engine)
        assert Event.objects.last().topic == topic
    push(nox(mode="paper", fanout=False), engine)
    assert (Event.objects.last().kind, Event.objects.last().topic) == ("signal.recorded", None)


def test_the_platform_sees_the_ids_of_nox_and_a_desk_does_not(engine, desk):
    sent = nox(size_quote=5, decision_ref="d-1", userId=desk.public_id)
    push(sent, engine)
    to_platform = get(f"{EVENTS}?order=desc&limit=1", engine).json()["events"][0]
    to_desk = get(f"{EVENTS}?order=desc&limit=1", a_desk_token(desk)).json()
    assert to_platform["signal"]["nonce"] == sent["action_id"]
    assert to_platform["signal"]["traceId"] == "trc_1"
    assert to_platform["signal"]["decisionRef"] == "d-1"
    assert to_platform["data"]["matched"] == 1
    assert to_platform["actor"]["id"].startswith("tok_")
    token_event, filled = to_desk["events"][0], None
    assert token_event["kind"] == "token.minted"
    events = get(f"{EVENTS}?kind=signal.filled", a_desk_token(desk)).json()["events"]
    filled = events[0]
    assert filled["data"] == {}
    assert not {"nonce", "traceId", "decisionRef"} & set(filled["signal"])
    assert filled["signal"]["sizeQuote"] == "5"
    assert filled["signal"]["rationale"] == sent["rationale"]


def test_a_dry_run_and_a_draft_fill_no_desk(engine, desk):
    for mode in ("draft", "dry_run"):
        answer = push(nox(mode=mode), engine).json()
        assert get(answer["desks"], engine).json()["desks"] == []
    assert get(f"{DESKS}?signal=sig_unknown", engine).json()["desks"] == []


# --- Amounts and text ---------------------------------------------------------------------------


def sized(number: str) -> bytes:
    return json.dumps(nox()).replace('"size_quote": null', f'"size_quote": {number}').encode()


@pytest.mark.parametrize(
    ("sent", "answered"),
    [
        ("1", "1"),
        ("0.1", "0.1"),
        ("100.50", "100.50"),
        ("0.00000001", "0.00000001"),
        ("1e-8", "0.00000001"),
        ("1E3", "1000"),
        ("1.5e3", "1500"),
        ("999999999999999.99999999", "999999999999999.99999999"),
        ("999999999999999", "999999999999999"),
        ("0.30000000", "0.30000000"),
    ],
)
def test_an_amount_is_the_same_in_body_answer_and_feed(engine, sent, answered):
    response = push(sized(sent), engine)
    assert response.json()["signal"]["sizeQuote"] == answered
    event = get(f"{EVENTS}?order=desc&limit=1", engine).json()["events"][0]
    assert event["signal"]["sizeQuote"] == answered
    assert Decimal(answered) == Decimal(sent)


@given(units=st.integers(1, 10**23 - 1))
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_every_amount_comes_back_digit_for_digit(engine, units):
    number = f"{Decimal(units).scaleb(-8):f}"
    assert push(sized(number), engine).json()["signal"]["sizeQuote"] == number


@pytest.mark.parametrize("number", ["0", "-1", "1e15", "0.000000001", "-0.0", '"1"', "true", "[]"])
def test_an_amount_out_of_bounds_is_refused(engine, number):
    response = push(sized(number), engine)
    assert (code(response), set(faults(response))) == ("invalid", {"size_quote"})


@pytest.mark.parametrize(
    "rationale", ["", "🚀" * 500, "line\n\ttab", "<script>", "\u202e", "'\";--"]
)
def test_a_rationale_is_kept_as_it_was_sent(engine, rationale):
    assert push(nox(rationale=rationale), engine).json()["signal"]["rationale"] == rationale
    event = get(f"{EVENTS}?order=desc&limit=1", engine).json()["events"][0]
    assert event["signal"]["rationale"] == rationale


def test_absent_fields_are_null_in_the_response(engine):
    body = nox()
    for name in ("size_quote", "rationale", "decision_ref"):
        del body[name]
    signal = push(body, engine).json()["signal"]
    assert (signal["sizeQuote"], signal["rationale"], signal["decisionRef"]) == (None, None, None)
    assert (signal["nonce"], signal["traceId"]) == (body["action_id"], "trc_1")
