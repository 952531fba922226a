"""Section 4, /api/v1/subscriptions: webhook subscriptions. Nothing is delivered here."""

import secrets

import pytest

from tests.conformance.browser import Bot, Browser
from tests.conformance.client import EVENTS, SUBSCRIPTIONS, assert_refused, faults
from tests.conformance.credentials import credential, webhook_secrets_in
from tests.conformance.test_04_events import DATA

RECORD = {
    *(
        "id",
        "name",
        "url",
        "kinds",
        "botId",
        "userId",
        "state",
        "reason",
        "cursor",
        "lag",
        "failures",
    ),
    *("failingSince", "nextAttemptAt", "testRequestedAt", "lastTest"),
    *("lastDeliveredAt", "lastStatus"),
    *("secrets", "createdAt", "resends"),
}
HOST = "hooks.conformance.invalid"  # a name that never resolves (RFC 2606)
NOBODYS = f"{SUBSCRIPTIONS}/sub_{'0' * 22}"


@pytest.fixture(scope="module")
def user(service):
    """The seeded user, who has just signed in: every change asks for that."""
    with Browser(service) as browser:
        browser.sign_in(service.seed["user"])
        yield browser


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
    assert all(set(event["data"]) in DATA[event["kind"]] for event in events)
    return [event["kind"].partition(".")[2] for event in events]


def test_a_new_one_shows_its_secret_this_once_and_its_url_never(service, user, webhook):
    assert set(webhook) == RECORD | {"secret"}
    assert webhook_secrets_in(webhook["secret"]) == {webhook["secret"]}
    assert (webhook["state"], webhook["kinds"], webhook["lag"]) == ("unverified", None, 0)
    assert (webhook["testRequestedAt"], webhook["lastTest"]) == (webhook["createdAt"], None)
    token = user.mint_desk_token()
    read = service.get(of(webhook), token).json()
    assert set(read) == RECORD
    assert read["url"] == f"{HOST}/…"
    assert read in service.get(SUBSCRIPTIONS, token, limit=1000).json()["subscriptions"]


def test_a_name_is_its_owners_and_is_in_its_events(service, user):
    """Section 4. The rules of names are those of section 7."""
    asked = {"name": "Order book", "url": f"https://{HOST}/{secrets.token_urlsafe(24)}"}
    service.witness.known.add(asked["url"].rpartition("/")[2])
    webhook = user.api("POST", SUBSCRIPTIONS, asked).json()
    assert webhook["name"] == "Order book"
    for name in ("Fills", None, None):
        assert user.api("PATCH", of(webhook), {"name": name}).json()["name"] == name
    for wrong in ("", "x" * 81, "two\nlines", "\u200b"):
        for method, path in (("POST", SUBSCRIPTIONS), ("PATCH", of(webhook))):
            answer = user.api(method, path, asked | {"name": wrong})
            assert_refused(answer, 422, "invalid")
            assert faults(answer) == {"name"}
    user.api("DELETE", of(webhook))
    events = service.events(userId=webhook["userId"], kind="subscription.changed", limit=1000)
    changed = [one["data"] for one in events if one["data"]["id"] == webhook["id"]]
    assert [(one["name"], one["changed"]) for one in changed] == [
        ("Fills", ["name"]),
        (None, ["name"]),
    ]


def test_groups_of_kinds_and_one_bot_narrow_what_is_delivered(service, user, webhook):
    """Section 4. An unknown bot, or another desk's, is refused."""
    bot = service.seed["automation"]["botId"]
    chosen = {"kinds": ["signal.*", "signal.filled", "card.retired"], "botId": bot}
    changed = user.api("PATCH", of(webhook), chosen).json()
    assert (changed["kinds"], changed["botId"]) == (["signal.*", "card.retired"], bot)
    token = user.mint_desk_token()
    (event,) = service.get(
        EVENTS, token, kind="subscription.changed", limit=1, order="desc"
    ).json()["events"]
    assert event["data"]["changed"] == ["kinds", "bot"]
    assert (event["data"]["kinds"], event["data"]["bot"]) == (changed["kinds"], bot)
    for wrong, field in (({"kinds": ["signal"]}, "kinds"), ({"botId": f"bot_{'0' * 22}"}, "botId")):
        answer = user.api("PATCH", of(webhook), wrong)
        assert_refused(answer, 422, "invalid")
        assert faults(answer) == {field}
    free = user.api("PATCH", of(webhook), {"kinds": None, "botId": None}).json()
    assert (free["kinds"], free["botId"]) == (None, None)


def test_one_whose_bot_is_removed_stays_and_gets_nothing_more(user, webhook):
    """Section 4. A bot that is removed already is refused."""
    bot, gone = Bot(user), Bot(user)
    gone.remove()
    assert user.api("PATCH", of(webhook), {"botId": bot.id}).json()["botId"] == bot.id
    bot.remove()
    before = user.get(of(webhook)).json()
    Bot(user).remove()
    after = user.get(of(webhook)).json()
    assert (after["botId"], after["state"], after["lag"]) == (bot.id, "unverified", before["lag"])
    answer = user.api("PATCH", of(webhook), {"botId": gone.id})
    assert_refused(answer, 422, "invalid")
    assert faults(answer) == {"botId"}


def test_a_request_that_is_repeated_with_its_key_makes_one(service, user):
    """Section 4: the same answer without the secret, and 409 if it differs from what is there."""
    path = secrets.token_urlsafe(24)
    service.witness.known.add(path)
    asked, key = {"url": f"https://{HOST}/{path}"}, {"Idempotency-Key": f"made-{path[:8]}"}
    first = user.api("POST", SUBSCRIPTIONS, asked, **key)
    webhook = first.json()
    assert (first.status_code, first.headers["Location"]) == (201, of(webhook))
    again = user.api("POST", SUBSCRIPTIONS, asked, **key)
    assert (again.status_code, again.headers["Location"]) == (201, of(webhook))
    assert (again.json()["id"], again.json()["secret"]) == (webhook["id"], None)
    for other in ({"url": f"https://{HOST}/other"}, asked | {"name": "B"}):
        answer = user.api("POST", SUBSCRIPTIONS, other, **key)
        assert_refused(answer, 409, "idempotency_key_reused")
    for wrong in ("", "a b", "x" * 129):
        answer = user.api("POST", SUBSCRIPTIONS, asked, **{"Idempotency-Key": wrong})
        assert_refused(answer, 422, "invalid")
        assert faults(answer) == {"Idempotency-Key"}
    user.api("DELETE", of(webhook))
    new = user.api("POST", SUBSCRIPTIONS, asked, **key).json()
    assert new["id"] != webhook["id"]
    assert new["secret"]
    user.api("DELETE", of(new))


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
            ("POST", of(webhook, "/skip")),
            ("POST", of(webhook, "/resend")),
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
    assert moved["lag"] == 0
    assert service.events(after=moved["cursor"]) == service.events(after=tail)
    replaced = user.api("POST", of(webhook, "/secret"), {"overlap": 60})
    assert (replaced.status_code, len(replaced.json()["secrets"])) == (201, 2)
    assert user.api("POST", of(webhook, "/test"), {}).status_code == 202
    assert user.api("DELETE", of(webhook)).status_code == 204
    assert kinds_of(service, webhook) == [
        *("created", "changed", "paused", "resumed", "rewound", "secret_replaced", "removed"),
    ]
    assert_refused(user.get(of(webhook)), 404, "not_found")


def test_a_single_event_is_sent_again_only_to_a_verified_url(service, user, webhook):
    """Section 4: of the owner's view; nothing is delivered in this run."""
    own = service.events(userId=webhook["userId"], kind="subscription.created")[-1]
    others = service.events(userId=service.other_desk, kind="desk.created")[0]
    path = of(webhook, "/resend")
    assert_refused(user.api("POST", path, {"event": own["id"]}), 422, "invalid")
    assert_refused(user.api("POST", path, {"event": others["id"]}), 404, "not_found")
    wrong = user.api("POST", path, {"event": "12"})
    assert_refused(wrong, 422, "invalid")
    assert faults(wrong) == {"event"}
    assert user.get(of(webhook)).json()["resends"] == []


def test_what_waits_is_skipped(user, webhook):
    """Section 4: the next, or all; a move of the cursor."""
    for which in ("next", "next", "all"):
        before = user.get(of(webhook)).json()["lag"]
        record = user.api("POST", of(webhook, "/skip"), {"events": which}).json()
        assert record["lag"] <= max(before - 1, 0)
    wrong = user.api("POST", of(webhook, "/skip"), {})
    assert_refused(wrong, 422, "invalid")


def test_events_are_sent_again_from_a_time(service, user, webhook):
    """Section 4: the first event at that time or later is the next one; never a time to come."""
    made = service.events(userId=webhook["userId"], kind="subscription.created")[-1]
    record = user.api("POST", of(webhook, "/rewind"), {"since": made["at"]}).json()
    next_one = service.get(EVENTS, service.platform, after=record["cursor"], limit=1).json()
    assert next_one["events"][0]["at"] >= made["at"]
    assert next_one["events"][0]["position"] <= made["position"]
    later = user.api("POST", of(webhook, "/rewind"), {"since": "2999-01-01T00:00:00Z"})
    assert_refused(later, 422, "invalid")
    assert faults(later) == {"since"}


def test_attempts_are_listed_for_tokens_too(service, user, webhook):
    """Section 4: nothing was sent in this run."""
    nothing = {"attempts": [], "next": None}
    assert service.get(of(webhook, "/attempts"), user.mint_desk_token()).json() == nothing
    assert user.get(of(webhook, "/attempts")).json() == nothing
    foreign = service.get(of(webhook, "/attempts"), service.other_desk_token)
    assert_refused(foreign, 404, "not_found")


@pytest.mark.once
@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (f"http://{HOST}/", {"url"}),
        (f"https://{HOST}:444/", {"url"}),
        (f"https://user:word@{HOST}/", {"url"}),
        (f"https://{HOST}/#fragment", {"url"}),
        (f"https://{HOST}/{'x' * 2048}", {"url"}),
        ("https://169.254.169.254/", {"url"}),
    ],
)
def test_a_url_that_is_not_allowed_is_refused(user, url, expected):
    answer = user.api("POST", SUBSCRIPTIONS, {"url": url})
    assert_refused(answer, 422, "invalid")
    assert faults(answer) == expected


def test_unknown_ones_are_not_found(service, user):
    assert_refused(user.get(NOBODYS), 404, "not_found")
    assert_refused(user.api("PATCH", NOBODYS, {"paused": True}), 404, "not_found")
    assert_refused(user.api("DELETE", NOBODYS), 404, "not_found")


@pytest.mark.once
def test_a_secret_of_a_webhook_is_refused_as_any_other(service, webhook):
    body = {**service.fanout(), "note": f"see {webhook['secret']}"}
    assert_refused(service.push(body, service.platform), 422, "exchange_secret")
    answer = service.get(EVENTS, service.platform, limit=1000)
    assert webhook["secret"] not in answer.text


def test_a_desk_has_at_most_five(user, webhook):
    """Section 4: the sixth is invalid."""
    made = []
    while (answer := user.api("POST", SUBSCRIPTIONS, {"url": f"https://{HOST}/"})).is_success:
        made.append(answer.json()["id"])
        assert len(made) < 5
    listed = user.get(SUBSCRIPTIONS).json()["subscriptions"]
    for each in made:
        user.api("DELETE", f"{SUBSCRIPTIONS}/{each}")
    assert_refused(answer, 422, "invalid")
    assert len(listed) == 5


@pytest.mark.once
@pytest.mark.parametrize("prefix", ["svc_desk_", "svc_sign_"])
def test_a_secret_of_this_service_is_no_part_of_a_url(user, prefix):
    """Section 6: the address of a webhook is searched for this service's credentials."""
    url = f"https://{HOST}/?key={credential(prefix)}"
    assert_refused(user.api("POST", SUBSCRIPTIONS, {"url": url}), 422, "exchange_secret")
