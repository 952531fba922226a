"""Account changes are told by notices, in the transaction of the change."""

import re
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from allauth.account.models import EmailAddress
from allauth.core.context import request_context
from allauth.mfa.adapter import get_adapter
from allauth.mfa.models import Authenticator
from django.core import mail
from django.core.mail.backends.locmem import EmailBackend
from django.db import transaction
from django.http import HttpRequest
from django.test import Client
from django.utils import timezone

from config.accounts.adapters import AccountAdapter
from config.accounts.pages import _remove
from desks.models import Desk, QueuedNotice, User
from tests import staff
from tests.factories import PASSWORD
from tests.notices import send
from tokens.account_closing import close_account

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.once]

NEW = "another horse battery"


@pytest.fixture
def account(member):
    """A browser whose user has just re-authenticated."""
    account = staff.a_client(member, "password")
    account.post("/accounts/reauthenticate/", {"password": PASSWORD})
    mail.outbox.clear()
    return account


def subjects():
    """The subjects of the notices since the last call."""
    return [message.subject for message in send()]


def assert_time_is_now(body, zone, name):
    written = re.search(rf"(\d+ \w+ \d{{4}}, \d\d:\d\d) {name}\b", body)[1]
    at = datetime.strptime(written, "%d %B %Y, %H:%M").replace(tzinfo=ZoneInfo(zone))
    assert abs(timezone.now() - at) < timedelta(minutes=20)


def link(part):
    return re.search(rf"testserver(/accounts/{part}\S+)", str(mail.outbox[-1].body))[1]


def change_password(account):
    fields = {"oldpassword": PASSWORD, "password1": NEW, "password2": NEW}
    return account.post("/accounts/password/change/", fields)


def add_totp(account):
    account.get("/accounts/2fa/totp/activate/")
    secret = account.session["mfa.totp.secret"]
    return staff.give_code(account, "/accounts/2fa/totp/activate/", secret)


def test_a_password_that_changes(account, member):
    change_password(account)
    (message,) = send()
    assert (message.subject, message.to) == ("Your password was changed", [member.email])
    assert_time_is_now(message.body, "UTC", "UTC")
    assert "IP address: 127.0.0.1" in message.body
    assert "http://testserver/accounts/password/reset/" in message.body
    assert NEW not in message.body


# Half an hour off, so that no mistake looks right.
@pytest.mark.parametrize(
    ("zone", "shown", "name"), [("Asia/Kolkata", "Asia/Kolkata", "IST"), ("", "UTC", "UTC")]
)
def test_times_of_mails_are_in_the_zone_of_the_user(account, member, zone, shown, name):
    User.objects.filter(pk=member.pk).update(time_zone=zone)
    account.post("/accounts/email/", {"email": "new@example.com", "action_add": ""})
    account.post(link("confirm-email/"))
    account.post("/desk/token")
    change_password(account)
    messages = send()
    assert len(messages) == 4
    for message in messages:
        assert_time_is_now(message.body, shown, name)


def test_a_password_that_is_reset(member):
    visitor = Client()
    visitor.post("/accounts/password/reset/", {"email": member.email})
    form = visitor.get(link("password/reset/key/"))["Location"]
    visitor.post(form, {"password1": NEW, "password2": NEW})
    assert subjects() == ["Your password was reset"]
    assert mail.outbox[-1].to == [member.email]


def test_the_password_is_reset_by_a_link_of_the_services_own(member, settings):
    settings.BASE_URL = "https://signals.example"
    visitor = Client(headers={"Host": "localhost:1"})
    visitor.post("/accounts/password/reset/", {"email": member.email})
    assert "https://signals.example/accounts/password/reset/key/" in mail.outbox[-1].body
    assert "localhost" not in mail.outbox[-1].body


def test_a_mail_with_a_link_says_when_the_link_expires(account, member):
    Client().post("/accounts/password/reset/", {"email": member.email})
    account.post("/accounts/email/", {"email": "new@example.com", "action_add": ""})
    reset, confirmation = (message.body for message in mail.outbox)
    assert "The link works once and expires after 3 days." in reset
    assert "The link expires after 3 days." in confirmation


def test_an_address_that_changes_is_told_at_the_old_and_at_the_new_one(account, member):
    old, new = member.email, "new@example.com"
    account.post("/accounts/email/", {"email": new, "action_add": ""})
    path = link("confirm-email/")
    account.post(path)
    messages = send()
    assert [message.to for message in messages] == [[old], [new]]
    for message in messages:
        assert f"was changed from {old} to {new}" in message.body
    assert EmailAddress.objects.get().email == new


@pytest.mark.parametrize("ended", ["account", "address"])
def test_an_address_that_is_being_confirmed_does_not_come_back(account, member, ended):
    account.post("/accounts/email/", {"email": "new@example.com", "action_add": ""})
    read_before = EmailAddress.objects.get(email="new@example.com")
    if ended == "account":
        close_account(Desk.objects.get(user=member))
    else:
        account.post("/accounts/email/cancel/")
    with transaction.atomic():  # as the page's
        assert not AccountAdapter().confirm_email(HttpRequest(), read_before)
    assert not EmailAddress.objects.filter(email="new@example.com").exists()
    assert not User.objects.filter(email="new@example.com").exists()


def test_an_address_that_was_confirmed_meanwhile_is_not_cancelled(account, member):
    account.post("/accounts/email/", {"email": "new@example.com", "action_add": ""})
    read_before = EmailAddress.objects.get(email="new@example.com")
    account.post(link("confirm-email/"))
    with transaction.atomic():  # as the page's
        _remove(HttpRequest(), member, read_before)
    assert EmailAddress.objects.get().email == "new@example.com"


def test_second_factors_that_come_and_go(account, member):
    add_totp(account)
    (message,) = send()
    assert message.subject == "An authenticator app was added"
    kept = [str(row.data) for row in Authenticator.objects.all()]
    assert not [secret for secret in kept if secret in message.body]
    account.post("/accounts/2fa/recovery-codes/generate/")
    assert subjects() == ["New recovery codes were generated"]
    account.post("/accounts/2fa/totp/deactivate/")
    (message,) = send()
    assert (message.subject, message.to) == ("An authenticator app was removed", [member.email])


@pytest.mark.parametrize("change", ["added", "removed"])
def test_a_security_key_that_comes_or_goes(account, member, change, rf):
    # Only a device makes one: the library's own call that ends its flow is made instead.
    adapter = get_adapter()
    request = rf.get("/", REMOTE_ADDR="127.0.0.1")
    with request_context(request):
        adapter.send_notification_mail(f"mfa/email/webauthn_{change}", member)
    assert subjects() == [f"A security key was {change}"]


@pytest.mark.parametrize("change", [change_password, add_totp])
def test_no_request_sends_a_notice(account, member, change, monkeypatch):
    monkeypatch.setattr(EmailBackend, "send_messages", lambda *_: 1 / 0)
    assert change(account).status_code == 302
    assert QueuedNotice.objects.count() == 1


def test_a_change_and_its_notice_are_one_transaction(account, member, monkeypatch):
    add_totp(account)
    EmailAddress.objects.create(user=member, email="new@example.com")
    monkeypatch.setattr("config.accounts.adapters.write_security", lambda *_, **__: 1 / 0)
    assert change_password(account).status_code == 500
    member.refresh_from_db()
    assert member.check_password(PASSWORD)
    assert account.post("/accounts/2fa/totp/deactivate/").status_code == 500
    assert Authenticator.objects.filter(type="totp").exists()
    assert account.post("/accounts/email/cancel/").status_code == 500
    assert EmailAddress.objects.filter(email="new@example.com").exists()


class TestSignIns:
    @pytest.fixture
    def sign_in(self, member):
        """Signs a user in who signed up long ago."""
        User.objects.update(date_joined=timezone.now() - timedelta(days=1))

        def sign_in(**environ):
            browser = Client(**environ)
            form = {"login": member.email, "password": PASSWORD}
            assert browser.post("/accounts/login/", form).status_code == 302
            browser.get("/desk")
            return [message.subject for message in send()]

        return sign_in

    def test_one_from_an_unknown_browser_or_address_is_told(self, sign_in):
        new = ["New sign-in to your account"]
        assert sign_in(headers={"User-Agent": "One"}) == new
        assert sign_in(headers={"User-Agent": "One"}) == []
        assert sign_in(headers={"User-Agent": "Two"}) == new
        assert sign_in(headers={"User-Agent": "One"}, REMOTE_ADDR="127.0.0.9") == new

    def test_a_browser_that_sends_no_name_is_known_too(self, sign_in):
        assert sign_in() == ["New sign-in to your account"]
        assert sign_in() == []

    def test_a_wrong_password_is_not_told(self, member):
        form = {"login": member.email, "password": "wrong"}
        assert Client().post("/accounts/login/", form).status_code == 200
        assert send() == []


def test_a_mail_that_fails_is_not_told_apart_when_one_signs_up(member, monkeypatch):
    monkeypatch.setattr(EmailBackend, "send_messages", lambda *_: 1 / 0)
    for address in (member.email, "new@example.com"):
        answer = Client().post("/accounts/signup/", {"email": address})
        assert answer["Location"] == "/accounts/signup/sent/"
