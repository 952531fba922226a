"""Sign-up reveals no accounts and opens none with another person's address."""

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from http import HTTPStatus

import pytest
import time_machine
from allauth.account.models import EmailAddress
from allauth.usersessions.models import UserSession
from django.contrib.auth.hashers import MD5PasswordHasher, make_password
from django.contrib.sessions.models import Session
from django.core import mail, signing
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from config.accounts import signup
from desks import actions
from desks.models import Desk, User
from events.kinds import Kind
from events.models import Event
from tests import pages, staff
from tests.factories import PASSWORD, UserFactory, a_staff_user

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.once]

SIGN_UP, CHOOSE = "/accounts/signup/", "/accounts/signup/password/"
ADDRESS, KNOWN = "new@example.com", "known@example.com"
LINK = re.compile(r"http://testserver(/accounts/signup/link/\S+)")


@pytest.fixture
def known(db):
    return staff.verified(UserFactory.create(email=KNOWN))


def sign_up(address=ADDRESS, browser=None):
    return (browser or Client()).post(SIGN_UP, {"email": address})


def link():
    """Returns the link in the last email."""
    return LINK.search(str(mail.outbox[-1].body)).group(1)


def choose(browser, password=PASSWORD):
    return browser.post(CHOOSE, {"password1": password})


def a_browser_behind(path):
    """A browser that followed the link."""
    browser = Client()
    assert browser.get(path)["Location"] == CHOOSE
    return browser


def signed_in(browser):
    return "_auth_user_id" in browser.session


# --- The story -----------------------------------------------------------------------------------


def test_the_link_and_a_password_make_account_address_and_desk_and_sign_in():
    sign_up()
    assert not User.objects.exists()
    browser = a_browser_behind(link())
    answer = choose(browser)
    assert (answer.status_code, answer["Location"]) == (HTTPStatus.FOUND, "/desk/connect")
    user = User.objects.get(email=ADDRESS)
    assert user.check_password(PASSWORD)
    kept = EmailAddress.objects.get()
    assert (kept.user, kept.email, kept.verified, kept.primary) == (user, ADDRESS, True, True)
    assert Desk.objects.get().user == user
    assert [event.kind for event in Event.objects.all()] == [Kind.DESK_CREATED]
    assert signed_in(browser)


def test_the_use_of_the_session_that_a_sign_up_began_is_noted():
    sign_up()
    browser = a_browser_behind(link())
    choose(browser)
    with time_machine.travel(timezone.now() + timedelta(days=1)):
        browser.get("/desk")
        assert UserSession.objects.get().last_seen_at > timezone.now() - timedelta(minutes=1)


def test_the_link_is_the_services_own_whatever_host_the_browser_names(settings):
    settings.BASE_URL = "https://signals.example"
    sign_up(browser=Client(headers={"Host": "localhost:1"}))
    assert "https://signals.example/accounts/signup/link/" in mail.outbox[-1].body
    assert "localhost" not in mail.outbox[-1].body


def test_an_address_that_is_none_is_kept_in_the_form_and_gets_no_mail():
    page = sign_up("nobody@☃.example")
    assert pages.errors(page)
    assert 'value="nobody@☃.example"' in pages.source(page)
    assert not mail.outbox


def test_a_form_that_another_site_sent_is_refused():
    assert sign_up(browser=Client(enforce_csrf_checks=True)).status_code == HTTPStatus.FORBIDDEN
    assert not mail.outbox


def test_signing_up_stores_nothing():
    with CaptureQueriesContext(connection) as asked:
        sign_up()
    changes = [query["sql"] for query in asked if not query["sql"].startswith("SELECT")]
    assert changes == []


def test_following_the_link_changes_nothing_but_the_visitors_own_session():
    sign_up()
    browser = a_browser_behind(link())
    browser.get(CHOOSE)
    assert not User.objects.exists()
    assert not Event.objects.exists()
    assert Session.objects.count() == 1


def test_user_address_and_desk_are_made_together_or_not_at_all(monkeypatch):
    sign_up()
    browser = a_browser_behind(link())
    browser.raise_request_exception = False

    def fails(**_):
        raise RuntimeError("the desk")

    monkeypatch.setattr(actions, "open_desk", fails)
    assert choose(browser).status_code == HTTPStatus.INTERNAL_SERVER_ERROR
    assert (User.objects.count(), EmailAddress.objects.count(), Event.objects.count()) == (0, 0, 0)
    monkeypatch.undo()
    assert choose(browser)["Location"] == "/desk/connect"


def test_the_password_is_hashed_before_the_lock_of_the_log_is_taken(monkeypatch):
    sign_up()
    browser = a_browser_behind(link())
    inside = []
    encode = MD5PasswordHasher.encode

    def watched(self, *given):
        inside.append(connection.in_atomic_block)
        return encode(self, *given)

    monkeypatch.setattr(MD5PasswordHasher, "encode", watched)
    choose(browser)
    assert inside == [False]


# --- The link ------------------------------------------------------------------------------------


def is_dead(path):
    page = Client().get(path)
    return (page.status_code, "This link no longer works" in pages.words(page)) == (410, True)


def test_a_link_works_once():
    sign_up()
    path = link()
    first, second = a_browser_behind(path), a_browser_behind(path)
    choose(first)
    assert is_dead(path)
    late = choose(second, "another horse battery")
    assert late.status_code == HTTPStatus.GONE
    assert not signed_in(second)
    assert User.objects.get().check_password(PASSWORD)


def test_of_two_who_use_one_link_at_once_one_gets_the_account():
    sign_up()
    browsers = [a_browser_behind(link()) for _ in range(4)]
    for number, browser in enumerate(browsers):
        browser.defaults["REMOTE_ADDR"] = f"192.0.2.{number + 1}"

    def use(number):
        try:
            return choose(browsers[number], f"horse battery {number}").status_code
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        found = sorted(pool.map(use, range(4)))
    assert found == [HTTPStatus.FOUND, *[HTTPStatus.GONE] * 3]
    assert (User.objects.count(), Desk.objects.count()) == (1, 1)


def test_a_link_is_dead_after_its_time():
    sign_up()
    path = link()
    browser = a_browser_behind(path)
    with time_machine.travel(timezone.now() + signup.LIFETIME - timedelta(minutes=1)):
        assert not is_dead(path)
    with time_machine.travel(timezone.now() + signup.LIFETIME + timedelta(minutes=1)):
        assert is_dead(path)
        assert choose(browser).status_code == HTTPStatus.GONE
    assert not User.objects.exists()


def test_a_link_of_another_making_is_dead():
    for token in ("x", signing.dumps(ADDRESS, salt=signup.SALT) + "x", signing.dumps(ADDRESS)):
        assert is_dead(f"/accounts/signup/link/{token}/")


def test_a_link_of_an_address_that_got_an_account_meanwhile_is_dead(known):
    assert is_dead(f"/accounts/signup/link/{signing.dumps(KNOWN, salt=signup.SALT)}/")


def test_without_a_link_nobody_chooses_a_password():
    assert choose(Client()).status_code == HTTPStatus.GONE
    assert Client().get(CHOOSE).status_code == HTTPStatus.GONE
    assert not User.objects.exists()


def test_the_token_stands_in_no_page_and_no_address_behind_the_link():
    sign_up()
    token = link().split("/")[-2]
    browser = a_browser_behind(link())
    page = browser.get(CHOOSE)
    assert token not in pages.source(page)
    assert page["Cache-Control"] == "no-store"
    assert page["Referrer-Policy"] == "same-origin"


@pytest.mark.parametrize("password", ["", "short", "password12", "123456789012", ADDRESS])
def test_a_weak_password_is_refused_and_the_link_goes_on_working(password):
    sign_up()
    browser = a_browser_behind(link())
    page = choose(browser, password)
    assert page.status_code == HTTPStatus.UNPROCESSABLE_ENTITY
    assert pages.errors(page)
    assert not User.objects.exists()
    assert choose(browser)["Location"] == "/desk/connect"


def test_somebody_else_at_the_same_browser_is_signed_out(known):
    browser = staff.a_client(known, "password")
    sign_up()
    browser.get(link())
    choose(browser)
    new = User.objects.get(email=ADDRESS)
    assert browser.session["_auth_user_id"] == str(new.pk)
    assert browser.get("/accounts/close/").status_code == 200, "it counts as a recent sign-in"
    assert UserSession.objects.get(session_key=browser.session.session_key).user == new


# --- Who has an account --------------------------------------------------------------------------


def test_the_answer_is_the_same_with_and_without_an_account(known):
    one, other = sign_up(KNOWN), sign_up()
    assert (one.status_code, one["Location"]) == (HTTPStatus.FOUND, "/accounts/signup/sent/")
    assert one.status_code == other.status_code
    assert one.content == other.content
    assert set(one.cookies) == set(other.cookies) == {"sent"}  # which holds the address itself
    same = set(one.headers) - {"X-Request-Id"}
    assert {name: one[name] for name in same} == {name: other[name] for name in same}
    assert set(other.headers) - {"X-Request-Id"} == same


def test_the_work_is_the_same_with_and_without_an_account(known):
    asked = []
    for address in (KNOWN, ADDRESS):
        with CaptureQueriesContext(connection) as queries:
            sign_up(address)
        asked.append([query["sql"].replace(address, "x") for query in queries])
    assert asked[0] == asked[1]
    assert [message.to for message in mail.outbox] == [[KNOWN], [ADDRESS]]


def test_a_known_address_learns_by_mail_how_to_sign_in(known):
    sign_up(KNOWN.upper())
    body = mail.outbox[-1].body
    assert "It already has an account." in body
    for path in ("/accounts/login/", "/accounts/password/reset/"):
        assert f"http://testserver{path}" in body
    assert "/signup/" not in body


def test_staff_who_have_not_verified_their_address_yet_are_known():
    a_staff_user(KNOWN)
    sign_up(KNOWN)
    assert "It already has an account." in mail.outbox[-1].body


def test_who_signs_a_stranger_up_opens_nothing():
    """The first one chose a password, as sign-up took one; then the owner followed the mail."""
    Client().post(SIGN_UP, {"email": ADDRESS, "password1": "the attacker's own choice"})
    sign_up()
    choose(a_browser_behind(link()))
    thief = Client()
    thief.post("/accounts/login/", {"login": ADDRESS, "password": "the attacker's own choice"})
    assert not signed_in(thief)
    assert User.objects.get().check_password(PASSWORD)


def test_a_link_that_confirms_another_address_sets_no_password(known):
    browser = staff.a_client(known, "password")
    browser.post("/accounts/reauthenticate/", {"password": PASSWORD})
    browser.post("/accounts/email/", {"email": "second@example.com", "action_add": ""})
    path = re.search(r"testserver(\S+/confirm-email/\S+)", str(mail.outbox[-1].body)).group(1)
    visitor = Client()
    assert "password1" not in pages.fields(visitor.get(path))
    visitor.post(path, {"password1": "another horse battery"})
    known.refresh_from_db()
    assert known.email == "second@example.com"
    assert known.check_password(PASSWORD)
    assert not signed_in(visitor)


# --- How often -----------------------------------------------------------------------------------


def test_an_address_gets_three_mails_in_ten_minutes_whoever_asks(known):
    for address in (KNOWN, ADDRESS):
        answers = [
            sign_up(address, Client(REMOTE_ADDR=f"198.51.100.{n}")).status_code for n in range(4)
        ]
        assert answers == [HTTPStatus.FOUND] * 3 + [HTTPStatus.TOO_MANY_REQUESTS]
    assert len(mail.outbox) == 6


def test_a_client_asks_twenty_times_a_minute():
    answers = [sign_up(f"x{number}@example.com").status_code for number in range(21)]
    assert answers[19:] == [HTTPStatus.FOUND, HTTPStatus.TOO_MANY_REQUESTS]


def test_passwords_behind_a_link_are_tried_twenty_times_a_minute():
    sign_up()
    browser = a_browser_behind(link())
    answers = [choose(browser, "weak").status_code for _ in range(21)]
    assert answers[19:] == [HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.TOO_MANY_REQUESTS]


def test_an_address_that_somebody_else_verified_meanwhile_is_refused(known):
    """Whoever changes to an address verifies it; its user row may follow a moment later."""
    EmailAddress.objects.create(user=known, email=ADDRESS, verified=True)
    hashed = make_password(PASSWORD)
    assert actions.open_account(address=ADDRESS, password=hashed) is None
    assert User.objects.get() == known
    assert not Event.objects.exists()
