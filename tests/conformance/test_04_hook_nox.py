"""Section 4, POST /api/hooks/signal, source nox: its modes, targets and fields."""

import json

import pytest

from tests.conformance.client import SOMEBODY, assert_refused, became, faults, nonce

pytestmark = pytest.mark.once


@pytest.fixture
def ready(service):
    return len(service.desks(ready="1"))


def push(service, **changes):
    return service.push(service.of_nox(**changes), service.platform)


# --- The table: mode, target, what is checked, outcome -------------------------------------------


@pytest.mark.parametrize("target", ["all", "one", "none", "not ready"])
def test_a_draft_is_recorded_whatever_its_target(service, idle, target):
    """Row 1: any or none; 0 / 0."""
    named = {"one": service.desk, "not ready": idle}.get(target)
    answer = push(service, mode="draft", fanout=target == "all", userId=named)
    assert became(answer) == ("recorded", 0, 0)
    assert service.desks(signal=answer.json()["signal"]["id"]) == []


def test_a_draft_repeats_the_published_card(service, idle):
    """Row 1: the published card's pair and direction, and nothing of the desk."""
    for changes in ({}, {"fanout": False}, {"userId": idle}):
        answer = push(service, mode="draft", pair="NOT/IT", **changes)
        assert_refused(answer, 422, "pair_mismatch")


@pytest.mark.parametrize("mode", ["draft", "dry_run", "paper"])
@pytest.mark.parametrize("fanout", [True, False])
def test_an_unknown_desk_is_not_found(service, mode, fanout):
    """Row 1 and the others: an unknown userId is 404."""
    answer = push(service, mode=mode, fanout=fanout, userId=SOMEBODY)
    assert_refused(answer, 404, "not_found")


def test_a_dry_run_of_all_matches_every_ready_desk_and_fills_none(service, ready):
    """Row 2: N / 0."""
    answer = push(service, mode="dry_run")
    assert became(answer) == ("dry_run", ready, 0)
    assert service.desks(signal=answer.json()["signal"]["id"]) == []


@pytest.mark.parametrize("mode", ["dry_run", "paper"])
@pytest.mark.parametrize("fanout", [True, False])
def test_a_dry_run_is_checked_as_paper_would_be(service, idle, mode, fanout):
    """Rows 2 and 4: the desk is ready, the pair its election's."""
    not_ready = push(service, mode=mode, fanout=fanout, userId=idle)
    assert_refused(not_ready, 422, "desk_not_ready")
    other = push(service, mode=mode, fanout=fanout, userId=service.desk, pair="NOT/IT")
    assert_refused(other, 422, "pair_mismatch")


@pytest.mark.parametrize(("mode", "outcome"), [("dry_run", "dry_run"), ("paper", "recorded")])
def test_without_a_target_nothing_is_matched(service, mode, outcome):
    """Rows 3 and 5: 0 / 0, the published card's pair and direction."""
    assert became(push(service, mode=mode, fanout=False)) == (outcome, 0, 0)
    answer = push(service, mode=mode, fanout=False, pair="NOT/IT")
    assert_refused(answer, 422, "pair_mismatch")


def test_paper_for_all_fills_every_ready_desk(service, ready):
    """Row 4: N / N, as floor."""
    answer = push(service)
    assert became(answer) == ("filled", ready, ready)
    assert len(service.desks(signal=answer.json()["signal"]["id"])) == ready


@pytest.mark.parametrize("fanout", [True, False])
def test_paper_for_one_desk_fills_it(service, fanout):
    """Row 4."""
    answer = push(service, fanout=fanout, userId=service.desk)
    assert became(answer) == ("filled", 1, 1)
    filled = service.desks(signal=answer.json()["signal"]["id"])
    assert [desk["userId"] for desk in filled] == [service.desk]


# --- Fields --------------------------------------------------------------------------------------


def test_the_customers_body_is_accepted_and_returned(service):
    """The customer's section 4, shape 4."""
    body = service.of_nox(decision_ref="d-1", size_quote=250)
    customers = {"fanout", "action_id", "trace_id", "pair", "direction", "elected", "source"}
    assert set(body) == customers | {"mode", "size_quote", "rationale", "decision_ref"}
    expected = service.push(body, service.platform).json()
    signal = expected["signal"]
    assert signal["nonce"] == body["action_id"]
    assert signal["traceId"] == body["trace_id"]
    assert (signal["sizeQuote"], signal["decisionRef"]) == ("250", "d-1")
    assert (signal["rationale"], signal["source"]) == (body["rationale"], "nox")
    assert expected["ignored"] == []


@pytest.mark.parametrize("field", ["fanout", "mode", "action_id", "trace_id"])
@pytest.mark.parametrize("value", ["absent", None])
def test_these_fields_are_required(service, field, value):
    body = service.of_nox(**{field: None})
    if value == "absent":
        del body[field]
    answer = service.push(body, service.platform)
    assert_refused(answer, 422, "invalid")
    assert faults(answer) == {field}


@pytest.mark.parametrize("field", ["size_quote", "rationale", "decision_ref", "userId"])
def test_these_fields_are_optional(service, field):
    """Section 4: null is the same as absent."""
    body = service.of_nox()
    body.pop(field, None)
    assert service.push(body, service.platform).status_code == 200
    assert push(service, **{field: None}).status_code == 200


@pytest.mark.parametrize("field", ["action_id", "trace_id"])
@pytest.mark.parametrize("value", ["x", "{}", "{}long"])
def test_ids_begin_with_their_prefix_and_have_1_to_128_visible_characters(service, field, value):
    prefix = field[:3].replace("tra", "trc") + "_"
    value = value.format(prefix)
    value = value.ljust(129, "x") if value.endswith("long") else value
    answer = push(service, **{field: value})
    assert_refused(answer, 422, "invalid")
    assert faults(answer) == {field}


def test_ids_of_128_characters_are_taken(service):
    action, trace = nonce("act_").ljust(128, "~"), nonce("trc_").ljust(128, "!")
    signal = push(service, action_id=action, trace_id=trace).json()["signal"]
    assert (signal["nonce"], signal["traceId"]) == (action, trace)


def sized(service, number):
    """A push with this number as it is written."""
    text = json.dumps(service.of_nox(size_quote=0)).replace('"size_quote": 0', '"size_quote": %s')
    return service.push((text % number).encode(), service.platform)


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        ("123456789012345.12345678", "123456789012345.12345678"),
        ("1e2", "100"),
        ("1.000000000", "1.00000000"),
        ("100e-10", "0.00000001"),
    ],
)
def test_an_amount_is_kept_exactly_and_written_as_a_string(service, number, expected):
    """The contract's head, and section 4: 15 digits before and 8 after the point, zeros aside."""
    assert sized(service, number).json()["signal"]["sizeQuote"] == expected


@pytest.mark.parametrize(
    "number", ["0", "-1", "1e15", "0.000000001", '"1"', "9" * 5000, "1e" + "9" * 5000]
)
def test_another_amount_is_invalid(service, number):
    """Section 4: a number over 0."""
    answer = sized(service, number)
    assert_refused(answer, 422, "invalid")
    assert faults(answer) == {"size_quote"}


@pytest.mark.parametrize("text", ["\U0001f600" * 500, "a\nb\tc"])
def test_a_rationale_has_at_most_500_code_points(service, text):
    """The customer's section 8; section 4: newline and tab are let through."""
    assert push(service, rationale=text).json()["signal"]["rationale"] == text


def test_a_crlf_in_a_rationale_is_stored_as_a_newline(service):
    """Section 4; it is the same signal as one with a newline."""
    body = service.of_nox(rationale="one\r\ntwo\r\n")
    accepted = service.push(body, service.platform).json()
    assert accepted["signal"]["rationale"] == "one\ntwo\n"
    again = service.push({**body, "rationale": "one\ntwo\n"}, service.platform)
    assert assert_refused(again, 409, "nonce_used")["identical"] is True


@pytest.mark.parametrize("text", ["x" * 501, "a\x07", "a\rb", "\r\n" * 251])
def test_a_rationale_is_plain_text(service, text):
    """Section 4: no control characters but newline and tab."""
    answer = push(service, rationale=text)
    assert_refused(answer, 422, "invalid")
    assert faults(answer) == {"rationale"}


def test_a_decision_ref_has_at_most_128_characters(service):
    longest = "é" * 128
    assert push(service, decision_ref=longest).json()["signal"]["decisionRef"] == longest
    for value in ("x" * 129, 1, True, []):
        answer = push(service, decision_ref=value)
        assert_refused(answer, 422, "invalid")
        assert faults(answer) == {"decision_ref"}
