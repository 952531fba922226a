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
from tests.client import EVENTS, code, faults, get, push
from tests.factories import a_ready_desk
from tests.signals.bodies import nox

pytestmark = pytest.mark.django_db


# --- The table ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "to_all", "to_one", "to_none"),
    [
        ("draft", ("recorded", 0, 0), ("recorded", 0, 0), ("recorded", 0, 0)),
        ("dry_run", ("dry_run", 2, 0), ("dry_run", 1, 0), ("dry_run", 0, 0)),
        ("paper", ("filled", 2, 2), ("filled", 1, 1), ("recorded", 0, 0)),
    ],
)
def test_each_mode_has_its_outcome(engine, desk, card, mode, to_all, to_one, to_none):
    a_ready_desk(card)
    for target, expected in (
        ({}, to_all),
        ({"userId": desk.public_id}, to_one),
        ({"userId": desk.public_id, "fanout": False}, to_one),
        ({"fanout": False}, to_none),
    ):
        answer = push(nox(mode=mode, **target), engine).json()
        assert (answer["outcome"], answer["matched"], answer["filled"]) == expected


@pytest.mark.parametrize("mode", ["draft", "dry_run", "paper"])
def test_without_a_target_the_published_card_is_repeated(engine, mode):
    assert code(push(nox(mode=mode, fanout=False, pair="X/Y"), engine)) == "pair_mismatch"
    wrong = nox(mode=mode, fanout=False, direction="short")
    assert code(push(wrong, engine)) == "direction_mismatch"
    desks.retire_card(actor=SYSTEM)
    assert code(push(nox(mode=mode, fanout=False), engine)) == "no_card"
    assert code(push(nox(mode=mode), engine)) == "no_card"


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


# --- Amounts and text ---------------------------------------------------------------------------


def sized(number: str) -> bytes:
    return json.dumps(nox()).replace('"size_quote": null', f'"size_quote": {number}').encode()


@given(units=st.integers(1, 10**23 - 1))
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_every_amount_comes_back_digit_for_digit(engine, units):
    number = f"{Decimal(units).scaleb(-8):f}"
    assert push(sized(number), engine).json()["signal"]["sizeQuote"] == number


def test_an_amount_out_of_bounds_is_refused(engine):
    response = push(sized("0"), engine)
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
