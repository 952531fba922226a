"""Section 7: how often, on a service of our own whose limits are small (three in each window)."""

import pytest

from tests.conformance.browser import Bot, Browser
from tests.conformance.client import (
    EVENTS,
    HOOK,
    ME,
    SUBSCRIPTIONS,
    TOKENS,
    assert_refused,
    deploy_path,
)
from tests.conformance.conftest import FEW
from tests.conformance.credentials import credential

pytestmark = pytest.mark.once


def assert_limited(answer, longest=60):
    """429 with a Retry-After that says when there is room again."""
    assert_refused(answer, 429, "rate_limited")
    assert 1 <= int(answer.headers["Retry-After"]) <= longest


def let_through(answers, status=200, count=FEW):
    answers = list(answers)
    assert [answer.status_code for answer in answers] == [status] * count


@pytest.fixture(scope="module")
def staff(service_of_limited_desks):
    """The staff, signed in at the other service with small limits."""
    with Browser(service_of_limited_desks) as browser:
        browser.sign_in(service_of_limited_desks.seed["admin"])
        yield browser


def test_the_signals_of_an_automation(limited_service):
    """LIMIT_AUTOMATION."""
    secret = limited_service.bot["secret"]

    def push():
        return limited_service.push(limited_service.tradingview(), secret=secret)

    let_through(push() for _ in range(FEW))
    assert_limited(push())
    of_the_bot = {"botId": limited_service.bot["botId"], "kind": "signal.refused"}
    assert limited_service.events(**of_the_bot) == [], "section 4: it is never recorded"


def test_the_signals_of_a_platform_token_and_those_of_a_shared_secret(limited_service):
    """LIMIT_PLATFORM: each has a window of its own; what the platform reads is not counted.

    Section 5, order: scope, rate, media type.
    """
    for credentials in ({"token": limited_service.platform}, {"secret": limited_service.floor}):

        def push(credentials=credentials):
            return limited_service.push(limited_service.fanout(), **credentials)

        let_through(push() for _ in range(FEW))
        assert_limited(push())
    path, headers = deploy_path(limited_service.desk), {"Content-Type": "text/plain"}
    before = limited_service.send("POST", path, b"{", limited_service.reader, headers=headers)
    assert_refused(before, 403, "scope_missing")
    after = limited_service.send("POST", path, b"{", limited_service.platform, headers=headers)
    assert_limited(after)
    let_through(limited_service.get("/api/v1/desks", limited_service.platform) for _ in range(FEW))
    assert limited_service.get("/api/v1/desks", limited_service.platform).status_code == 200


def test_the_reads_of_a_desk_token(service_of_limited_desks):
    """LIMIT_READS: another desk has its own, and revoking is limited by nothing."""
    service = service_of_limited_desks
    token, others = (service.seed["desks"][number]["deskToken"] for number in (2, 3))
    let_through(service.get(ME, token) for _ in range(FEW))
    assert_limited(service.get(ME, token))
    assert service.get(ME, others).status_code == 200
    assert service.send("DELETE", TOKENS, b"", token).status_code == 200
    assert service.get(ME, token).status_code == 401


def test_the_large_reads_of_a_desk_token(service_of_limited_desks):
    """LIMIT_LARGE_READS: a page of up to 100 items is none, and the platform has no such limit."""
    service, large = service_of_limited_desks, f"{EVENTS}?limit=101"
    assert service.get(large, service.desk_token).status_code == 200
    assert_limited(service.get(large, service.desk_token))
    assert service.get(f"{EVENTS}?limit=100", service.desk_token).status_code == 200
    let_through(service.get(large, service.reader) for _ in range(FEW))


def test_failed_credentials_of_an_address(limited_service):
    """LIMIT_FAILURES: beyond it an invalid one gets 429; a valid one is never refused for it."""
    unknown = credential("svc_desk_")
    for _ in range(FEW):
        limited_service.get(ME, unknown)
    assert_limited(limited_service.get(ME, unknown))
    assert_limited(limited_service.get(ME, "x"))
    assert_limited(limited_service.push(limited_service.fanout(), secret=credential("svc_sign_")))
    assert limited_service.get("/api/v1/desks", limited_service.reader).status_code == 200
    assert limited_service.http.get(HOOK).status_code == 200


def test_changes_of_a_user(limited_service):
    """LIMIT_CHANGES: pages that change a desk, and refused attempts to make something."""
    with Browser(limited_service) as user:
        user.sign_in(limited_service.seed["user"])
        Bot(user, "Bot")
        for path, wish in ((SUBSCRIPTIONS, {"url": "nonsense"}), (TOKENS, {"scope": "nonsense"})):
            assert_refused(user.api("POST", path, wish), 422, "invalid")
        answer = user.post("/bots", {"name": "One more"})
        assert answer.status_code == 429
        assert 1 <= int(answer.headers["Retry-After"]) <= 60
        assert "One more" not in user.get("/bots").text
        preferences = {"time_zone": "Etc/UTC", "theme": "dark"}
        assert user.post("/accounts/preferences/", preferences).status_code == 429


def test_minting_of_a_user(staff):
    """LIMIT_MINTING: per user. A refused attempt does not count against it."""
    wish = {"scope": "platform", "name": "Engine", "scopes": ["read"]}
    for _ in range(FEW + 1):
        answer = staff.api("POST", TOKENS, {**wish, "scopes": []})
        assert_refused(answer, 422, "invalid")
        assert answer.headers["RateLimit"].startswith(f'"minting";r={FEW};')
    for left in reversed(range(FEW)):
        answer = staff.api("POST", TOKENS, wish)
        assert answer.status_code == 201
        assert answer.headers["RateLimit"].startswith(f'"minting";r={left};')
    assert_limited(staff.api("POST", TOKENS, wish), 3600)


def test_webhooks_and_moves_of_their_cursors(staff):
    """LIMIT_DESTINATIONS, LIMIT_REWINDS: removing a webhook counts against no limit."""
    url = "https://hooks.conformance.invalid/limits"
    for _ in range(FEW + 1):
        assert_refused(staff.api("POST", SUBSCRIPTIONS, {"url": "nonsense"}), 422, "invalid")
    made = staff.api("POST", SUBSCRIPTIONS, {"url": url})
    path, after = f"{SUBSCRIPTIONS}/{made.json()['id']}", {"after": made.json()["cursor"]}
    let_through((staff.api("POST", f"{path}/secret", {}) for _ in range(FEW - 1)), 201, FEW - 1)
    assert_limited(staff.api("POST", f"{path}/secret", {}), 3600)
    assert_limited(staff.api("POST", SUBSCRIPTIONS, {"url": url}), 3600)
    let_through(staff.api("POST", f"{path}/rewind", after) for _ in range(FEW))
    assert_limited(staff.api("POST", f"{path}/rewind", after), 3600)
    assert staff.api("DELETE", path).status_code == 204


def test_what_a_desk_causes_in_the_log(service_of_limited_desks):
    """LIMIT_DESK: its bots and its owner's changes together; not what others deploy to it."""
    service = service_of_limited_desks
    secret = service.bot["secret"]
    with Browser(service) as owner:
        owner.sign_in(service.seed["user"])
        Bot(owner)
        for number in range(1, FEW):
            answer = service.push(service.tradingview(), secret=secret)
            assert (answer.status_code, answer.headers["RateLimit-Policy"]) == (
                200,
                '"desk";q=3;w=60',
            )
            assert answer.headers["RateLimit"].startswith(f'"desk";r={FEW - 1 - number};')
        assert_limited(service.push(service.tradingview(), secret=secret))
        assert service.deploy(service.own_desk, service.one_desk()).status_code == 200
        withdrawn = owner.post("/desk/withdraw", {}, seen_at="/desk/disconnect")
        assert withdrawn.status_code == 302


def test_the_pages_that_a_user_looks_at(staff):
    """LIMIT_PAGES. The read of the API by which the sign-in was seen may count as one of them."""
    let_through((staff.get("/control/") for _ in range(FEW - 1)), count=FEW - 1)
    answer = next(answer for _ in range(2) if not (answer := staff.get("/control/")).is_success)
    assert answer.status_code == 429
    assert 1 <= int(answer.headers["Retry-After"]) <= 60
    assert staff.get("/accounts/2fa/").status_code == 429
    assert staff.get("/accounts/reauthenticate/").status_code in (200, 302)


def test_the_messages_that_an_address_tries(service_of_limited_desks):
    """LIMIT_PAGES, at the home page."""
    with Browser(service_of_limited_desks) as stranger:
        message = {"pair": "BTC/USDT", "direction": "long", "message": "{}"}
        let_through(stranger.post("/", message) for _ in range(FEW))
        assert stranger.post("/", message).status_code == 429
        assert stranger.get("/").status_code == 200
