"""Source nox: the outcome of each mode, and what is recorded (contract, section 4)."""

import json
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from events.models import Event
from tests.client import EVENTS, get, push
from tests.factories import a_ready_desk
from tests.signals.bodies import nox

pytestmark = pytest.mark.django_db


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


def test_a_fan_out_is_addressed_to_the_card_and_a_recorded_one_to_the_platform(engine, desk, card):
    for mode, topic in (("paper", card.pk), ("dry_run", None), ("draft", None)):
        push(nox(mode=mode), engine)
        assert Event.objects.last().topic == topic
    push(nox(mode="paper", fanout=False), engine)
    assert (Event.objects.last().kind, Event.objects.last().topic) == ("signal.recorded", None)


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


@pytest.mark.parametrize(
    "rationale", ["", "🚀" * 500, "line\n\ttab", "<script>", "\u202e", "'\";--"]
)
def test_a_rationale_is_kept_as_it_was_sent(engine, rationale):
    assert push(nox(rationale=rationale), engine).json()["signal"]["rationale"] == rationale
    event = get(f"{EVENTS}?order=desc&limit=1", engine).json()["events"][0]
    assert event["signal"]["rationale"] == rationale
