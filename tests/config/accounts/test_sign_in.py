"""Sign-in: password guessing, account enumeration and reused codes."""

import json
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from django.contrib.auth.hashers import MD5PasswordHasher
from django.core import mail
from django.core.cache import cache
from django.core.management import call_command
from django.test import Client

from config import settings as served
from desks.models import User
from tests import factories, pages, staff
from tests.client import Response
from tests.factories import PASSWORD

pytestmark = [pytest.mark.django_db, pytest.mark.once]

KNOWN, UNKNOWN = "known@example.com", "nobody@example.com"
LOGIN, SIGNUP, RESET = "/accounts/login/", "/accounts/signup/", "/accounts/password/reset/"
CHANGE = "/accounts/password/change/"
NEW = "another horse battery"
WRONG = "Address or password is wrong. Reset your password."
TOO_MANY = "Too many failed login attempts. Try again later."


@pytest.fixture
def known(db: None) -> User:
    """A user with a verified address."""
    return staff.verified(User.objects.create_user(KNOWN, PASSWORD))


def sign_in(browser: Client, address: str = KNOWN, password: str = PASSWORD) -> Response:
    return browser.post(LOGIN, {"login": address, "password": password})


# --- Guessing ------------------------------------------------------------------------------------


def test_an_account_takes_five_wrong_passwords_in_five_minutes_from_anywhere(known):
    said = [pages.errors(sign_in(_from(n), password="wrong")) for n in range(6)]
    assert said == [[WRONG]] * 5 + [[TOO_MANY]]
    assert pages.errors(sign_in(_from(7))) == [TOO_MANY]


def _from(number: int) -> Client:
    """A browser with its own IP address."""
    return Client(REMOTE_ADDR=f"198.51.{number // 250}.{number % 250 + 1}")


@pytest.fixture
def cache_as_served(settings) -> None:
    """The default cache of the service."""
    settings.CACHES = served.CACHES
    call_command("createcachetable", verbosity=0)


def test_nobody_makes_the_service_forget_who_failed_by_failing_elsewhere(known, cache_as_served):
    for number in range(5):
        sign_in(_from(number), password="wrong")
    for number in range(400):  # what as many failures leave behind, in the order of their keys
        cache.set(f"allauth:{number}", [0.0], 300)
        cache.set(f"counter:{number}", [0.0], 300)
    assert pages.errors(sign_in(_from(400))) == [TOO_MANY]


@pytest.mark.parametrize(
    ("path", "fields", "most"),
    [
        (RESET, {"email": UNKNOWN}, 5),
        ("/accounts/password/reset/key/1-set-password/", {"password1": "weak"}, 20),
        (LOGIN, {"login": UNKNOWN, "password": "wrong"}, 30),
    ],
)
def test_the_pages_that_lead_to_an_account_are_limited_for_each_address(path, fields, most):
    *answers, refused = [Client().post(path, fields) for _ in range(most + 1)]
    assert HTTPStatus.TOO_MANY_REQUESTS not in [answer.status_code for answer in answers]
    assert refused.status_code == HTTPStatus.TOO_MANY_REQUESTS
    assert int(refused["Retry-After"]) > 0
    assert "Too many requests" in pages.words(refused)


@pytest.mark.parametrize(
    ("path", "fields", "most"),
    [
        (CHANGE, {"oldpassword": "wrong", "password1": NEW}, 5),
        ("/accounts/reauthenticate/", {"password": "wrong"}, 5),
        ("/accounts/2fa/reauthenticate/", {"code": "000000"}, 5),
    ],
)
def test_who_holds_a_session_does_not_guess_the_password_or_the_code_with_it(path, fields, most):
    member = factories.a_staff_user()
    staff.with_totp(member)
    browser = staff.a_client(member)
    for _ in range(most):
        assert browser.post(path, fields).status_code == HTTPStatus.OK
    refused = browser.post(path, fields)
    too_many = refused.status_code == HTTPStatus.TOO_MANY_REQUESTS
    assert too_many or pages.errors(refused) == [TOO_MANY]


# --- Whether there is an account -----------------------------------------------------------------


@pytest.fixture
def hashed(monkeypatch) -> list[str]:
    """Records each hashed password: hashing dominates the response time."""
    found: list[str] = []
    encode = MD5PasswordHasher.encode

    def counted(self: Any, password: str, *more: Any) -> str:
        found.append(password)
        return str(encode(self, password, *more))

    monkeypatch.setattr(MD5PasswordHasher, "encode", counted)
    return found


WAYS = {
    "signing in": lambda address: sign_in(Client(), address, "wrong horse battery"),
    "signing up": lambda address: Client().post(SIGNUP, {"email": address}, follow=True),
    "resetting": lambda address: Client().post(RESET, {"email": address}, follow=True),
}


@pytest.mark.parametrize("way", WAYS)
def test_an_answer_tells_nobody_whether_there_is_an_account(known, way):
    one, other = WAYS[way](KNOWN), WAYS[way](UNKNOWN)
    assert one.status_code == other.status_code == HTTPStatus.OK
    assert pages.words(one).replace(KNOWN, "x") == pages.words(other).replace(UNKNOWN, "x")
    assert getattr(one, "redirect_chain", []) == getattr(other, "redirect_chain", [])


@pytest.mark.parametrize("way", WAYS)
def test_as_much_work_is_done_where_there_is_an_account_as_where_there_is_none(known, hashed, way):
    WAYS[way](KNOWN)
    for_known, mails = len(hashed), len(mail.outbox)
    WAYS[way](UNKNOWN)
    assert len(hashed) - for_known == for_known == (1 if way == "signing in" else 0)
    assert len(mail.outbox) - mails == mails


def test_a_closed_account_is_not_told_apart_without_its_password(known):
    User.objects.update(is_active=False)
    closed, unknown = (WAYS["signing in"](address) for address in (KNOWN, UNKNOWN))
    assert pages.words(closed).replace(KNOWN, "x") == pages.words(unknown).replace(UNKNOWN, "x")
    with_it = Client().post(LOGIN, {"login": KNOWN, "password": PASSWORD}, follow=True)
    assert "This account is deactivated" in pages.words(with_it)


def test_nor_does_who_is_signed_in_learn_it_by_changing_an_address(known):
    browsers = [
        staff.a_client(staff.verified(factories.UserFactory.create()), "password") for _ in range(2)
    ]
    said = []
    for browser, address in zip(browsers, (KNOWN, UNKNOWN), strict=True):
        browser.post("/accounts/reauthenticate/", {"password": PASSWORD})
        page = browser.post("/accounts/email/", {"email": address, "action_add": ""}, follow=True)
        words = pages.words(page).replace(address, "x")
        said.append(words.replace(User.objects.get(pk=browser.session["_auth_user_id"]).email, "y"))
    assert said[0] == said[1]


def test_a_link_of_nobodys_is_no_other_than_a_wrong_one(known):
    made_up = [f"/accounts/password/reset/key/{user}-abcdef-1234/" for user in (known.pk, 99999)]
    one, other = (Client().get(path) for path in made_up)
    assert (one.status_code, pages.words(one)) == (other.status_code, pages.words(other))


# --- Where one is led afterwards -----------------------------------------------------------------

ELSEWHERE = [
    "https://evil.example/",
    "//evil.example/",
    "///evil.example",
    "/\\evil.example",
    "\\\\evil.example",
    "https:evil.example",
    "http:///evil.example",
    "javascript:alert(1)",
    "data:text/html,x",
    "/\t/evil.example",
    " https://evil.example",
    "https://testserver@evil.example/",
    "https://testserver.evil.example/",
    "http://localhost/",  # among ALLOWED_HOSTS, as web1 is in deploy/compose.yaml
    "//127.0.0.1:8000/bots",
]


@pytest.mark.parametrize("following", ELSEWHERE)
def test_nobody_is_led_to_another_site(known, following):
    query = urlencode({"next": following})
    member = staff.a_client(known, "password")
    answers = [
        _sign_in_to(query),
        member.post(f"/accounts/reauthenticate/?{query}", {"password": PASSWORD}),
        member.get(f"{LOGIN}?{query}"),
        member.get(f"{SIGNUP}?{query}"),
        member.post(f"/accounts/logout/?{query}"),
    ]
    for answer in answers:
        assert answer.status_code == HTTPStatus.FOUND
        assert answer["Location"] in ("/desk", "/")


def _sign_in_to(query: str) -> Response:
    return Client().post(f"{LOGIN}?{query}", {"login": KNOWN, "password": PASSWORD})


def test_one_is_led_to_a_page_of_this_site(known):
    for page in ("/bots", "http://testserver/bots"):
        assert _sign_in_to(urlencode({"next": page}))["Location"] == page


# --- Second factors ------------------------------------------------------------------------------


def test_what_second_factors_keep_is_encrypted(known):
    secret = staff.with_totp(factories.a_staff_user())
    RecoveryCodes.activate(known)
    kept = json.dumps(list(Authenticator.objects.values_list("data", flat=True)))
    codes = RecoveryCodes(Authenticator.objects.get(user=known)).generate_codes()
    assert not [text for text in (secret, *codes) if text in kept]


def is_in(browser: Client) -> bool:
    return "_auth_user_id" in browser.session


def test_a_recovery_code_signs_in_once():
    member = factories.a_staff_user()
    staff.with_totp(member)
    code = RecoveryCodes.activate(member).generate_codes()[0]
    browsers = (Client(), Client())
    for browser in browsers:
        sign_in(browser, member.email)
        browser.post("/accounts/2fa/authenticate/", {"code": code})
    assert [is_in(browser) for browser in browsers] == [True, False]
