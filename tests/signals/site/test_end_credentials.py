"""Ending the token and the secrets that may be known, after a password reset."""

import re

import pytest
from allauth.mfa.totp.internal import auth as totp
from django.core import mail
from django.test import Client

from desks.models import Desk
from events.kinds import Kind
from events.models import Event
from tests import pages, staff
from tests.client import ME, get, push
from tests.factories import a_bot, a_desk_token
from tests.signals import bodies

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.once]

END, RESET, CODE = "/desk/end", "/accounts/password/reset/", "/accounts/2fa/authenticate/"
NEW = "another horse battery"


def reset(user) -> tuple[Client, str]:
    """Resets the password; returns the browser and the URL that it was redirected to."""
    browser = Client()
    browser.post(RESET, {"email": user.email})
    path = re.search(r"testserver(/accounts/password/reset/key/\S+)", str(mail.outbox[-1].body))[1]
    form = browser.get(path)["Location"]
    answer = browser.post(form, {"password1": NEW, "password2": NEW})
    return browser, answer["Location"]


def test_a_reset_leads_to_the_page_and_the_selected_credentials_end_in_one_turn(desk, member):
    token, bots = a_desk_token(desk), [a_bot(desk), a_bot(desk)]
    browser, led = reset(member)
    assert led == END
    page = pages.words(browser.get(END))
    assert "Your new password has signed out every other session." in page
    assert f"Revoke the desk token svc_desk_…{token[-4:]}" in page
    assert "End the signing secrets of your bots (2)" in page

    before = Event.objects.latest("position").position
    done = browser.post(END, {"token": "on", "secrets": "on"}, follow=True)
    text = pages.words(done)
    assert "The desk token is revoked. 2 signing secrets of your bots ended." in text
    written = Event.objects.filter(position__gt=before).order_by("position")
    assert [event.kind for event in written] == [Kind.TOKEN_REVOKED, *[Kind.SECRET_ENDED] * 2]
    assert len({event.at for event in written}) == 1, "one turn has one time"
    assert get(ME, token).status_code == 401
    for bot in bots:
        assert push(bodies.tradingview(bot), secret=bot.secret).status_code == 401


@pytest.mark.parametrize("ticked", ["token", "secrets"])
def test_credentials_that_are_not_selected_stay_valid(desk, member, ticked):
    token, bot = a_desk_token(desk), a_bot(desk)
    browser, _ = reset(member)
    browser.post(END, {ticked: "on"})
    assert (get(ME, token).status_code == 401) == (ticked == "token")
    pushed = push(bodies.tradingview(bot), secret=bot.secret).status_code
    assert (pushed == 401) == (ticked == "secrets")


def test_a_form_with_nothing_selected_is_refused(desk, member):
    token = a_desk_token(desk)
    browser, _ = reset(member)
    page = browser.post(END)
    assert page.status_code == 422
    assert pages.errors(page) == ["Select what to end, or keep everything."]
    assert get(ME, token).status_code == 200


def test_nothing_is_ended_before_the_second_factor(desk, member):
    token = a_desk_token(desk)
    secret = totp.generate_totp_secret()
    totp.TOTP.activate(member, secret)
    browser, led = reset(member)
    assert led == CODE
    assert browser.post(END, {"token": "on"})["Location"].startswith("/accounts/login/")
    assert get(ME, token).status_code == 200
    assert staff.give_code(browser, CODE, secret)["Location"] == END
    browser.post(END, {"token": "on"})
    assert get(ME, token).status_code == 401


def test_a_reset_ends_every_session(desk, member):
    elsewhere = staff.a_client(member, "password")
    assert elsewhere.get("/desk").status_code == 200
    browser, _ = reset(member)
    assert elsewhere.get("/desk").status_code == 302
    assert browser.get("/desk").status_code == 200


def test_a_reset_without_credentials_to_end_leads_to_the_desk(desk, member):
    browser, led = reset(member)
    assert led == END
    assert browser.get(END)["Location"] == "/desk"


def test_another_desks_credentials_stay_valid(desk, stranger, member):
    token, bot = a_desk_token(stranger), a_bot(stranger)
    revoked, ended = a_desk_token(desk), a_bot(desk)
    browser, _ = reset(member)
    browser.post(END, {"token": "on", "secrets": "on"})
    assert get(ME, revoked).status_code == 401
    assert push(bodies.tradingview(ended), secret=ended.secret).status_code == 401
    assert get(ME, token).status_code == 200
    assert push(bodies.tradingview(bot), secret=bot.secret).status_code == 200
    assert Desk.objects.count() == 2
