"""Section 4, /api/v1/subscriptions: webhook subscriptions. Nothing is delivered in this run."""

import secrets

import pytest

from tests.conformance.client import EVENTS, SUBSCRIPTIONS, assert_refused, faults
from tests.conformance.credentials import webhook_secrets_in

RECORD = {
    *("id", "url", "kinds", "userId", "state", "reason", "cursor", "lag", "failures"),
    *("failingSince", "nextAttemptAt", "testRequestedAt", "lastDeliveredAt", "lastStatus"),
    *("secrets", "createdAt"),
}
HOST = "hooks.conformance.invalid"  # a name that never resolves (RFC 2606)
NOBODYS = f"{SUBSCRIPTIONS}/sub_{'0' * 22}"


@pytest.fixture
def webhook(service, user):
    """A subscription of the seeded user, and the path of its URL, which is a secret."""
    path = secrets.token_urlsafe(24)
    service.witness.known.add(path)
    answer = user.api("POST", SUBSCRIPTIONS, {"url": f"https://{HOST}/{path}"})
    assert answer.status_code == 201, answer.text
    yield answer.json()
    user.api("DELETE", f"{SUBSCRIPTIONS}/{answer.json()['id']}")


def of(webhook, act=""):
    return f"{SUBSCRIPTIONS}/{webhook['id']}{act}"


def kinds_of(service, webhook):
    """The kinds of the subscription's events, in order; none of them names its URL or host."""
    events = [
        event
        for event in service.events(userId=webhook["userId"], limit=1000)
        if event["data"].get("id") == webhook["id"]
    ]
    assert HOST not in str(events)
    return [event["kind"].partition(".")[2] for event in events]


def test_a_new_one_shows_its_secret_this_once_and_its_url_never(service, user, webhook):
    """Sections 2 and 4."""
    assert set(webhook) == RECORD | {"secret"}
    assert webhook_secrets_in(webhook["secret"]) == {webhook["secret"]}
    assert (webhook["state"], webhook["kinds"], webhook["lag"]) == ("unverified", None, 0)
    assert webhook["testRequestedAt"]
    token = user.mint_desk_token()
    read = service.get(of(webhook), token).json()
    assert set(read) == RECORD
    assert HOST in read["url"]
    assert read in service.get(SUBSCRIPTIONS, token, limit=1000).json()["subscriptions"]


def test_tokens_list_and_change_nothing(service, user, webhook):
    """Section 4: a token gets sign_in_required for every change."""
    for token in (user.mint_desk_token(), service.platform):
        for method, path in (
            ("POST", SUBSCRIPTIONS),
            ("PATCH", of(webhook)),
            ("DELETE", of(webhook)),
            ("POST", of(webhook, "/secret")),
            ("POST", of(webhook, "/test")),
            ("POST", of(webhook, "/rewind")),
        ):
            assert_refused(service.send(method, path, {}, token=token), 403, "sign_in_required")
    assert_refused(service.get(of(webhook), service.platform), 404, "not_found")
    assert_refused(service.get(of(webhook), service.other_desk_token), 404, "not_found")
    assert_refused(service.get(SUBSCRIPTIONS), 401, "credentials_missing")


def test_it_is_changed_paused_resumed_moved_and_removed(service, user, webhook):
    """Section 4: each change is an event that names the host."""
    changed = user.api("PATCH", of(webhook), {"kinds": ["signal.filled"]}).json()
    assert changed["kinds"] == ["signal.filled"]
    assert user.api("PATCH", of(webhook), {"paused": True}).json()["state"] == "paused"
    assert user.api("PATCH", of(webhook), {"paused": False}).json()["state"] == "unverified"
    tail = service.tail()
    moved = user.api("POST", of(webhook, "/rewind"), {"after": tail}).json()
    assert (moved["cursor"], moved["lag"]) == (tail, 0)
    replaced = user.api("POST", of(webhook, "/secret"), {"overlap": 60})
    assert (replaced.status_code, len(replaced.json()["secrets"])) == (201, 2)
    assert user.api("POST", of(webhook, "/test"), {}).status_code == 202
    assert user.api("DELETE", of(webhook)).status_code == 204
    assert kinds_of(service, webhook) == [
        *("created", "changed", "paused", "resumed", "rewound", "secret_replaced", "removed"),
    ]
    assert_refused(user.get(of(webhook)), 404, "not_found")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (f"http://{HOST}/", {"url"}),
        (f"https://{HOST}:444/", {"url"}),
        (f"https://user:word@{HOST}/", {"url"}),
        (f"https://{HOST}/#fragment", {"url"}),
        ("https://169.254.169.254/", {"url"}),
    ],
)
def test_a_url_that_is_not_allowed_is_refused(user, url, expected):
    """Section 4."""
    answer = user.api("POST", SUBSCRIPTIONS, {"url": url})
    assert_refused(answer, 422, "invalid")
    assert faults(answer) == expected


def test_unknown_ones_are_not_found(service, user):
    """Section 4."""
    assert_refused(user.get(NOBODYS), 404, "not_found")
    assert_refused(user.api("PATCH", NOBODYS, {"paused": True}), 404, "not_found")
    assert_refused(user.api("DELETE", NOBODYS), 404, "not_found")


def test_a_secret_of_a_webhook_is_refused_as_any_other(service, webhook):
    """Section 6."""
    body = {**service.fanout(), "note": f"see {webhook['secret']}"}
    assert_refused(service.push(body, service.platform), 422, "exchange_secret")
    answer = service.get(EVENTS, service.platform, limit=1000)
    assert webhook["secret"] not in answer.text
