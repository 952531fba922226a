"""Closing an account: what ends, what is deleted, what stays, and what the log says."""

import pytest
from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.usersessions.models import UserSession
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from config.accounts import data_page
from desks.actions import is_taken, open_account
from desks.models import Automation, Connection, Desk, Election, NoticeChoice, QueuedNotice, User
from events.actors import SYSTEM
from events.http.refusals import Invalid
from events.kinds import Kind
from events.models import Event
from signals.control.customers import ReactivateUser
from tests import factories, pages, staff
from tests.client import ME, get, push
from tests.notices import send
from tests.signals import bodies
from tokens import account_closing
from tokens.account_closing import close_account, deactivate, reactivate
from tokens.models import SigningSecret

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def user(desk: Desk) -> User:
    RecoveryCodes.activate(desk.user)
    return desk.user


def test_bots_end_first_then_all_else_in_one_turn_and_the_last_event_is_desk_closed(
    desk, user, bot
):
    token = factories.a_desk_token(desk)
    before = Event.objects.count()
    close_account(desk)
    events = list(Event.objects.filter(position__gt=before).order_by("position"))
    assert [event.kind for event in events] == [
        Kind.SECRET_ENDED,
        Kind.ELECTION_WITHDRAWN,
        Kind.AUTOMATION_REMOVED,
        Kind.ELECTION_WITHDRAWN,
        Kind.DESK_DISCONNECTED,
        Kind.TOKEN_REVOKED,
        Kind.DESK_CLOSED,
    ]
    assert len({event.at for event in events[:3]}) == 1  # the turn of the bot
    assert len({event.at for event in events[3:]}) == 1  # the last turn
    assert {event.actor for event in events} == {desk.actor}
    assert {row.reason for row in Election.objects.all()} == {"closed"}
    assert not Automation.objects.not_removed().exists()
    assert not Connection.objects.exists()
    assert get(ME, token).status_code == 401
    assert push(bodies.tradingview(bot), secret=bot.secret).status_code == 401


def test_the_personal_data_is_deleted_and_the_ids_stay(desk, user, bot):
    address = user.email
    browser, hashed = Client(), user.password
    staff.sign_in(browser, user, staff.with_totp(user))
    assert browser.get("/desk").status_code == 200
    NoticeChoice.objects.create(user=user)
    kind = QueuedNotice._meta.get_field("kind").choices[0][0]
    waiting = QueuedNotice.objects.create(
        user=user, kind=kind, subject="Waiting", body=address, due_at=timezone.now()
    )
    close_account(desk)
    closed = User.objects.get(pk=user.pk)
    assert address not in str(vars(closed))
    assert closed.password != hashed
    assert not closed.has_usable_password()
    assert not closed.is_active
    assert closed.last_login is None
    assert not QueuedNotice.objects.filter(pk=waiting.pk).exists()
    for model in (EmailAddress, Authenticator, NoticeChoice, UserSession, Session):
        assert not model.objects.exists(), model
    assert {bytes(secret.ciphertext) for secret in SigningSecret.objects.all()} == {b""}
    assert Desk.objects.get(user=closed).public_id == desk.public_id
    assert browser.get("/desk").status_code == 302
    assert not [each for each in Event.objects.all() if address in str(each.content)]


def test_a_closed_account_cannot_sign_in_and_its_address_can_sign_up_again(desk, user):
    address = staff.verified(user).email
    close_account(desk)
    assert pages.errors(staff.give_password(Client(), user))
    assert not is_taken(address)
    again = open_account(address=address, password="x")
    assert again is not None
    assert again.pk != user.pk
    assert again.desk.public_id != desk.public_id


def test_who_closes_an_account_that_staff_just_deactivated_is_not_told_that_it_is_closed(
    desk, user, monkeypatch
):
    browser = staff.a_client(staff.verified(user))

    def deactivated_first(closing: Desk) -> bool:
        deactivate(user=user, actor=SYSTEM)
        return close_account(closing)

    monkeypatch.setattr(data_page, "close_account", deactivated_first)
    page = browser.post("/accounts/close/", {"understood": "on"}, follow=True)
    assert "Your account was not closed: it was deactivated a moment ago." in pages.words(page)
    assert User.objects.get(pk=user.pk).closed_at is None


def test_a_user_whom_staff_deactivated_signs_in_anew_after_a_reactivation(desk, user):
    browser = Client()
    staff.sign_in(browser, user, staff.with_totp(user))
    assert browser.get("/desk").status_code == 200
    deactivate(user=user, actor=SYSTEM)
    reactivate(user=user, actor=SYSTEM)
    assert browser.get("/desk")["Location"].startswith("/accounts/login/")
    assert not UserSession.objects.exists()


def test_nobody_reactivates_it(desk, user):
    close_account(desk)
    closed = User.objects.get(pk=user.pk)
    assert not ReactivateUser.applies_to(closed)
    with pytest.raises(Invalid):
        account_closing.reactivate(user=closed, actor=SYSTEM)


def test_one_mail_to_the_address_that_it_had_says_so(desk, user, bot):
    factories.a_desk_token(desk)
    address = user.email
    close_account(desk)
    assert [(message.to, message.subject) for message in send()] == [
        ([address], "Your account is closed")
    ]


def test_closing_twice_closes_once(desk, user):
    close_account(desk)
    before = Event.objects.count()
    close_account(desk)
    assert Event.objects.count() == before


def test_another_account_is_left_alone(desk, user, stranger):
    other = staff.verified(stranger.user)
    browser = staff.a_client(other, "password")
    close_account(desk)
    assert browser.get("/desk").status_code == 200
    assert Connection.objects.filter(desk=stranger).exists()
    assert staff.give_password(Client(), other)["Location"] == "/desk"
