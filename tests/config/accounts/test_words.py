"""The words of the account pages: sentence case, ours, and no dead end."""

import re
from http import HTTPStatus

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from django.test import Client
from django.urls import reverse
from fido2.utils import websafe_encode

from desks.models import User
from tests import factories, pages, staff
from tests.routes import routes
from tests.security_keys import SecurityKey

pytestmark = [pytest.mark.django_db, pytest.mark.once]

SPOKEN = re.compile(r"<(h[1-6]|button|label|legend|th|summary|title)\b[^>]*>(.*?)</\1>", re.DOTALL)
LINKS = re.compile(r'<(a) class="button[^>]*>(.*?)</a>', re.DOTALL)
TAGS = re.compile(r"<[^>]+>")
NAMES = {"QR", "I", "Signal", "Intermediary", "Email"}
# The pages that ask first, where there is something to end: tests/config/accounts/test_acts.py.
ASKING = ("/accounts/email/cancel/", "/accounts/sessions/end/")
REDIRECTED = ("password/set/", "login/code/confirm/", "signup/password/", "signup/link/")


def in_title_case(page: str) -> list[str]:
    """The headings, buttons and labels of a page that capitalize a word after the first."""
    spoken = [TAGS.sub("", text) for _, text in SPOKEN.findall(page) + LINKS.findall(page)]
    sentences = [part for text in spoken for part in re.split(r"[.?!·]\s", " ".join(text.split()))]
    return [
        text
        for text in sentences
        if any(word[:1].isupper() and word not in NAMES for word in text.split()[1:])
    ]


@pytest.fixture
def user(desk) -> User:
    """A customer with an authenticator app, recovery codes and a security key."""
    staff.with_totp(desk.user)
    RecoveryCodes.activate(desk.user)
    return desk.user


def browsers(user: User) -> dict[str, Client]:
    halfway = Client()
    staff.give_password(halfway, user)
    bare = staff.verified(factories.UserFactory.create())
    with_factor, without = staff.a_client(user), staff.a_client(bare, "password")
    for browser in (with_factor, without):
        browser.post("/accounts/reauthenticate/", {"password": factories.PASSWORD})
    return {"a visitor": Client(), "halfway": halfway, "user": with_factor, "bare": without}


def account_pages() -> list[str]:
    found = [f"/{route}" for route in routes() if route.startswith("accounts/")]
    open_ones = [path for path in found if "<" not in path and "^" not in path]
    return [path for path in open_ones if not path.endswith(REDIRECTED)]


def test_every_page_is_in_sentence_case_and_holds_nothing_that_the_policy_stops(user):
    add_key(user)
    key = Authenticator.objects.get(user=user, type=Authenticator.Type.WEBAUTHN)
    seen, faults = set(), []
    for who, browser in browsers(user).items():
        for path in [
            *account_pages(),
            "/accounts/password/reset/key/1-set-password/",
            "/accounts/confirm-email/made-up/",
            reverse("mfa_remove_webauthn", args=[key.pk]),
            reverse("mfa_edit_webauthn", args=[key.pk]),
        ]:
            page = browser.get(path)
            if page.status_code == HTTPStatus.OK and page["Content-Type"].startswith("text/html"):
                seen.add(path)
                faults += [(who, path, text) for text in in_title_case(pages.source(page))]
                faults += [(who, path, text) for text in pages.inline(page)]
    assert faults == []
    assert len(seen) > 20
    assert set(account_pages()) - seen <= {
        "/accounts/2fa/recovery-codes/download/",
        "/accounts/2fa/webauthn/reauthenticate/",
        *ASKING,
    }


def test_title_case_is_found():
    assert in_title_case("<h1>Two-Factor Authentication</h1><button>Sign In</button>") == [
        "Two-Factor Authentication",
        "Sign In",
    ]


def test_the_challenge_offers_a_security_key_to_who_has_one_and_names_recovery_codes(user):
    halfway = Client()
    staff.give_password(halfway, user)
    page = halfway.get("/accounts/2fa/authenticate/")
    assert "Use a security key" not in pages.words(page)
    assert "recovery codes" in pages.words(page)
    add_key(user)
    assert "Use a security key" in pages.words(halfway.get("/accounts/2fa/authenticate/"))


def add_key(user: User) -> None:
    """Stores a security key, as a device registers it."""
    credential = SecurityKey().register(websafe_encode(b"challenge"))
    Authenticator.objects.create(
        user=user, type=Authenticator.Type.WEBAUTHN, data={"name": "Key", "credential": credential}
    )


def test_a_bad_reset_link_says_what_to_do_in_our_words():
    page = Client().get("/accounts/password/reset/key/1-made-up/", follow=True)
    assert "This link no longer works" in pages.words(page)
    assert "Bad Token" not in pages.source(page)
