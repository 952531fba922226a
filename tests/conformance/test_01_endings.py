"""Section 1: what ends with a card, with a user whom staff deactivate, and with an account.

Each test changes a service for good, so it has one of its own.
"""

import re

import pytest

from tests.conformance.browser import SIGN_IN, Browser
from tests.conformance.client import (
    CATALOG,
    DESKS,
    HOOK,
    ME,
    SUBSCRIPTIONS,
    Body,
    assert_refused,
)

pytestmark = pytest.mark.once

CARDS, USERS = "/control/desks/card/", "/control/desks/user/"
RETIRES_FIELD = re.compile(r'name="retires" value="([^"]*)"')
CLOSE = "/accounts/close/"
EVENING: Body = {"name": "Evening", "pair": "EVE/USD", "direction": "short"}
NIGHT: Body = {"name": "Night", "pair": "NIGHT/USD", "direction": "long"}
ENDED = {
    "election.withdrawn",
    "secret.ended",
    "automation.removed",
    "desk.disconnected",
    "token.revoked",
    "desk.closed",
}


@pytest.fixture
def owner(service_to_end):
    with Browser(service_to_end) as browser:
        browser.sign_in(service_to_end.seed["user"])
        yield browser


@pytest.fixture
def staff(service_to_end):
    with Browser(service_to_end) as browser:
        browser.sign_in(service_to_end.seed["admin"])
        yield browser


def page_of(staff: Browser, listed: str) -> str:
    """The path below which the pages of the first row of a list are."""
    found = re.search(rf'href="({listed.partition("?")[0]}[^/"]+/)change/', staff.get(listed).text)
    assert found, listed
    return found.group(1)


def publish(staff: Browser, card: Body) -> None:
    """Publishes a card: the first form asks, the second one confirms."""
    page = f"{CARDS}publish/"
    retires = RETIRES_FIELD.search(staff.post(page, card).text)
    assert retires
    assert staff.post(page, {**card, "retires": retires.group(1)}).status_code == 302


def assert_has_nothing_left(service, token: str, since: str, signal: str) -> None:
    """The own desk answers nobody, and what it was filled with before stays."""
    user_id, platform = service.own_desk, service.platform
    assert_refused(service.get(ME, token), 401, "token_invalid")
    signed = service.push(service.tradingview(), secret=service.bot["secret"])
    assert_refused(signed, 401, "signature_invalid")
    assert_refused(service.get(f"{DESKS}/{user_id}", platform), 404, "not_found")
    refused = service.deploy(user_id, service.one_desk())
    assert assert_refused(refused, 422, "desk_not_ready")["reason"] == "deactivated"
    assert user_id not in [desk["userId"] for desk in service.desks()]
    assert user_id in [desk["userId"] for desk in service.desks(signal=signal)]
    changed = service.get(DESKS, platform, changedSince=since).json()
    assert changed["desks"] == [{"userId": user_id, "removed": True}]


def kinds(events: list[Body]) -> list[str]:
    return [event["kind"] for event in events if event["kind"] != "signal.refused"]


def test_a_retired_card_takes_every_consent_with_it(service_to_end, owner, staff):
    """Section 1, card and election. Section 4: what an engine, a desk and a reader see of it."""
    service, platform = service_to_end, service_to_end.platform
    before, since = service.tail(), service.get(DESKS, platform).json()["asOf"]
    assert service.desks(ready=1)
    assert staff.post(f"{page_of(staff, CARDS)}retire/", {}).status_code == 302
    assert service.get(CATALOG).json()["plug"]["publishedCard"] is None
    contract = service.get(HOOK).json()
    assert contract["publishedCard"] is None
    assert contract["fanout"]["body"]["pair"] == "<BASE>/<QUOTE>"
    assert service.desks(ready=1) == []
    assert service.get(ME, service.desk_token).json()["election"] is None
    assert_refused(service.push(service.fanout(), platform), 422, "no_card")
    refused = service.deploy(service.desk, service.one_desk())
    assert assert_refused(refused, 422, "desk_not_ready")["reason"] == "card_changed"
    changed = service.get(DESKS, platform, changedSince=since).json()
    assert (changed["desks"], changed["cardChanged"]) == ([], True)
    assert kinds(service.events(after=before)) == ["card.retired"], "and nothing for each desk"
    (retired,) = service.events(service.desk_token, after=before, kind="card.retired")
    assert (retired["userId"], set(retired["data"])) == (None, {"card", "cardId"})

    publish(staff, EVENING)
    assert service.get(CATALOG).json()["plug"]["publishedCard"] == EVENING
    sent = {name: EVENING[name] for name in ("pair", "direction")}
    unheard = service.push(service.fanout(**sent), platform).json()
    assert (unheard["outcome"], unheard["matched"], unheard["filled"]) == ("filled", 0, 0)
    assert owner.enrol().status_code == 302
    assert service.push(service.fanout(**sent), platform).json()["matched"] == 1

    middle = service.tail()
    publish(staff, NIGHT)
    assert kinds(service.events(after=middle)) == ["card.retired", "card.published"]
    assert service.get(CATALOG).json()["plug"]["publishedCard"] == NIGHT
    assert service.desks(ready=1) == []


def test_a_deactivated_user_has_nothing_left(service_to_end, owner, staff):
    """Section 1: when staff deactivate a user; reactivating restores the sign-in only."""
    service, platform, user_id = service_to_end, service_to_end.platform, service_to_end.own_desk
    fan_out = service.push(service.fanout(), platform).json()
    webhook = {"url": "https://hooks.conformance.invalid/ended"}
    assert owner.api("POST", SUBSCRIPTIONS, webhook).status_code == 201
    token, before = owner.mint_desk_token(), service.tail()
    since = service.get(DESKS, platform).json()["asOf"]
    page = page_of(staff, f"{USERS}?q={user_id}")
    assert staff.post(f"{page}deactivate/", {}).status_code == 302

    events = service.events(after=before)
    assert {event["userId"] for event in events} == {user_id}
    assert set(kinds(events)) == {*ENDED, "subscription.removed", "desk.deactivated"} - {
        "desk.closed"
    }
    reasons = {event["data"].get("reason") for event in events if "election" in event["kind"]}
    assert reasons == {"deactivated"}
    of_the_desk = [event for event in events if event["kind"].startswith("desk.")]
    assert all(set(event["data"]) == {"venue"} for event in of_the_desk)
    assert_has_nothing_left(service, token, since, fan_out["signal"]["id"])
    assert SIGN_IN in owner.get("/desk").headers["Location"]

    assert staff.post(f"{page}reactivate/", {}).status_code == 302
    desk = service.get(f"{DESKS}/{user_id}", platform).json()
    assert (desk["connected"], desk["ready"], desk["election"]) == (False, False, None)
    assert_refused(service.get(ME, token), 401, "token_invalid")
    signed = service.push(service.tradingview(), secret=service.bot["secret"])
    assert_refused(signed, 401, "signature_invalid")
    with Browser(service) as again:
        again.sign_in(service.seed["user"])
        assert again.get(SUBSCRIPTIONS).json()["subscriptions"] == []


def test_a_closed_account_ends_with_everything_but_the_log(service_to_end, owner, staff):
    """Section 1: when a user closes the account. Section 4, desks: removed."""
    service, user = service_to_end, service_to_end.seed["user"]
    fan_out = service.push(service.fanout(), service.platform).json()
    since = service.get(DESKS, service.platform).json()["asOf"]
    token, before = owner.mint_desk_token(), service.tail()
    asked = owner.get(CLOSE)
    assert service.own_desk in asked.text
    assert owner.post(CLOSE, {}).status_code == 422, "it asks first"
    assert service.tail() == before
    assert owner.post(CLOSE, {"understood": "on"}).status_code == 302
    assert SIGN_IN in owner.get("/desk").headers["Location"]
    events = service.events(after=before)
    assert {event["kind"] for event in events} == ENDED
    assert events[-1]["kind"] == "desk.closed"
    assert {event["userId"] for event in events} == {service.own_desk}
    withdrawn = [event for event in events if event["kind"] == "election.withdrawn"]
    assert {event["data"]["reason"] for event in withdrawn} == {"closed"}
    assert user["email"] not in str(events)
    assert "automation.created" in kinds(service.events(botId=service.bot["botId"]))
    assert_has_nothing_left(service, token, since, fan_out["signal"]["id"])
    page = page_of(staff, f"{USERS}?q={service.own_desk}")
    assert staff.post(f"{page}reactivate/", {}, seen_at=CARDS).status_code == 422
    with Browser(service) as visitor:
        visitor.post(SIGN_IN, {"login": user["email"], "password": user["password"]})
        assert SIGN_IN in visitor.get("/desk").headers["Location"]
        assert visitor.post("/accounts/signup/", {"email": user["email"]}).status_code == 302
