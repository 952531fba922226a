"""Section 4, GET /api/v1/bots: a desk's own bots."""

import pytest

from tests.conformance.browser import Bot
from tests.conformance.client import BOTS, assert_refused, faults

pytestmark = pytest.mark.once

RECORD = {"botId", "name", "createdAt", "state", "election", "last", "today"}
RECORD |= {"expected", "silentSince", "maxAge"}


def record(service, token, bot_id):
    bots = service.get(BOTS, token, limit=1000).json()["bots"]
    return next((bot for bot in bots if bot["botId"] == bot_id), None)


def test_a_desk_lists_its_own_bots(service, user):
    """Section 4: election, state, latest outcome, counts of the day."""
    token, own = user.mint_desk_token(), service.bot
    signal = service.push(service.tradingview(), secret=own["secret"]).json()["signal"]
    page = service.get(BOTS, token).json()
    assert set(page) == {"paper", "liveWrites", "bots", "next"}
    assert all(set(bot) == RECORD for bot in page["bots"])
    found = record(service, token, own["botId"])
    assert found["state"] == "accepts_signals"
    assert {name: found["election"][name] for name in ("pair", "direction")} == {
        name: own[name] for name in ("pair", "direction")
    }
    assert (found["last"]["outcome"], found["last"]["code"]) == ("filled", None)
    assert found["last"]["signal"] == signal["id"]
    assert found["last"]["event"] == f"evt_{signal['position']}"
    assert set(found["today"]) == {"filled", "refused", "more"}
    assert record(service, service.desk_token, own["botId"]) is None


def test_a_bot_says_what_is_missing_first(service, user):
    """Section 4: no_election, no_secret; a removed bot is not listed."""
    token, bot = user.mint_desk_token(), Bot(user)
    assert record(service, token, bot.id)["state"] == "no_election"
    bot.elect("AAA/BBB", "long")
    assert record(service, token, bot.id)["state"] == "no_secret"
    bot.generate()
    assert record(service, token, bot.id)["state"] == "accepts_signals"
    bot.remove()
    assert record(service, token, bot.id) is None


def test_a_bot_says_how_often_it_is_expected(service, user):
    """Sections 1 and 4: every so often, or on each trading day; not silent before its time."""
    token, bot = user.mint_desk_token(), Bot(user)
    found = record(service, token, bot.id)
    assert (found["expected"], found["silentSince"], found["maxAge"]) == (None, None, None)
    bot.expect("every", every="2", unit="hours", max_age=60)
    found = record(service, token, bot.id)
    assert found["expected"] == {"every": 7200, "tradingDays": False, "grace": 300}
    assert (found["silentSince"], found["maxAge"]) == (None, 60)
    bot.expect("trading_days")
    found = record(service, token, bot.id)
    assert found["expected"] == {"every": None, "tradingDays": True, "grace": 300}
    events = service.events(botId=bot.id, kind="automation.changed")
    assert [event["data"]["expected"] for event in events][-1] == found["expected"]
    bot.remove()


@pytest.mark.parametrize(
    "changes",
    [
        {"every": "14", "unit": "minutes"},
        {"every": "32", "unit": "days"},
        {"grace": "1441"},
        {"maxAge": "86401"},
    ],
)
def test_an_expectation_out_of_its_bounds_is_refused(service, user, bot, changes):
    """Sections 1 and 4: 15 minutes to 31 days, a grace and a maximum age of at most a day."""
    form = {"expected": "every", "every": "2", "unit": "hours", "grace": "5", "maxAge": ""}
    assert user.post(f"{bot.page}/alarm", {**form, **changes}).status_code == 422
    found = record(service, user.mint_desk_token(), bot.id)
    assert (found["expected"], found["maxAge"]) == (None, None)


def test_every_bot_is_listed_once_in_the_order_of_its_id(service, user):
    """Section 4: limit 1 to 1000, after; next leads on."""
    token, bots = user.mint_desk_token(), [Bot(user) for _ in range(2)]
    whole = [bot["botId"] for bot in service.get(BOTS, token, limit=1000).json()["bots"]]
    assert whole == sorted(whole)
    assert {bot.id for bot in bots} < set(whole)
    found, query = [], {"limit": 1}
    while True:
        page = service.get(BOTS, token, **query).json()
        assert len(page["bots"]) == 1
        found += [bot["botId"] for bot in page["bots"]]
        if page["next"] is None:
            break
        query["after"] = page["next"]
    assert found == whole
    for bot in bots:
        bot.remove()


def test_it_is_for_a_desk_token(service):
    assert_refused(service.get(BOTS, service.platform), 403, "not_allowed")
    assert_refused(service.get(BOTS), 401, "credentials_missing")
    answer = service.get(BOTS, service.desk_token, after="x")
    assert_refused(answer, 422, "invalid")
    assert faults(answer) == {"after"}
