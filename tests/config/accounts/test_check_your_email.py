"""The pages "Check your email": they name the address and send again, and reveal no account."""

from http import HTTPStatus

import pytest
import time_machine
from django.core import mail
from django.test import Client
from django.utils import timezone

from config.accounts.check_your_email import COOLDOWN
from config.environment import CONSOLE_MAIL
from tests import pages, staff
from tests.factories import UserFactory

pytestmark = [pytest.mark.django_db, pytest.mark.once]

KNOWN, UNKNOWN = "known@example.com", "unknown@example.com"
# What the mail holds that each of them sends to an address without an account.
FORMS = {
    "/accounts/signup/": "/accounts/signup/link/",
    "/accounts/password/reset/": "It has no account.",
}


@pytest.fixture(autouse=True)
def known(db) -> None:
    staff.verified(UserFactory.create(email=KNOWN))


@pytest.fixture
def clock():
    with time_machine.travel(timezone.now(), tick=False) as clock:
        yield clock


def ask(browser: Client, form: str, address: str = UNKNOWN):
    return browser.post(form, {"email": address}, follow=True)


@pytest.mark.parametrize("form", FORMS)
def test_it_sends_nothing_during_the_cooldown_and_says_how_long(form, clock):
    browser = Client()
    page = ask(browser, form)
    assert f"We sent an email to {UNKNOWN}." in pages.words(page)
    assert f'name="email" value="{UNKNOWN}"' in pages.source(page)
    clock.shift(COOLDOWN - 20)
    page = ask(browser, form)
    assert page.status_code == HTTPStatus.TOO_MANY_REQUESTS
    assert page["Retry-After"] == "20"
    assert "You can send it again in 20 seconds." in pages.words(page)
    assert len(mail.outbox) == 1
    assert ask(browser, form, KNOWN).status_code == HTTPStatus.OK  # another address
    clock.shift(20)
    assert ask(browser, form).status_code == HTTPStatus.OK
    assert [message.to for message in mail.outbox] == [[UNKNOWN], [KNOWN], [UNKNOWN]]
    assert FORMS[form] in mail.outbox[-1].body


@pytest.mark.parametrize("form", FORMS)
def test_it_says_the_same_for_an_address_with_and_without_an_account(form, clock):
    def told(address):
        browser = Client()
        found = [ask(browser, form, address) for _ in range(2)]
        clock.shift(COOLDOWN)
        found.append(ask(browser, form, address))
        return [(page.status_code, pages.words(page).replace(address, "x")) for page in found]

    assert told(KNOWN) == told(UNKNOWN)


@pytest.mark.parametrize("page", ["/accounts/signup/sent/", "/accounts/password/reset/done/"])
def test_a_server_that_prints_its_mail_says_so(page, settings):
    assert "terminal" not in pages.words(Client().get(page))
    settings.EMAIL_BACKEND = CONSOLE_MAIL
    assert "it prints each mail to the terminal" in pages.words(Client().get(page))


def test_a_printed_mail_has_no_html(settings, capsys):
    settings.EMAIL_BACKEND = CONSOLE_MAIL
    message = mail.EmailMultiAlternatives("A subject", "Some words.", to=[KNOWN])
    message.attach_alternative("<p>Some words.</p>", "text/html")
    message.send()
    printed = capsys.readouterr().out
    assert printed.startswith(f"Mail to {KNOWN}\nSubject: A subject\n\nSome words.\n")
    assert "<p>" not in printed


def test_an_address_that_somebody_else_wrote_into_the_cookie_is_not_named():
    browser = Client()
    browser.cookies["sent"] = "made-up"
    page = browser.get("/accounts/signup/sent/")
    assert "the address that you entered" in pages.words(page)
    assert "made-up" not in pages.source(page)
