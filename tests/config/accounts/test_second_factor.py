"""Adding a second factor opens the control area, without a dead end."""

import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import pytest
from allauth.core.context import request_context
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import SECRET_SESSION_KEY
from allauth.mfa.webauthn.internal.auth import WebAuthn
from django.test import Client, RequestFactory
from django.urls import reverse
from redis import RedisError

from config.accounts.second_factors import (
    BEFORE_SECOND_FACTOR,
    ReauthenticatePasskeyForm,
    refuse_key,
)
from desks.models import User
from tests import factories, pages, staff
from tests.routes import address, routes
from tests.security_keys import SecurityKey, challenge_of
from tokens.callers.staff import has_second_factor, verify_session

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.once]

ACTIVATE = "/accounts/2fa/totp/activate/"


@pytest.fixture(autouse=True)
def mfa(settings) -> None:
    settings.REQUIRE_STAFF_MFA = True


@pytest.fixture
def member() -> User:
    return staff.verified(factories.a_staff_user())


def activate(browser: Client):
    browser.post("/accounts/reauthenticate/", {"password": factories.PASSWORD})
    browser.get(ACTIVATE)
    secret = browser.session[SECRET_SESSION_KEY]
    return staff.give_code(browser, ACTIVATE, secret)


def test_the_refusal_leads_to_a_factor_and_the_factor_into_the_control_area(member):
    browser = staff.a_client(member, "password")
    refused = browser.get("/control/")
    assert pages.problem(refused) == "second_factor_required"
    assert f'href="{ACTIVATE}"' in pages.source(refused)
    assert activate(browser).status_code == HTTPStatus.FOUND
    assert browser.get("/control/").status_code == HTTPStatus.OK


def test_recovery_codes_alone_are_no_factor_that_one_is_asked_to_prove(member):
    Authenticator.objects.create(user=member, type=Authenticator.Type.RECOVERY_CODES, data={})
    refused = staff.a_client(member, "password").get("/control/")
    assert pages.problem(refused) == "second_factor_required"


def test_a_session_from_before_the_factor_is_asked_for_it_and_led_back(member):
    browser = staff.a_client(member, "password")
    secret = staff.totp.generate_totp_secret()
    staff.totp.TOTP.activate(member, secret)  # in another browser
    asked = browser.get("/control/")
    assert asked["Location"] == "/accounts/2fa/reauthenticate/?next=/control/"
    assert pages.problem(browser.post("/control/")) == "second_factor_required"
    proved = staff.give_code(browser, asked["Location"], secret)
    assert proved["Location"] == "/control/"
    assert browser.get("/control/").status_code == HTTPStatus.OK


CHANGES = sorted(
    {address(route) for route in routes() if route.startswith("accounts/2fa/")}
    - {reverse(name) for name in BEFORE_SECOND_FACTOR}
)


@pytest.mark.parametrize("is_staff", [True, False])
def test_a_session_from_before_the_factor_changes_no_factor_and_sees_no_codes(is_staff, desk):
    user = factories.a_staff_user() if is_staff else desk.user
    browser = staff.a_client(staff.verified(user), "password")
    staff.totp.TOTP.activate(user, staff.totp.generate_totp_secret())  # in another browser
    assert reverse("mfa_generate_recovery_codes") in CHANGES
    for path in CHANGES:
        answers = [browser.get(path), browser.post(path)]
        allowed = [a for a in answers if a.status_code != HTTPStatus.METHOD_NOT_ALLOWED]
        led_to = {answer["Location"] for answer in allowed}
        assert led_to == {f"/accounts/2fa/reauthenticate/?next={path}"}
    assert [factor.type for factor in Authenticator.objects.all()] == ["totp"]


def test_a_session_from_before_the_factor_does_not_pass_by_adding_another(
    member, rf: RequestFactory
):
    staff.totp.TOTP.activate(member, staff.totp.generate_totp_secret())
    browser = staff.a_client(member, "password")
    key = Authenticator.objects.create(user=member, type=Authenticator.Type.WEBAUTHN, data={})
    assert isinstance(key.wrap(), WebAuthn)
    request = rf.get("/")
    request.user, request.session = member, browser.session
    verify_session(request, member, key)
    assert not has_second_factor(request)


def test_recovery_codes_alone_are_no_second_factor(member, rf: RequestFactory):
    codes = Authenticator.objects.create(
        user=member, type=Authenticator.Type.RECOVERY_CODES, data={}
    )
    request = rf.get("/")
    request.user, request.session = member, staff.a_client(member, "password").session
    verify_session(request, member, codes)
    assert not has_second_factor(request)


def answer(
    browser: Client, path: str, ask: Callable[[str], dict[str, Any]], *, tabs: int = 1, **form: str
) -> pages.Response:
    """What a page says to the answer of a key: to the first tab of so many that were opened."""
    page = f"/accounts/2fa/{path}"
    opened = [pages.source(browser.get(page, secure=True)) for _ in range(tabs)]
    credential = json.dumps(ask(challenge_of(opened[0])))
    return browser.post(page, form | {"credential": credential}, secure=True)


def a_browser_with(key: SecurityKey, member: User) -> Client:
    """A browser in which the user added a security key."""
    browser = staff.a_client(member, "password")
    browser.post("/accounts/reauthenticate/", {"password": factories.PASSWORD})
    added = answer(browser, "webauthn/add/", key.register, name="Key")
    assert added.status_code == HTTPStatus.FOUND
    return browser


def test_a_security_key_is_added_and_proves_the_second_factor(member):
    key = SecurityKey()
    a_browser_with(key, member)
    assert Authenticator.objects.get(type=Authenticator.Type.WEBAUTHN).wrap().name == "Key"

    other = Client()
    staff.give_password(other, member)
    wrong = answer(other, "authenticate/", SecurityKey().sign)
    assert wrong.status_code == HTTPStatus.OK
    assert other.get("/control/").status_code == HTTPStatus.FOUND
    assert answer(other, "authenticate/", key.sign).status_code == HTTPStatus.FOUND
    assert other.get("/control/").status_code == HTTPStatus.OK

    again = answer(other, "webauthn/reauthenticate/", key.sign)
    assert again["Location"] == "/desk"


NOT_ACCEPTED = (
    "The security key was not accepted. Its answer counts only for the page that you opened last. "
    "Use the key again."
)


def test_the_key_that_answered_an_older_tab_is_refused_with_a_sentence(member):
    key = SecurityKey()
    browser = a_browser_with(key, member)
    halfway = Client()
    staff.give_password(halfway, member)
    for refused in (
        answer(halfway, "authenticate/", key.sign, tabs=2),
        answer(browser, "webauthn/reauthenticate/", key.sign, tabs=2, next="/webhooks/new"),
        answer(browser, "webauthn/add/", SecurityKey().register, tabs=2, name="Second"),
    ):
        assert (refused.status_code, pages.errors(refused)) == (HTTPStatus.OK, [NOT_ACCEPTED])
        assert "Error:" in pages.source(refused).partition("</title>")[0]


def test_who_was_refused_for_a_key_is_still_led_back(member):
    key = SecurityKey()
    browser = a_browser_with(key, member)
    page = "webauthn/reauthenticate/"
    refused = answer(browser, page, key.sign, tabs=2, next="/webhooks/new")
    challenge = challenge_of(pages.source(refused))
    form = {"credential": json.dumps(key.sign(challenge)), "next": next_of(refused)}
    assert browser.post(f"/accounts/2fa/{page}", form, secure=True)["Location"] == "/webhooks/new"


def next_of(page: pages.Response) -> str:
    return pages.source(page).partition('name="next" value="')[2].partition('"')[0]


def test_who_tried_too_many_keys_is_told_so_and_not_to_try_again(member):
    a_browser_with(SecurityKey(), member)
    halfway = Client()
    staff.give_password(halfway, member)
    said = [pages.errors(answer(halfway, "authenticate/", SecurityKey().sign)) for _ in range(20)]
    assert said[0] == [NOT_ACCEPTED]
    assert said[-1] == ["Too many failed login attempts. Try again later."]


def test_a_name_without_a_key_is_refused_with_a_sentence_and_stays(member):
    browser = staff.a_client(member, "password")
    browser.post("/accounts/reauthenticate/", {"password": factories.PASSWORD})
    refused = browser.post("/accounts/2fa/webauthn/add/", {"name": "Mine"})
    sentence = "No security key has answered. Press the button and follow your browser."
    assert (refused.status_code, pages.errors(refused)) == (HTTPStatus.OK, [sentence])
    assert 'value="Mine"' in pages.source(refused)


def written(**members: str) -> str:
    """A credential as a browser writes one, with other members."""
    answer = {"clientDataJSON": "e30", "attestationObject": "oA", "signature": "YQ"}
    made = {"id": "YQ", "rawId": "YQ", "type": "public-key", "response": answer | members}
    return json.dumps(made)


UNREADABLE = [
    "",
    "{",
    "[]",
    '{"id": "a"}',
    '{"id": "a", "rawId": "b"}',
    '{"id": 1e999, "rawId": 1e999}',
    '{"id": ' + "1" * 5000 + "}",
    '{"id": "\\u0000"}',
    "[" * 20_000,
    written(),
    written(clientDataJSON="!"),
    written(attestationObject="gY" + "GB" * 3000),  # lists in lists
    written(attestationObject="GQ"),  # a number that has no end
    written(authenticatorData="YQ"),
]


@pytest.mark.parametrize("credential", UNREADABLE)
@pytest.mark.parametrize("path", ["webauthn/add/", "authenticate/"])
def test_what_no_authenticator_answers_is_refused(member, path, credential):
    staff.totp.TOTP.activate(member, staff.totp.generate_totp_secret())
    if path == "authenticate/":
        staff.give_password(browser := Client(), member)
    else:
        browser = staff.a_client(member)
        browser.post("/accounts/reauthenticate/", {"password": factories.PASSWORD})
    page = f"/accounts/2fa/{path}"
    assert browser.get(page).status_code == HTTPStatus.OK
    answer = browser.post(page, {"name": "Key", "credential": credential})
    assert answer.status_code == HTTPStatus.OK
    assert not Authenticator.objects.filter(type=Authenticator.Type.WEBAUTHN).exists()


@pytest.mark.parametrize("credential", UNREADABLE)
def test_what_no_authenticator_answers_proves_nothing_anew(member, rf: RequestFactory, credential):
    with request_context(rf.post("/")):
        form = ReauthenticatePasskeyForm({"credential": credential}, user=member)
        assert list(form.errors) == ["credential"]


def test_a_rate_that_cannot_be_counted_is_no_wrong_code():
    with pytest.raises(RedisError), refuse_key():
        raise RedisError
