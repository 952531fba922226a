"""A staff session ends twelve hours after sign-in, whatever its activity."""

import pytest
import time_machine
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from tests import factories, staff
from tests.client import TOKENS
from tests.factories import PASSWORD

LOGIN = "/accounts/login/"
HOUR = 3600

pytestmark = [pytest.mark.django_db, pytest.mark.once]


def is_signed_in(browser: Client) -> bool:
    """Returns whether pages and the API accept the session."""
    pages = [browser.get(path).status_code == 200 for path in ("/control/", "/accounts/email/")]
    api = browser.get(TOKENS).status_code == 200
    assert len({api, *pages}) == 1
    return api


def test_it_ends_after_twelve_hours_and_proving_again_who_one_is_does_not_prolong_it(settings):
    settings.REQUIRE_STAFF_MFA = True
    member, browser = factories.a_staff_user(), Client()
    secret = staff.with_totp(member)
    with time_machine.travel(timezone.now(), tick=False) as clock:
        staff.sign_in(browser, member, secret)
        for hour in range(12):
            assert is_signed_in(browser), hour
            browser.post("/accounts/reauthenticate/", {"password": PASSWORD})
            clock.shift(HOUR)
        assert is_signed_in(browser)
        clock.shift(1)
        assert browser.get("/control/")["Location"] == f"{LOGIN}?next=/control/"
        assert not is_signed_in(browser)


def test_the_session_is_gone_and_not_only_passed_over():
    browser = staff.a_client(opened_ago=staff.TOO_OLD)
    assert not is_signed_in(browser)
    assert not Session.objects.exists()


def test_who_asked_to_be_remembered_is_not_remembered_longer():
    member, browser = staff.verified(factories.a_staff_user()), Client()
    fields = {"login": member.email, "password": PASSWORD, "remember": "on"}
    with time_machine.travel(timezone.now(), tick=False) as clock:
        browser.post(LOGIN, fields)
        assert is_signed_in(browser)
        clock.shift(12 * HOUR + 1)
        assert not is_signed_in(browser)


def test_of_a_session_that_does_not_say_when_it_was_opened_nothing_is_believed():
    browser = staff.a_client()
    session = browser.session
    del session["signed_in_at"]
    session.save()
    assert not is_signed_in(browser)


def test_who_became_staff_in_an_old_session_signs_in_again(desk):
    browser = staff.a_client(desk.user, opened_ago=staff.TOO_OLD)
    assert browser.get("/desk").status_code == 200
    desk.user.is_staff = desk.user.is_superuser = True
    desk.user.save()
    assert not is_signed_in(browser)


def test_a_customers_session_goes_on(desk):
    browser = staff.a_client(desk.user, "password", opened_ago=staff.TOO_OLD)
    assert browser.get("/desk").status_code == 200
    assert browser.get(TOKENS).status_code == 200
