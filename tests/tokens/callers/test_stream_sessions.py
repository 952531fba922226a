"""Streams that a session opened: how the service learns that the session ended."""

from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.http import HttpRequest
from django.utils import timezone

from desks.ids import new_staff_id
from desks.models import User
from events.actors import SYSTEM
from tests import factories
from tests.client import signed_in
from tokens.account_closing import close_account, deactivate
from tokens.callers.staff import MAX_SESSION_AGE
from tokens.callers.stream_sessions import SESSIONS, session_credential

pytestmark = pytest.mark.django_db


def credential_of(browser, user):
    """The credential of the stream that this browser would open."""
    request = HttpRequest()
    request.session = browser.session
    return session_credential(request, user)


@pytest.fixture
def user(desk):
    return User.objects.get(desk=desk)


def sign_out(browser, user):
    browser.post("/accounts/logout/")


def expire(browser, user):
    Session.objects.update(expire_date=timezone.now())


def change_password(browser, user):
    user.set_password("another horse battery")
    user.save()


def make_staff(browser, user):
    User.objects.filter(pk=user.pk).update(
        is_staff=True, is_superuser=True, staff_id=new_staff_id()
    )


ENDS = [
    sign_out,
    expire,
    change_password,
    make_staff,
    lambda browser, user: deactivate(user=user, actor=SYSTEM),
    lambda browser, user: close_account(user.desk),
]


@pytest.mark.parametrize("end", ENDS)
def test_whatever_ends_a_session_ends_its_streams_and_no_others(
    user, stranger, end, django_assert_num_queries
):
    other = User.objects.get(desk=stranger)
    browser = signed_in(user, "password")
    kept = credential_of(signed_in(other, "password"), other)
    ended = credential_of(browser, user)
    assert list(SESSIONS.find_ended([ended.id, kept.id])) == []
    end(browser, user)
    if end is expire:
        Session.objects.filter(pk=kept.id.partition(":")[0]).update(
            expire_date=timezone.now() + timedelta(hours=1)
        )
    with django_assert_num_queries(2):
        assert list(SESSIONS.find_ended([ended.id, kept.id])) == [ended.id]


def test_two_statements_look_at_more_sessions_than_a_statement_has_parameters(
    user, django_assert_num_queries
):
    """PostgreSQL takes 65,535 parameters, SQLite as it is built for Debian 250,000."""
    kept = credential_of(signed_in(user, "password"), user)
    gone = {f"session{number}:{user.pk + number}:digest" for number in range(1, 300_001)}
    with django_assert_num_queries(2):
        assert set(SESSIONS.find_ended([kept.id, *gone])) == gone


def test_a_session_of_staff_ends_its_streams_after_twelve_hours(user):
    member = factories.a_staff_user()
    began = timezone.now()
    end = credential_of(signed_in(member, "password"), member).expires_at
    assert MAX_SESSION_AGE <= end - began <= MAX_SESSION_AGE + timedelta(minutes=1)
    assert credential_of(signed_in(user, "password"), user).expires_at is None


def test_the_id_of_a_credential_holds_no_password_hash(user):
    assert user.password not in credential_of(signed_in(user, "password"), user).id
