"""Section 4, POST /api/hooks/signal, source tradingview: an automation's own signal."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.conformance.client import assert_refused, became, faults


def push(service, **changes):
    return service.push(service.tradingview(**changes), secret=service.bot["secret"])


def test_the_customers_body_fills_the_owners_desk_and_no_other(service):
    """The customer's section 4, shape 1."""
    body = service.tradingview()
    assert set(body) == {"botId", "pair", "direction", "nonce", "elected", "source"}
    answer = service.push(body, secret=service.bot["secret"])
    assert became(answer) == ("filled", 1, 1)
    signal = answer.json()["signal"]
    assert (signal["botId"], signal["userId"]) == (service.bot["botId"], service.own_desk)
    assert (signal["mode"], signal["fanout"]) == ("paper", False)
    filled = service.desks(signal=signal["id"])
    assert [desk["userId"] for desk in filled] == [service.own_desk]


@pytest.mark.once
def test_mode_is_paper_or_absent(service):
    for mode in ("paper", None):
        assert push(service, mode=mode).json()["signal"]["mode"] == "paper"
    for mode in ("draft", "dry_run"):
        answer = push(service, mode=mode)
        assert_refused(answer, 422, "invalid")
        assert faults(answer) == {"mode"}


def test_it_is_matched_against_that_automations_election_and_not_the_card(service):
    """Section 4; the refusal shows what was sent and what is elected."""
    bot = service.bot
    elected = {"pair": bot["pair"], "direction": bot["direction"]}
    assert elected != service.elected, "the seeding elects otherwise than the card"
    body = assert_refused(push(service, pair=service.elected["pair"]), 422, "pair_mismatch")
    assert body["elected"] == elected
    assert body["sent"] == {**elected, "pair": service.elected["pair"]}
    other = "short" if bot["direction"] == "long" else "long"
    body = assert_refused(push(service, direction=other), 422, "direction_mismatch")
    assert body["elected"] == elected


def ago(seconds: int) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat()


def test_a_signal_older_than_the_bots_maximum_age_is_refused(service, bot):
    """Section 4: signal_too_old, after nonce_used; a missing sentAt is invalid."""
    bot.elect("AAA/BBB", "long")
    secret = bot.generate()
    signal = {"pair": "AAA/BBB", "direction": "long"}

    def push(**changes):
        return service.push(bot.body(**signal, **changes), secret=secret)

    assert push(sentAt=ago(3600)).status_code == 200
    bot.expect(max_age=60)
    assert_refused(push(sentAt=ago(3600)), 422, "signal_too_old")
    missing = push()
    assert_refused(missing, 422, "invalid")
    assert faults(missing) == {"sentAt"}
    assert push(sentAt=ago(0)).json()["ignored"] == []
    assert push(sentAt=ago(-3600)).status_code == 200
    used = bot.body(**signal, sentAt=ago(3600))
    fresh = {**used, "sentAt": ago(0)}
    assert service.push(fresh, secret=secret).status_code == 200
    assert_refused(service.push(used, secret=secret), 409, "nonce_used")
    bot.expect()
    assert push(sentAt=None).status_code == 200


@pytest.mark.once
def test_sent_at_is_a_time_of_rfc_3339(service):
    """Section 4, whether or not the bot has a maximum age."""
    answer = push(service, sentAt="2026-11-20T09:30:00")
    assert_refused(answer, 422, "invalid")
    assert faults(answer) == {"sentAt"}


@pytest.mark.once
def test_a_leap_second_is_a_time_of_rfc_3339(service):
    """The contract's head: the last second of a month in UTC, and no other."""
    for leap in ("2016-12-31T23:59:60Z", "2016-12-31T18:59:60.5-05:00"):
        assert push(service, sentAt=leap).status_code == 200
    assert_refused(push(service, sentAt="2016-12-31T22:59:60Z"), 422, "invalid")


@pytest.mark.once
@pytest.mark.parametrize(
    "changes",
    [
        {"pair": None, "ticker": "ETHUSDT"},
        {"direction": None, "symbol": "ETHUSDT"},
        {"pair": "ETHUSDT"},
    ],
)
def test_a_signal_that_carries_only_a_ticker_is_refused(service, changes):
    """The customer's section 1, 3; section 5: ticker_only."""
    assert_refused(push(service, **changes), 422, "ticker_only")


@pytest.mark.once
def test_a_ticker_beside_pair_and_direction_is_only_ignored(service):
    """Section 5: a ticker, and no pair or no direction."""
    answer = push(service, ticker="ETHUSDT", symbol="ETH")
    assert (answer.status_code, answer.json()["ignored"]) == (200, ["ticker", "symbol"])


@pytest.mark.once
@pytest.mark.parametrize("field", ["fanout", "userId", "action_id"])
def test_fields_of_other_shapes_are_not_used(service, field):
    """Section 4: fields that are not named are not used; their names come back."""
    value = {"fanout": True, "userId": service.desk}.get(field, "act_1")
    result = push(service, **{field: value}).json()
    assert (result["ignored"], result["matched"]) == ([field], 1)
    assert result["signal"]["userId"] == service.own_desk
