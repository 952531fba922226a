"""Section 4, POST /api/hooks/check: what the hook would answer, without recording anything."""

import pytest

from tests.conformance.client import TOKENS, assert_refused, without_id
from tests.conformance.credentials import credential

MEMBERS = {
    "paper",
    "liveWrites",
    "outcome",
    "wouldBe",
    "signal",
    "matched",
    "filled",
    "ignored",
}


def test_it_says_what_the_signal_of_a_bot_would_do(service):
    body = service.tradingview(extra=1)
    answer = service.check(body, secret=service.bot["secret"])
    assert answer.status_code == 200
    checked = answer.json()
    assert set(checked) == MEMBERS
    assert (checked["paper"], checked["liveWrites"]) == (True, False)
    assert (checked["outcome"], checked["wouldBe"]) == ("checked", "filled")
    assert (checked["matched"], checked["filled"], checked["ignored"]) == (1, 1, ["extra"])
    assert checked["signal"] == {
        **{name: body[name] for name in ("source", "pair", "direction", "nonce", "botId")},
        "mode": "paper",
        "fanout": False,
        "userId": service.own_desk,
    }


def test_it_says_what_each_shape_would_do(service):
    """The table of section 4: outcome, matched and filled."""
    ready = len(service.desks(ready=1))
    for body, expected in (
        (service.fanout(), ("filled", ready, ready)),
        (service.to_desk(), ("filled", 1, 1)),
        (service.of_nox(mode="dry_run"), ("dry_run", ready, 0)),
        (service.of_nox(mode="draft"), ("recorded", 0, 0)),
    ):
        checked = service.check(body, service.platform).json()
        assert (checked["wouldBe"], checked["matched"], checked["filled"]) == expected


def test_a_checked_message_can_be_sent_unchanged(service):
    """It uses no nonce."""
    body = service.tradingview()
    for _ in range(2):
        assert service.check(body, secret=service.bot["secret"]).status_code == 200
    assert service.push(body, secret=service.bot["secret"]).json()["outcome"] == "filled"
    assert_refused(service.check(body, secret=service.bot["secret"]), 409, "nonce_used")


@pytest.mark.once
@pytest.mark.parametrize(
    "changes",
    [
        {"apiKey": "x"},
        {"pair": "ETHUSDT"},
        {"mode": "live"},
        {"elected": "true"},
        {"direction": "up", "nonce": ""},
        {"pair": "NOT/IT"},
        {"direction": "other"},
        {"source": "floor"},
        {"botId": "bot_" + "0" * 22},
    ],
)
def test_it_refuses_exactly_as_the_hook_does(service, changes):
    if changes.get("direction") == "other":
        changes = {"direction": "short" if service.bot["direction"] == "long" else "long"}
    body = service.tradingview(**changes)
    checked = service.check(body, secret=service.bot["secret"])
    assert checked.status_code in (401, 422)
    assert without_id(checked) == without_id(service.push(body, secret=service.bot["secret"]))


def test_it_writes_no_event(service):
    """Neither the check nor its refusals, not even a bad signature in a bot's name."""
    since, secret = service.tail(), service.bot["secret"]
    service.check(service.tradingview(), secret=secret)
    service.check(service.tradingview(pair="NOT/IT"), secret=secret)
    service.check(service.tradingview(), secret=credential("svc_sign_"))
    own = service.events(after=since, userId=service.own_desk)
    assert [event for event in own if event["kind"].startswith("signal.")] == []


def test_it_is_no_use_of_a_token(service, admin):
    """No time of use is written."""
    with admin.platform_token("write") as token:
        assert service.check(service.fanout(), token["token"]).status_code == 200
        record = admin.get(f"{TOKENS}?limit=1000").json()["tokens"]
        (used,) = [each["lastUsedAt"] for each in record if each["id"] == token["id"]]
        assert used is None
