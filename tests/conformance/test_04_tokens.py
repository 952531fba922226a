"""Section 4, /api/v1/tokens: sessions and tokens list, mint and revoke."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.conformance.browser import Browser
from tests.conformance.client import ME, TOKENS, assert_refused, faults

pytestmark = pytest.mark.once

UNKNOWN = "tok_" + "0" * 22


def ids(answer):
    assert answer.status_code == 200, answer.text
    return [token["id"] for token in answer.json()["tokens"]]


@pytest.fixture
def stranger(service):
    """Somebody at a browser who has not signed in."""
    with Browser(service) as browser:
        browser.get("/accounts/login/")  # which gives a csrf cookie
        yield browser


# --- Who is calling ------------------------------------------------------------------------------


def test_minting_asks_to_sign_in(service, stranger):
    """Section 4: otherwise 403 sign_in_required, whichever token calls."""
    for token in (None, service.platform, service.desk_token):
        answer = service.send("POST", TOKENS, {"scope": "desk"}, token)
        assert_refused(answer, 403, "sign_in_required")
    assert_refused(stranger.api("POST", TOKENS, {"scope": "desk"}), 403, "sign_in_required")


def test_a_session_does_not_count_where_authorization_is_present(service, user):
    headers = {"Authorization": f"Bearer {service.desk_token}"}
    listed = user.http.get(TOKENS, headers=headers).json()["tokens"]
    assert {token["userId"] for token in listed} == {service.desk}
    answer = user.api("POST", TOKENS, {"scope": "desk"}, **headers)
    assert_refused(answer, 403, "sign_in_required")
    wrong = user.http.get(TOKENS, headers={"Authorization": "Bearer x"})
    assert_refused(wrong, 401, "token_invalid")


@pytest.mark.parametrize("path", [ME, "/api/v1/desks", "/api/v1/events"])
def test_sessions_count_here_only(user, admin, path):
    for browser in (user, admin):
        assert_refused(browser.get(path), 401, "credentials_missing")


@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_a_session_that_changes_something_sends_its_csrf_token(user, method):
    """Section 4: CSRF by X-CSRFToken; section 5: csrf_failed."""
    for headers in ({"X-CSRFToken": ""}, {"X-CSRFToken": "x" * 32}):
        answer = user.api(method, TOKENS, {"scope": "desk"}, **headers)
        assert_refused(answer, 403, "csrf_failed")


# --- Listing -------------------------------------------------------------------------------------


def test_a_desk_token_lists_its_desks_tokens(service):
    """Section 4, GET."""
    listed = service.get(TOKENS, service.desk_token).json()
    assert set(listed) == {"tokens", "next"}
    assert {(token["scope"], token["userId"]) for token in listed["tokens"]} == {
        ("desk", service.desk)
    }


def test_a_platform_token_lists_itself(service, admin):
    """Section 4, GET; no scope is asked."""
    with admin.platform_token("write") as token:
        assert ids(service.get(TOKENS, token["token"])) == [token["id"]]


def test_who_signed_in_lists_their_own(service, user):
    """Section 4, GET."""
    user.mint_desk_token()
    listed = user.get(TOKENS).json()["tokens"]
    assert {token["userId"] for token in listed} == {service.own_desk}


def test_staff_list_all(service, admin):
    """Section 4, GET: pages of limit, by after; each token once."""
    found, query = [], "?limit=7"
    while True:
        page = admin.get(f"{TOKENS}{query}").json()
        found += page["tokens"]
        if page["next"] is None:
            break
        query = f"?limit=7&after={page['next']}"
    names = [token["id"] for token in found]
    assert len(set(names)) == len(names)
    assert {"desk", "platform"} == {token["scope"] for token in found}
    assert {token["userId"] for token in found} >= {service.desk, service.other_desk, None}


@pytest.mark.parametrize("query", ["x=1", "limit=1001", "limit=1&limit=1"])
def test_an_unknown_parameter_or_value_is_refused_never_ignored(service, user, query):
    """Section 4: this holds for every list."""
    for answer in (
        user.get(f"{TOKENS}?{query}"),
        service.get(f"{TOKENS}?{query}", service.desk_token),
    ):
        assert_refused(answer, 422, "invalid")


# --- Minting -------------------------------------------------------------------------------------


def test_who_signed_in_mints_their_own_desk_token(service, user):
    """Section 4, POST: 201, the record and its value, this once; the customer's section 5, 2."""
    answer = user.api("POST", TOKENS, {"scope": "desk"})
    assert answer.status_code == 201
    assert answer.json()["token"].startswith("svc_desk_")
    assert service.get(ME, answer.json()["token"]).json()["userId"] == service.own_desk
    named = user.api("POST", TOKENS, {"scope": "desk", "name": "Mine"})
    assert named.json()["name"] == "Mine"


def test_staff_mint_platform_tokens(service, admin):
    """Section 4, POST: the customer's body."""
    wish = {"scope": "platform", "name": "Engine", "scopes": ["read"]}
    answer = admin.api("POST", TOKENS, wish)
    assert answer.status_code == 201
    token = answer.json()
    assert (token["scope"], token["name"], token["scopes"]) == ("platform", "Engine", ["read"])
    assert (token["userId"], token["expiresAt"]) == (None, None)
    assert service.get("/api/v1/desks", token["token"]).status_code == 200
    admin.api("DELETE", TOKENS, {"id": token["id"]})


def test_a_customer_does_not_mint_platform_tokens(user):
    """Section 4, POST: is for staff."""
    wish = {"scope": "platform", "name": "Engine", "scopes": ["read"]}
    assert_refused(user.api("POST", TOKENS, wish), 403, "not_allowed")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"scope": "admin"}, "scope"),
        ({"scopes": []}, "scopes"),
        ({"scopes": ["read", "admin"]}, "scopes"),
        ({"name": "x" * 81}, "name"),
        ({"name": "Engine\u202e"}, "name"),
        ({"name": "\u200b"}, "name"),
        ({"expiresAt": "2999-01-01T00:00:00"}, "expiresAt"),
        ({"expiresAt": "2020-01-01T00:00:00Z"}, "expiresAt"),
        ({"userId": "usr_x"}, "userId"),
    ],
)
def test_another_wish_is_invalid(admin, changes, field):
    """Sections 2, 4 and 7: what a platform token takes, and nothing else."""
    wish = {"scope": "platform", "name": "Engine", "scopes": ["read"], **changes}
    answer = admin.api("POST", TOKENS, wish)
    assert_refused(answer, 422, "invalid")
    assert faults(answer) == {field}


def test_a_name_of_80_characters_is_taken(admin):
    with admin.platform_token("read", name="é" * 80) as token:
        assert token["name"] == "é" * 80


def test_an_expiry_may_be_null_or_to_come(admin):
    """Section 4: "expiresAt"?; times are answered in UTC with milliseconds."""
    moment = (datetime.now(UTC) + timedelta(days=1)).replace(microsecond=0)
    with admin.platform_token("read", expiresAt=None) as token:
        assert token["expiresAt"] is None
    with admin.platform_token("read", expiresAt=moment.isoformat()) as token:
        assert token["expiresAt"] == moment.strftime("%Y-%m-%dT%H:%M:%S.000Z")


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"scope":"desk","scope":"desk"}'])
def test_the_body_is_one_json_object(user, body):
    """Section 5: malformed."""
    assert_refused(user.api("POST", TOKENS, body), 400, "malformed")


# --- Revoking ------------------------------------------------------------------------------------


def test_a_token_revokes_itself(service, admin):
    """Section 4, DELETE: without an id, the token that calls; 401 afterwards."""
    with admin.platform_token("read") as token:
        answer = service.send("DELETE", TOKENS, token=token["token"])
        assert answer.status_code == 200
        assert (answer.json()["id"], "token" in answer.json()) == (token["id"], False)
        assert answer.json()["revokedAt"].endswith("Z")
        again = service.send("DELETE", TOKENS, token=token["token"])
        assert_refused(again, 401, "token_invalid")


@pytest.mark.parametrize("where", ["query", "body", "both"])
def test_a_token_is_named_in_the_query_or_the_body(service, admin, where):
    """Section 4, DELETE: ?id=tok_…, or body {"id"}; revoked again, the same record."""
    with admin.platform_token("read") as token:
        path = f"{TOKENS}?id={token['id']}" if where != "body" else TOKENS
        body = {"id": token["id"]} if where != "query" else None
        first = admin.api("DELETE", path, body)
        assert (first.status_code, first.json()["id"]) == (200, token["id"])
        assert admin.api("DELETE", path, body).json() == first.json()
        assert_refused(service.get("/api/v1/desks", token["token"]), 401, "token_invalid")


def test_two_different_ids_contradict_each_other(admin):
    """Section 4, DELETE: both and different is invalid."""
    with admin.platform_token("read") as one, admin.platform_token("read") as other:
        answer = admin.api("DELETE", f"{TOKENS}?id={one['id']}", {"id": other["id"]})
    assert_refused(answer, 422, "invalid")


def test_a_session_says_which_token(user, admin):
    """Section 4, DELETE: only a Bearer may leave it out."""
    for browser in (user, admin):
        for answer in (browser.api("DELETE", TOKENS), browser.api("DELETE", TOKENS, {})):
            assert_refused(answer, 422, "invalid")
            assert faults(answer) == {"id"}


def test_a_body_without_an_id_revokes_nothing(service, admin):
    """Section 4, DELETE: a client that lost the id does not revoke its own token."""
    with admin.platform_token("read") as token:
        for body in ({}, {"id": None}, {"id": ""}):
            answer = service.send("DELETE", TOKENS, body, token["token"])
            assert_refused(answer, 422, "invalid")
            assert faults(answer) == {"id"}
        both = service.send("DELETE", f"{TOKENS}?id={token['id']}", {}, token["token"])
        assert_refused(both, 422, "invalid")
        assert service.get("/api/v1/desks", token["token"]).status_code == 200


def test_a_desk_token_revokes_its_own_desks_and_no_other(service, user):
    """Section 4, DELETE: what is not yours to see is not found, as what there is not."""
    token = user.mint_desk_token()
    others = ids(service.get(TOKENS, service.other_desk_token))[0]
    platforms = ids(service.get(TOKENS, service.platform))[0]
    for foreign in (others, platforms, UNKNOWN, "x"):
        answer = service.send("DELETE", f"{TOKENS}?id={foreign}", token=token)
        assert_refused(answer, 404, "not_found")
    own = ids(service.get(TOKENS, token))[-1]
    assert service.send("DELETE", f"{TOKENS}?id={own}", token=token).status_code == 200
    assert_refused(service.get(ME, token), 401, "token_invalid")


def test_a_platform_token_revokes_only_itself(service, admin):
    """Section 4, DELETE."""
    others = ids(service.get(TOKENS, service.platform))[0]
    desks = ids(service.get(TOKENS, service.desk_token))[0]
    with admin.platform_token("read", "write") as token:
        for foreign in (others, desks):
            answer = service.send("DELETE", TOKENS, {"id": foreign}, token["token"])
            assert_refused(answer, 404, "not_found")


def test_who_signed_in_revokes_their_own_and_no_other(service, user):
    """Section 4, DELETE."""
    token = user.mint_desk_token()
    foreign = ids(service.get(TOKENS, service.desk_token))[0]
    assert_refused(user.api("DELETE", TOKENS, {"id": foreign}), 404, "not_found")
    own = ids(service.get(TOKENS, token))[-1]
    assert user.api("DELETE", TOKENS, {"id": own}).status_code == 200
    assert_refused(service.get(ME, token), 401, "token_invalid")


def test_staff_revoke_any(service, user, admin):
    """Section 4, DELETE: it holds from the next request on."""
    token = user.mint_desk_token()
    own = ids(service.get(TOKENS, token))[-1]
    assert admin.api("DELETE", TOKENS, {"id": own}).status_code == 200
    assert_refused(service.get(ME, token), 401, "token_invalid")
    assert_refused(admin.api("DELETE", TOKENS, {"id": UNKNOWN}), 404, "not_found")
