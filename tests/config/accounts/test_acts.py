"""Account pages that ask before they act, and the page of an address that is not confirmed yet."""

import re
from datetime import timedelta
from http import HTTPStatus

import pytest
import time_machine
from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from django.contrib.auth import HASH_SESSION_KEY
from django.contrib.sessions.models import Session
from django.core import mail
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from config.accounts import sessions
from config.accounts.check_your_email import COOLDOWN
from config.accounts.second_factors import MAX_SECURITY_KEYS, AddPasskeyForm
from config.accounts.sessions import MAX_SESSIONS
from desks.models import User
from tests import factories, pages, staff
from tests.config.accounts.test_words import in_title_case

pytestmark = [pytest.mark.django_db, pytest.mark.once]

SESSIONS, END = "/accounts/sessions/", "/accounts/sessions/end/"
ADDRESS, CANCEL = "/accounts/email/", "/accounts/email/cancel/"
CONFIRM = "/accounts/confirm-email/"
NEW = "new@example.com"
RED = '<button type="submit" class="button danger">'


@pytest.fixture
def clock():
    with time_machine.travel(timezone.now(), tick=False) as clock:
        yield clock


@pytest.fixture
def here(member) -> Client:
    """A browser in which the desk's owner signed in just now."""
    here = Client()
    staff.give_password(here, member)
    return here


@pytest.fixture
def elsewhere(member) -> Client:
    """Another one, of the same owner."""
    other = Client(headers={"User-Agent": "Firefox on a phone"})
    staff.give_password(other, member)
    return other


def is_in(here: Client) -> bool:
    return here.get("/desk").status_code == HTTPStatus.OK


class TestSigningOutTheOtherSessions:
    def test_a_red_link_leads_to_the_page_that_asks_and_then_they_are_signed_out(
        self, here, elsewhere
    ):
        assert f'<a class="button danger" href="{END}">' in pages.source(here.get(SESSIONS))
        page = here.get(END)
        assert RED in pages.source(page)
        assert in_title_case(pages.source(page)) == []
        assert "Firefox on a phone at 127.0.0.1 is signed out." in pages.words(page)
        assert is_in(elsewhere)
        done = here.post(END, follow=True)
        assert "All other sessions are signed out." in pages.source(done)
        assert (is_in(here), is_in(elsewhere)) == (True, False)
        assert UserSession.objects.count() == 1

    def test_posting_to_the_list_asks_too(self, here, elsewhere):
        assert here.post(SESSIONS)["Location"] == END
        assert is_in(elsewhere)

    def test_each_row_names_its_browser_and_its_last_use_and_signs_out_alone(
        self, here, elsewhere, member, clock
    ):
        agent = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/140.0 Safari/537.36"
        third = Client(headers={"User-Agent": agent})
        staff.give_password(third, member)
        clock.shift(timedelta(minutes=20))
        assert is_in(elsewhere)
        clock.shift(timedelta(minutes=2))
        page = pages.words(here.get(SESSIONS))
        assert "Chrome on Linux 127.0.0.1, last used 22 minutes ago" in page
        assert "Firefox on a phone 127.0.0.1, last used 2 minutes ago" in page
        assert "127.0.0.1, active now, signed in 22 minutes ago this one" in page
        row = UserSession.objects.get(user_agent=agent)
        end = f"{SESSIONS}{row.pk}/end/"
        assert f'href="{end}"' in pages.source(here.get(SESSIONS))
        assert "Chrome on Linux at 127.0.0.1 is signed out." in pages.words(here.get(end))
        assert "The session is signed out." in pages.source(here.post(end, follow=True))
        assert (is_in(here), is_in(elsewhere), is_in(third)) == (True, True, False)

    def test_the_use_of_a_session_is_saved_at_most_every_five_minutes(self, here, clock):
        begun = UserSession.objects.get().last_seen_at
        used = []
        for minutes in (4, 2, 4, 2):
            clock.shift(timedelta(minutes=minutes))
            assert is_in(here)
            used.append((UserSession.objects.get().last_seen_at - begun) // timedelta(minutes=1))
        assert used == [0, 6, 6, 12]

    def test_neither_this_session_nor_that_of_another_user_is_signed_out(self, here, stranger):
        theirs = Client()
        staff.give_password(theirs, staff.verified(stranger.user))
        for row in UserSession.objects.all():
            assert here.post(f"{SESSIONS}{row.pk}/end/")["Location"] == SESSIONS
        assert (is_in(here), is_in(theirs)) == (True, True)

    def test_a_session_that_ended_is_not_listed_and_without_another_nothing_is_asked(
        self, here, elsewhere, member
    ):
        Session.objects.filter(pk=elsewhere.session.session_key).delete()
        dead = Client()
        dead.force_login(member)
        session = dead.session
        session[HASH_SESSION_KEY] = "of the password before"
        session.save()
        UserSession.objects.create(
            user=member, session_key=session.session_key, ip="192.0.2.1", user_agent="Old"
        )
        page = pages.source(here.get(SESSIONS))
        assert (page.count("signed in <"), END in page) == (1, False)
        assert here.get(END)["Location"] == SESSIONS


def signed_in(user: User, clock, count: int) -> list[Client]:
    """That many browsers of the user, which signed in one after the other."""
    browsers = [Client() for _ in range(count)]
    for browser in browsers:
        clock.shift(timedelta(seconds=1))
        staff.give_password(browser, user)
    return browsers


class TestTheNumberOfSessions:
    def test_a_sign_in_beyond_it_ends_the_session_that_was_used_least_recently(self, member, clock):
        first, second, *_ = signed_in(member, clock, MAX_SESSIONS)
        clock.shift(timedelta(minutes=6))
        assert (is_in(first), is_in(second)) == (True, True)
        clock.shift(timedelta(minutes=6))
        assert is_in(first)
        UserSession.objects.filter(session_key=second.session.session_key).update(
            last_seen_at=timezone.now() - timedelta(days=1)
        )
        signed_in(member, clock, 1)
        assert (is_in(first), is_in(second)) == (True, False)
        assert UserSession.objects.count() == Session.objects.count() == MAX_SESSIONS

    def test_one_that_has_ended_takes_no_place(self, member, clock):
        first, *_, last = signed_in(member, clock, MAX_SESSIONS)
        last.post("/accounts/logout/")
        signed_in(member, clock, 1)
        assert is_in(first)

    def test_it_is_counted_for_each_user(self, member, stranger, clock):
        [theirs] = signed_in(staff.verified(stranger.user), clock, 1)
        signed_in(member, clock, MAX_SESSIONS + 1)
        assert is_in(theirs)

    def test_those_of_before_the_limit_are_listed_and_ended_too(self, member, clock, monkeypatch):
        with monkeypatch.context() as before:
            before.setattr(sessions, "MAX_SESSIONS", 2 * MAX_SESSIONS)
            *others, here = signed_in(member, clock, MAX_SESSIONS + 2)
        assert pages.source(here.get(SESSIONS)).count("signed in <") == MAX_SESSIONS + 2
        here.post(END)
        assert not any(map(is_in, others))
        assert is_in(here)

    def test_the_pages_take_as_many_statements_for_many_as_for_few(self, member, clock):
        here, _ = signed_in(member, clock, 2)
        few = [statements(here, path) for path in (SESSIONS, END)]
        signed_in(member, clock, MAX_SESSIONS - 2)
        assert [statements(here, path) for path in (SESSIONS, END)] == few


def statements(browser: Client, path: str) -> int:
    with CaptureQueriesContext(connection) as made:
        assert browser.get(path).status_code == HTTPStatus.OK
    return len(made)


class TestTheLimitOfPages:
    @pytest.fixture(autouse=True)
    def two(self, settings):
        settings.LIMITS = {**settings.LIMITS, "pages": "2/minute"}

    def test_the_account_pages_count(self, here):
        paths = (SESSIONS, "/accounts/preferences/", "/accounts/2fa/", SESSIONS, END)
        answers = [here.get(path).status_code for path in paths]
        assert answers == [200, 200, 429, 429, 429]
        assert here.get("/desk").status_code == HTTPStatus.TOO_MANY_REQUESTS

    def test_a_visitor_has_none(self):
        answers = [Client().get("/accounts/login/").status_code for _ in range(4)]
        assert answers == [HTTPStatus.OK] * 4

    def test_a_sign_out_and_the_closing_do_not(self, here):
        for _ in range(3):
            here.get(SESSIONS)
        assert here.get("/accounts/reauthenticate/").status_code == HTTPStatus.OK
        assert here.get("/accounts/close/").status_code in (HTTPStatus.OK, HTTPStatus.FOUND)
        assert here.post("/accounts/logout/").status_code == HTTPStatus.FOUND
        assert not is_in(here)


class TestCancellingTheChangeOfTheAddress:
    @pytest.fixture
    def changing(self, here) -> Client:
        here.post("/accounts/reauthenticate/", {"password": factories.PASSWORD})
        here.post(ADDRESS, {"email": NEW, "action_add": ""})
        assert EmailAddress.objects.filter(email=NEW).exists()
        return here

    def test_a_red_link_leads_to_the_page_that_asks_and_then_it_is_cancelled(
        self, changing, member
    ):
        page = pages.source(changing.get(ADDRESS))
        assert f'<a class="button danger small" href="{CANCEL}">' in page
        asked = changing.get(CANCEL)
        assert RED in pages.source(asked)
        assert in_title_case(pages.source(asked)) == []
        assert f"The link that we sent to {NEW} stops working." in pages.words(asked)
        assert f"You keep signing in with {member.email}." in pages.words(asked)
        assert EmailAddress.objects.filter(email=NEW).exists()
        assert changing.post(CANCEL)["Location"] == ADDRESS
        assert EmailAddress.objects.get().email == member.email
        assert changing.get(CANCEL)["Location"] == ADDRESS

    def test_posting_to_the_address_page_asks_too(self, changing):
        answer = changing.post(ADDRESS, {"email": NEW, "action_remove": ""})
        assert answer["Location"] == CANCEL
        assert EmailAddress.objects.filter(email=NEW).exists()

    def test_a_second_factor_waits_for_it_and_the_page_says_so(self, changing):
        page = pages.words(changing.get("/accounts/2fa/totp/activate/", follow=True))
        assert "while your new email address waits for its confirmation" in page
        changing.post(CANCEL)
        page = pages.words(changing.get("/accounts/2fa/totp/activate/", follow=True))
        assert "waits for its confirmation" not in page

    def test_the_link_is_sent_again_once_a_minute_and_the_page_says_so(self, clock, changing):
        again = {"email": NEW, "action_send": ""}
        early = changing.post(ADDRESS, again, follow=True)
        assert "You can send it again in a minute." in pages.source(early)
        assert len(mail.outbox) == 1
        clock.shift(COOLDOWN + 1)
        late = changing.post(ADDRESS, again, follow=True)
        assert "in a minute" not in pages.source(late)
        assert [message.to for message in mail.outbox] == [[NEW]] * 2


class TestAnAddressThatIsNotConfirmed:
    @pytest.fixture
    def user(self, db):
        """A user whom a command created: the address was never confirmed."""
        return factories.UserFactory.create()

    @pytest.fixture
    def waiting(self, clock, user) -> Client:
        here = Client()
        assert staff.give_password(here, user)["Location"] == CONFIRM
        return here

    def test_the_page_names_the_address_and_sends_again_after_the_cooldown(
        self, clock, waiting, user
    ):
        page = waiting.get(CONFIRM)
        assert f"We sent an email to {user.email}." in pages.words(page)
        clock.shift(COOLDOWN - 20)
        early = waiting.post(CONFIRM, follow=True)
        assert (early.status_code, early["Retry-After"]) == (HTTPStatus.TOO_MANY_REQUESTS, "20")
        assert "You can send it again in 20 seconds." in pages.words(early)
        assert len(mail.outbox) == 1
        clock.shift(20)
        assert waiting.post(CONFIRM, follow=True).status_code == HTTPStatus.OK
        assert [message.to for message in mail.outbox] == [[user.email]] * 2
        link = re.search(r"testserver(/accounts/confirm-email/\S+)", str(mail.outbox[-1].body))[1]
        waiting.post(link)
        assert EmailAddress.objects.get(user=user).verified

    def test_the_address_has_its_limit_whatever_the_browser_keeps(self, waiting, user):
        other = Client()
        staff.give_password(other, user)
        other.get(CONFIRM)
        del other.cookies["sent"]
        assert other.post(CONFIRM).status_code == HTTPStatus.TOO_MANY_REQUESTS
        assert len(mail.outbox) == 1

    def test_it_names_nobody_to_who_did_not_give_the_password(self, waiting, user):
        visitor = Client()
        assert "We sent an email to your address." in pages.words(visitor.get(CONFIRM))
        assert visitor.post(CONFIRM, {"email": user.email})["Location"] == "/accounts/login/"
        assert len(mail.outbox) == 1


def test_a_user_has_a_limited_number_of_security_keys(member):
    def errors() -> list[str]:
        return [
            str(each) for each in AddPasskeyForm({"name": "Key"}, user=member).non_field_errors()
        ]

    for _ in range(MAX_SECURITY_KEYS):
        assert errors() == []
        Authenticator.objects.create(user=member, type=Authenticator.Type.WEBAUTHN, data={})
    assert errors() == ["You have 10 security keys. Remove one before you add another."]
