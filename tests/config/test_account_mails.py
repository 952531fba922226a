"""Account changes are reported by email, and a failed email undoes no change."""

import re

import pytest
from allauth.account.models import EmailAddress
from allauth.core.context import request_context
from allauth.mfa.adapter import get_adapter
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal import auth as totp
from django.core import mail
from django.core.mail.backends.locmem import EmailBackend
from django.test import Client

from tests import staff
from tests.factories import PASSWORD

pytestmark = pytest.mark.django_db(transaction=True)

NEW = "another horse battery"


@pytest.fixture
def account(member):
    """A browser whose user has just re-authenticated."""
    account = staff.a_client(member, "password")
    account.post("/accounts/reauthenticate/", {"password": PASSWORD})
    mail.outbox.clear()
    return account


def subjects():
    return [message.subject for message in mail.outbox]


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
    (message,) = mail.outbox
    assert (message.subject, message.to) == ("Your password was changed", [member.email])
    assert "Time: 20" in message.body
    assert "IP address: 127.0.0.1" in message.body
    assert "http://testserver/accounts/password/reset/" in message.body
    assert NEW not in message.body


def test_a_password_that_is_reset(member):
    visitor = Client()
    visitor.post("/accounts/password/reset/", {"email": member.email})
    form = visitor.get(link("password/reset/key/"))["Location"]
    visitor.post(form, {"password1": NEW, "password2": NEW})
    assert subjects() == ["Choose a new password", "Your password was reset"]
    assert mail.outbox[-1].to == [member.email]


def test_an_address_that_changes_is_told_at_the_old_and_at_the_new_one(account, member):
    old, new = member.email, "new@example.com"
    account.post("/accounts/email/", {"email": new, "action_add": ""})
    path = link("confirm-email/")
    mail.outbox.clear()
    account.post(path)
    assert [message.to for message in mail.outbox] == [[old], [new]]
    for message in mail.outbox:
        assert f"was changed from {old} to {new}" in message.body
    assert EmailAddress.objects.get().email == new


def test_second_factors_that_come_and_go(account, member):
    add_totp(account)
    assert subjects() == ["An authenticator app was added"]
    account.post("/accounts/2fa/recovery-codes/generate/")
    assert subjects()[1:] == ["New recovery codes were generated"]
    account.post("/accounts/2fa/totp/deactivate/")
    assert subjects()[2:] == ["An authenticator app was removed"]
    kept = [str(row.data) for row in Authenticator.objects.all()]
    for message in mail.outbox:
        assert message.to == [member.email]
        assert not [secret for secret in kept if secret in message.body]


@pytest.mark.parametrize("change", ["added", "removed"])
def test_a_passkey_that_comes_or_goes(account, member, change, rf):
    # Only a device makes one: the library's own call that ends its flow is made instead.
    adapter = get_adapter()
    request = rf.get("/", REMOTE_ADDR="127.0.0.1")
    with request_context(request):
        adapter.send_notification_mail(f"mfa/email/webauthn_{change}", member)
    assert subjects() == [f"A passkey was {change}"]


@pytest.mark.parametrize("change", [change_password, add_totp])
def test_a_mail_that_fails_fails_no_change(account, member, change, monkeypatch, caplog):
    def fails(*_):
        raise OSError(f"550 {member.email}")

    monkeypatch.setattr(EmailBackend, "send_messages", fails)
    assert change(account).status_code == 302
    member.refresh_from_db()
    assert member.check_password(NEW) or totp.TOTP(Authenticator.objects.get(type="totp"))
    assert "A mail was not sent: " in caplog.text
    assert member.email not in caplog.text


def test_a_mail_that_fails_is_not_told_apart_when_one_signs_up(member, monkeypatch):
    monkeypatch.setattr(EmailBackend, "send_messages", lambda *_: 1 / 0)
    for address in (member.email, "new@example.com"):
        answer = Client().post("/accounts/signup/", {"email": address})
        assert answer["Location"] == "/accounts/signup/sent/"
