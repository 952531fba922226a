"""/api/v1/tokens: list, mint and revoke, by Bearer and by session (contract, section 4)."""

from datetime import timedelta

import pytest
import time_machine
from django.test import Client
from django.utils import timezone

from desks.models import Desk
from events.actors import SYSTEM
from events.models import Event, Head
from tests.client import JSON, ME, TOKENS, bearer, code, faults, get, signed_in
from tests.factories import UserFactory, a_desk, a_desk_token, a_platform_token, a_staff_user
from tokens import account_closing
from tokens.crypto import formats
from tokens.models import Token

pytestmark = pytest.mark.django_db

PLATFORM = {"scope": "platform", "name": "Engine", "scopes": ["read", "write"]}


@pytest.fixture
def desk() -> Desk:
    return a_desk()


@pytest.fixture
def owner(desk) -> Client:
    return signed_in(desk.user, "password")


@pytest.fixture
def stranger() -> Client:
    """A user with another desk."""
    return signed_in(a_desk().user, "password")


@pytest.fixture
def staff() -> Client:
    return signed_in(a_staff_user(), "password", "mfa")


def mint(browser: Client, body, **headers: str):
    return browser.post(TOKENS, body, JSON, headers=headers)


def revoke(browser: Client | None = None, token: str | None = None, query="", body=None):
    sent = {} if body is None else {"data": body, "content_type": JSON}
    presented = bearer(token) if token else {}
    return (browser or Client()).delete(TOKENS + query, headers=presented, **sent)


def ids(response) -> list[str]:
    return [token["id"] for token in response.json()["tokens"]]


def record_of(value: str) -> Token:
    return next(t for t in Token.objects.all() if t.hint == formats.hint(value))


# --- Listing ------------------------------------------------------------------------------------


def test_a_desk_token_lists_only_the_tokens_of_its_desk(desk):
    old, new = a_desk_token(desk), a_desk_token(desk)
    a_desk_token(a_desk())
    a_platform_token()
    response = get(TOKENS, new)
    assert ids(response) == [record_of(old).public_id, record_of(new).public_id]
    assert response.json()["next"] is None


def test_a_user_without_a_verified_address_lists_and_mints_nothing():
    user = signed_in(UserFactory.create())
    assert ids(user.get(TOKENS)) == []
    assert code(mint(user, {"scope": "desk"})) == "not_allowed"


@pytest.mark.once
def test_an_unknown_parameter_or_value_is_refused(desk):
    token = a_desk_token(desk)
    for query in (
        "?limit=1_0",
        "?limit=%2B1",
        "?limit=1.0",
        "?id=tok_1",
        "?format=json",
        "?format=xml",
    ):
        response = get(TOKENS + query, token)
        assert (response.status_code, code(response)) == (422, "invalid"), query
        assert faults(response), query


@pytest.mark.once
def test_a_refused_parameter_that_may_be_a_credential_is_not_repeated(desk):
    token = a_desk_token(desk)
    for query in (f"?{token}=1", f"?limit={token}", f"?after={token}", f"?id={token}"):
        response = get(TOKENS + query, token)
        assert code(response) == "invalid"
        assert token[9:40] not in response.text


# --- Minting ------------------------------------------------------------------------------------


def test_a_request_with_authorization_does_not_use_the_session(desk, owner, staff):
    token = a_desk_token(desk)
    assert code(mint(owner, {"scope": "desk"}, **bearer(token))) == "sign_in_required"
    assert code(mint(owner, {"scope": "desk"}, Authorization="Basic x")) == "token_invalid"
    assert code(owner.get(TOKENS, headers={"Authorization": ""})) == "token_invalid"
    assert ids(staff.get(TOKENS, headers=bearer(token))) == [record_of(token).public_id]


def test_a_deactivated_users_session_is_not_accepted(desk, owner):
    account_closing.deactivate(user=desk.user, actor=SYSTEM)
    assert code(mint(owner, {"scope": "desk"})) == "sign_in_required"
    assert code(owner.get(TOKENS)) == "credentials_missing"


@pytest.mark.once
def test_a_body_that_breaks_the_contract_is_invalid(desk, staff):
    owner = signed_in(desk.user)
    for body, field in (
        ({}, "scope"),
        ({"scope": "Desk"}, "scope"),
        ({"scope": None}, "scope"),
        ({"scope": ["desk"]}, "scope"),
        ({"scope": "desk", "name": ""}, "name"),
        ({"scope": "desk", "name": "  "}, "name"),
        ({"scope": "desk", "name": "n" * 81}, "name"),
        ({"scope": "desk", "name": "txt\u202egpj"}, "name"),
        ({"scope": "desk", "name": ["x"]}, "name"),
        ({"scope": "desk", "name": True}, "name"),
        ({"scope": "desk", "name": 7}, "name"),
        ({"scope": "desk", "scopes": ["read"]}, "scopes"),
        ({"scope": "desk", "expiresAt": "2030-01-01T00:00:00Z"}, "expiresAt"),
        ({"scope": "desk", "userId": "usr_1"}, "userId"),
        ({"scope": "platform", "scopes": ["read"]}, "name"),
        ({"scope": "platform", "name": "E"}, "scopes"),
        ({"scope": "platform", "name": "E", "scopes": []}, "scopes"),
        ({"scope": "platform", "name": "E", "scopes": None}, "scopes"),
        ({"scope": "platform", "name": "E", "scopes": "read"}, "scopes"),
        ({"scope": "platform", "name": "E", "scopes": {"read": True}}, "scopes"),
        ({"scope": "platform", "name": "E", "scopes": ["admin"]}, "scopes"),
        ({"scope": "platform", "name": "E", "scopes": [["read"]]}, "scopes"),
        ({**PLATFORM, "expiresAt": "2020-01-01T00:00:00Z"}, "expiresAt"),
        ({**PLATFORM, "expiresAt": "tomorrow"}, "expiresAt"),
        ({**PLATFORM, "expiresAt": 5}, "expiresAt"),
        ({**PLATFORM, "expires": "2999-01-01T00:00:00Z"}, "expires"),
        ({**PLATFORM, "expiresAt": ""}, "expiresAt"),
        ({**PLATFORM, "expiresAt": {}}, "expiresAt"),
    ):
        response = mint(staff if body.get("scope") == "platform" else owner, body)
        assert (response.status_code, code(response)) == (422, "invalid"), body
        assert field in faults(response), body
    assert not Token.objects.exists()


def test_a_body_with_a_secret_is_refused_and_not_stored(staff, owner, caplog):
    value = a_platform_token()
    before = Head.objects.get().position
    for browser, body in [
        (staff, {**PLATFORM, "name": value}),
        (staff, {**PLATFORM, "name": f"for {value}!"}),
        (owner, {"scope": "desk", "name": "-----BEGIN PRIVATE KEY-----"}),
        (owner, {"scope": "desk", "api_key": "x"}),
        (owner, {"scope": "desk", value: "x"}),
    ]:
        response = mint(browser, body)
        assert (response.status_code, code(response)) == (422, "exchange_secret")
        assert value[9:] not in response.text
    assert code(revoke(owner, body={"id": value})) == "exchange_secret"
    assert Head.objects.get().position == before
    assert value[9:] not in caplog.text
    assert value[9:] not in str(list(Event.objects.values())) + str(list(Token.objects.values()))


@pytest.mark.once
@pytest.mark.parametrize(
    "content_type",
    ["multipart/form-data", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded"],
)
def test_the_body_is_not_parsed_as_a_form(desk, content_type):
    browser = signed_in(desk.user, csrf=True)
    browser.cookies["csrf"] = "a" * 32
    for body in (b"--x\r\nnonsense", b"csrfmiddlewaretoken=" + b"a" * 32):
        response = browser.generic("POST", TOKENS, body, content_type)
        assert (response.status_code, code(response)) == (403, "csrf_failed")


# --- Forged requests ----------------------------------------------------------------------------


@pytest.mark.once
def test_a_session_with_the_csrf_header_is_accepted(desk):
    browser = signed_in(desk.user, "password", csrf=True)
    browser.get("/accounts/login/")
    browser.cookies["csrf"] = "a" * 32
    response = mint(browser, {"scope": "desk"}, **{"X-CSRFToken": "a" * 32})
    assert response.status_code == 201
    assert code(mint(browser, {"scope": "desk"}, **{"X-CSRFToken": "b" * 32})) == "csrf_failed"


@pytest.mark.once
def test_a_request_from_another_site_is_refused_even_with_the_header(desk):
    browser = signed_in(desk.user, "password", csrf=True)
    browser.cookies["csrf"] = "a" * 32
    headers = {"X-CSRFToken": "a" * 32, "Origin": "https://evil.example"}
    assert code(mint(browser, {"scope": "desk"}, **headers)) == "csrf_failed"


# --- Revoking -----------------------------------------------------------------------------------


def test_an_invalid_id_never_falls_back_to_the_calling_token(desk):
    value = a_desk_token(desk)
    for query, body in (
        ("?id=", None),
        ("?id=tok_1", {"id": "tok_2"}),
        ("?id=a&id=b", None),
        ("?token=x", None),
        ("", {"id": ""}),
        ("", {"id": 5}),
        ("", {"id": ["x"]}),
        ("", {"token": "x"}),
        ("", {"id": "t" * 129}),
    ):
        response = revoke(token=value, query=query, body=body)
        assert code(response) in ("invalid", "not_found"), (query, body)
    assert get(ME, value).status_code == 200


def test_a_caller_cannot_revoke_a_token_that_it_cannot_list(desk, stranger):
    mine, other = a_desk_token(desk), a_desk_token(a_desk())
    platform, engine = a_platform_token(), a_platform_token()
    mine_id, platform_id = record_of(mine).public_id, record_of(platform).public_id
    for response in (
        revoke(token=other, query=f"?id={mine_id}"),
        revoke(token=mine, query=f"?id={platform_id}"),
        revoke(token=engine, query=f"?id={mine_id}"),
        revoke(token=engine, query=f"?id={platform_id}"),
        revoke(stranger, query=f"?id={mine_id}"),
        revoke(stranger, query="?id=tok_unknown"),
    ):
        assert (response.status_code, code(response)) == (404, "not_found")
    assert Token.objects.filter(revoked_at=None).count() == 4


# --- Staff --------------------------------------------------------------------------------------


@pytest.fixture
def strict(settings):
    settings.REQUIRE_STAFF_MFA = True


def staff_calls(browser: Client, token_id: str):
    return [browser.get(TOKENS), mint(browser, PLATFORM), revoke(browser, query=f"?id={token_id}")]


def test_staff_without_a_second_factor_are_refused(strict):
    token_id = record_of(a_platform_token()).public_id
    browser = signed_in(a_staff_user(), "password")
    for response in staff_calls(browser, token_id):
        assert (response.status_code, code(response)) == (403, "second_factor_required")
    assert Token.objects.filter(revoked_at=None).count() == 1
    assert code(revoke(browser)) == "second_factor_required"  # checked before the id


def test_after_15_minutes_minting_and_revoking_need_reauthentication_and_reading_does_not(strict):
    token_id = record_of(a_platform_token()).public_id
    now = timezone.now()
    browser = signed_in(a_staff_user(), "password", "mfa", at=now.timestamp())
    with time_machine.travel(now + timedelta(minutes=14, seconds=59), tick=False):
        assert mint(browser, PLATFORM).status_code == 201
    with time_machine.travel(now + timedelta(minutes=15), tick=False):
        listed, minted, revoked = staff_calls(browser, token_id)
    assert listed.status_code == 200
    for response in (minted, revoked):
        assert (response.status_code, code(response)) == (403, "reauthentication_required")
    assert Token.objects.filter(revoked_at=None).count() == 2


def test_a_re_authentication_is_as_good_as_a_sign_in(strict):
    now = timezone.now()
    browser = signed_in(a_staff_user(), "mfa", at=(now - timedelta(hours=2)).timestamp())
    assert code(mint(browser, PLATFORM)) == "reauthentication_required"
    session = browser.session
    session["account_authentication_methods"] += [{"method": "password", "at": now.timestamp()}]
    session.save()
    assert mint(browser, PLATFORM).status_code == 201


def test_another_users_second_factor_in_the_same_browser_does_not_count(strict):
    browser = signed_in(a_staff_user(), "password", "mfa")
    session = browser.session
    session["account_authentication_methods_user"] = "0"
    session.save()
    assert code(browser.get(TOKENS)) == "second_factor_required"


def test_a_customer_needs_no_second_factor_or_recent_sign_in(strict, desk):
    browser = signed_in(desk.user, at=0)
    value = mint(browser, {"scope": "desk"}).json()
    assert revoke(browser, query=f"?id={value['id']}").status_code == 200
