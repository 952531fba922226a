"""Section 4, the hook's answers: accepted, ignored fields, and a nonce that is spent for good."""

import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.conformance.client import HOOK, assert_refused, signed, written

ANSWER = {
    "paper",
    "liveWrites",
    "outcome",
    "signal",
    "matched",
    "filled",
    "ignored",
    "events",
    "desks",
}
SIGNAL = {
    "id",
    "source",
    "mode",
    "pair",
    "direction",
    "nonce",
    "fanout",
    "userId",
    "botId",
    "traceId",
    "sizeQuote",
    "rationale",
    "decisionRef",
    "receivedAt",
    "position",
}
RACERS = 32


def accepted(service, shape, **changes):
    """The answer to a lawful signal of this shape, and its body."""
    body = getattr(service, shape)(**changes)
    secret = service.bot["secret"] if shape == "tradingview" else None
    answer = service.push(body, None if secret else service.platform, secret=secret)
    assert answer.status_code == 200, answer.text
    return answer.json(), body


@pytest.mark.parametrize("shape", ["tradingview", "to_desk", "fanout", "of_nox"])
def test_an_accepted_signal_is_answered_with_these_members(service, shape):
    """Section 4, accepted."""
    result, body = accepted(service, shape)
    assert set(result) == ANSWER
    assert (result["paper"], result["liveWrites"]) == (True, False)
    assert set(result["signal"]) == SIGNAL
    assert re.fullmatch("sig_[0-9A-Za-z]{22}", result["signal"]["id"])
    for name in ("source", "pair", "direction"):
        assert result["signal"][name] == body[name]
    assert result["signal"]["nonce"] == body.get("action_id", body.get("nonce"))
    assert isinstance(result["signal"]["position"], int)


@pytest.mark.parametrize("shape", ["tradingview", "to_desk", "fanout", "of_nox"])
def test_its_paths_list_what_it_did(service, shape):
    """Section 4: events and desks."""
    result, _ = accepted(service, shape)
    events = service.get(result["events"], service.platform).json()["events"]
    assert [event["position"] for event in events] == [result["signal"]["position"]]
    assert events[0]["kind"] == "signal.filled"
    assert events[0]["signal"] == result["signal"]
    desks = service.get(result["desks"], service.platform).json()["desks"]
    assert len(desks) == result["filled"]


@pytest.mark.once
@pytest.mark.parametrize("kind", ["text/plain", None])
def test_the_content_type_is_not_looked_at(service, kind):
    """Section 4: the bytes must be one JSON object."""
    answer = service.push(service.fanout(), service.platform, headers={"Content-Type": kind})
    assert answer.status_code == 200


# --- Fields that are not named ------------------------------------------------------------------


@pytest.mark.once
def test_the_names_of_fields_that_are_not_used_come_back(service):
    """Section 4: ignored; not used and not kept."""
    result, _ = accepted(service, "fanout", extra=1, another={"a": ["value-not-kept"]})
    assert result["ignored"] == ["extra", "another"]
    event = service.get(result["events"], service.platform).text
    assert "extra" not in event
    assert "value-not-kept" not in event


@pytest.mark.once
def test_at_most_20_names_of_at_most_64_characters_come_back(service):
    result, _ = accepted(service, "fanout", **{f"{n:02}" + "x" * 100: n for n in range(30)})
    assert [len(name) for name in result["ignored"]] == [64] * 20


@pytest.mark.once
@pytest.mark.parametrize("number", ["9" * 60_000, "-0." + "9" * 60_000, "1e" + "9" * 60_000])
def test_a_number_in_an_unused_field_may_have_any_length(service, number):
    """Section 4: it is not converted."""
    text = written(service.fanout(note=0)).replace(b'"note": 0', b'"note": ' + number.encode())
    answer = service.push(text, service.platform)
    assert (answer.status_code, answer.json()["ignored"]) == (200, ["note"])


# --- The nonce -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["tradingview", "to_desk", "fanout", "of_nox"])
def test_a_nonce_sent_again_tells_what_became_of_the_first(service, shape):
    """Section 4: 409 with first, the first one's answer without ignored, and identical."""
    result, body = accepted(service, shape, extra=1)
    secret = service.bot["secret"] if shape == "tradingview" else None
    again = service.push(body, None if secret else service.platform, secret=secret)
    refusal = assert_refused(again, 409, "nonce_used")
    assert refusal["identical"] is True
    assert refusal["first"] == {name: result[name] for name in ANSWER - {"ignored"}}


@pytest.mark.parametrize(
    ("shape", "changes"),
    [
        ("fanout", {"userId": "desk"}),
        ("fanout", {"direction": "short"}),
        ("fanout", {"pair": "NOT/IT"}),
        ("to_desk", {"userId": "other_desk"}),
        ("to_desk", {"fanout": True}),
        ("of_nox", {"mode": "draft"}),
        ("of_nox", {"size_quote": 1}),
        ("of_nox", {"rationale": "Another."}),
        ("of_nox", {"decision_ref": "x"}),
        ("of_nox", {"trace_id": "trc_other"}),
    ],
)
def test_identical_says_whether_the_two_say_the_same(service, shape, changes):
    _, body = accepted(service, shape)
    if "userId" in changes:
        changes = {"userId": getattr(service, changes["userId"])}
    again = service.push({**body, **changes}, service.platform)
    assert assert_refused(again, 409, "nonce_used")["identical"] is False


def test_the_same_said_with_other_bytes_is_identical(service):
    """Section 4: whether the two say the same; null is absent, 1.0 is 1, mode is paper."""
    _, body = accepted(service, "of_nox", size_quote=1)
    same = written({**body, "userId": None, "note": "x"}).replace(
        b'"size_quote": 1', b'"size_quote": 1.00'
    )
    again = service.push(same, service.platform)
    assert assert_refused(again, 409, "nonce_used")["identical"] is True
    _, body = accepted(service, "fanout")
    again = service.push({**body, "mode": "paper"}, secret=service.floor)
    assert assert_refused(again, 409, "nonce_used")["identical"] is True


@pytest.mark.parametrize("mode", ["draft", "dry_run", "paper"])
def test_a_nonce_is_spent_in_any_mode(service, mode):
    _, body = accepted(service, "of_nox", mode=mode)
    again = service.push({**body, "mode": "paper"}, service.platform)
    assert_refused(again, 409, "nonce_used")


def test_a_refused_signal_spends_no_nonce(service):
    """Sections 1 and 4: a refusal changes nothing; the same nonce is taken afterwards."""
    body = service.fanout()
    for fault in ({"pair": "NOT/IT"}, {"elected": False}, {"mode": "live"}, {"api_key": "x"}):
        assert service.push({**body, **fault}, service.platform).status_code == 422
    assert service.push(body, service.reader).status_code == 403
    assert service.push(body).status_code == 401
    assert service.push(body, service.platform).status_code == 200


def test_raced_by_many_exactly_one_wins(service):
    """Section 4: by any number of workers; every other one gets the winner's answer."""
    body = written(service.fanout())
    headers = signed(service.floor, body=body)

    def push(_):
        with service.client() as own:
            return own.post(HOOK, content=body, headers=headers)

    with ThreadPoolExecutor(RACERS) as pool:
        answers = list(pool.map(push, range(RACERS)))
    won = [answer for answer in answers if answer.status_code == 200]
    lost = [answer for answer in answers if answer.status_code != 200]
    assert len(won) == 1, [answer.status_code for answer in answers]
    for answer in lost:
        refusal = assert_refused(answer, 409, "nonce_used")
        assert refusal["first"]["signal"] == won[0].json()["signal"]
