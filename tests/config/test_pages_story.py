"""A customer's path from sign-up to a fill, with CSRF checks as in a browser."""

import re

import pytest
from django.core import mail
from django.test import Client

from desks.models import Desk, User
from tests.client import ME, get, push
from tests.factories import PASSWORD, a_card
from tests.pages import copied, errors, lines, source, words

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.once]

ADDRESS = "trader@example.com"
LINK = re.compile(r"http://testserver(/accounts/\S+)")


@pytest.fixture
def visitor():
    """A browser without a signed-in user."""
    return Client(enforce_csrf_checks=True, raise_request_exception=False)


def send(browser, path, _looked_at=None, **fields):
    """Opens a page and submits its form."""
    page = browser.get(_looked_at or path)
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', source(page))
    assert token is not None, path
    sent = {"csrfmiddlewaretoken": token.group(1), **fields}
    return browser.post(path, sent, follow=True)


def link():
    """Returns the link in the last email."""
    found = LINK.search(str(mail.outbox[-1].body))
    assert found is not None
    return found.group(1)


def sign_up(browser, address=ADDRESS):
    return send(browser, "/accounts/signup/", email=address)


def open_account(browser, password=PASSWORD):
    """Follows the link in the last email and chooses a password."""
    form = browser.get(link())["Location"]
    return send(browser, form, password1=password)


def sign_in(browser, address=ADDRESS, password=PASSWORD):
    return send(browser, "/accounts/login/", login=address, password=password)


def test_from_signing_up_to_the_first_fill(visitor):
    card = a_card()
    assert "Check your email" in words(sign_up(visitor))
    assert visitor.get("/desk").status_code == 302
    opened = open_account(visitor)
    assert opened.redirect_chain[-1] == ("/desk/connect", 302)
    desk = Desk.objects.get(user__email=ADDRESS)
    assert desk.public_id in words(visitor.get("/desk"))

    assert "Your desk is connected." in words(
        send(visitor, "/desk/connect", venue="Kraken", trade_only="on")
    )
    assert "You are now enrolled" in words(send(visitor, "/desk/enrol", "/desk", card=card.pk))
    token = copied(send(visitor, "/desk/token", "/desk"))[0]
    me = get(ME, token).json()
    assert (me["userId"], me["ready"]) == (desk.public_id, True)

    made = send(visitor, "/bots", name="Chart")
    bot = made.redirect_chain[-1][0]
    assert "Election saved." in words(
        send(visitor, f"{bot}/elect", bot, pair="ETH/USDT", direction="short")
    )
    secret = copied(send(visitor, f"{bot}/secret", bot))[0]
    body = copied(visitor.get(f"{bot}/send"))[1].replace("<nonce>", "first")
    assert push(body.encode(), secret=secret).json()["outcome"] == "filled"
    assert lines(visitor.get("/desk"))[0] == "Filled on paper: ETH/USDT short from the bot Chart."

    send(visitor, "/accounts/logout/")
    assert visitor.get("/desk").status_code == 302
    assert sign_in(visitor).redirect_chain[-1] == ("/desk", 302)


class TestSigningUp:
    def test_the_link_is_the_services_own_whatever_host_the_browser_names(self, visitor, settings):
        settings.BASE_URL = "https://signals.example"
        fields = {"email": ADDRESS}
        Client().post("/accounts/signup/", fields, headers={"Host": "localhost:1"})
        assert "https://signals.example/accounts/signup/link/" in mail.outbox[-1].body
        assert "localhost" not in mail.outbox[-1].body

    def test_an_address_that_is_none_is_kept_in_the_form_and_gets_no_mail(self, visitor):
        page = sign_up(visitor, "nobody@☃.example")
        assert errors(page)
        assert 'value="nobody@☃.example"' in source(page)
        assert not mail.outbox

    def test_a_form_that_another_site_sent_is_refused(self, visitor):
        assert visitor.post("/accounts/signup/", {"email": ADDRESS}).status_code == 403
        assert not mail.outbox


class TestAnAccount:
    @pytest.fixture
    def member(self, visitor):
        """The visitor of somebody who signed up and is signed in."""
        sign_up(visitor)
        open_account(visitor)
        return visitor

    @pytest.mark.parametrize(
        "path",
        [
            "/accounts/email/",
            "/accounts/password/change/",
            "/accounts/2fa/",
            "/accounts/2fa/totp/activate/",
            "/accounts/2fa/webauthn/",
            "/accounts/2fa/webauthn/add/",
            "/accounts/sessions/",
            "/accounts/reauthenticate/",
            "/accounts/logout/",
        ],
    )
    def test_its_pages_have_our_look_and_nothing_that_the_policy_stops(self, member, path):
        page = member.get(path, follow=True)
        assert page.status_code == 200
        assert '<span class="paper">Paper</span>' in source(page)
        stopped = r'<script(?![^>]*(?: src=|type="application/json"))|<style|\sstyle=|\son[a-z]+="'
        assert re.findall(stopped, source(page)) == []

    def test_a_wrong_password_is_refused_and_the_address_kept(self, visitor, member):
        page = sign_in(Client(), password="wrong horse battery")
        assert errors(page)
        assert f'value="{ADDRESS}"' in source(page)

    def test_the_password_is_reset_by_a_link_of_the_services_own(self, member, settings):
        settings.BASE_URL = "https://signals.example"
        visitor = Client(headers={"Host": "localhost:1"})
        assert "Check your email" in words(
            send(visitor, "/accounts/password/reset/", email=ADDRESS)
        )
        assert "https://signals.example/accounts/password/reset/key/" in mail.outbox[-1].body
        assert "localhost" not in mail.outbox[-1].body

    def test_an_address_without_an_account_is_not_told_apart_but_by_mail(self, member):
        known = words(send(Client(), "/accounts/password/reset/", email=ADDRESS))
        unknown = words(send(Client(), "/accounts/password/reset/", email="no@example.com"))
        assert known.replace(ADDRESS, "x") == unknown.replace("no@example.com", "x")
        assert "It has no account." in mail.outbox[-1].body

    def test_the_address_changes_when_the_new_one_is_confirmed(self, member):
        send(member, "/accounts/reauthenticate/", password=PASSWORD)
        page = send(member, "/accounts/email/", email="new@example.com", action_add="")
        assert "new@example.com is not confirmed yet" in words(page)
        assert User.objects.get().email == ADDRESS
        send(member, link())
        assert User.objects.get().email == "new@example.com"
        assert Desk.objects.count() == 1

    def test_a_deactivated_account_is_told_so(self, member):
        User.objects.update(is_active=False)
        assert "This account is deactivated" in words(sign_in(Client()))

    def test_trying_too_often_is_answered_with_a_problem_page(self, visitor):
        answers = [visitor.get("/accounts/login/")]
        token = re.search(r'value="([^"]+)"', source(answers[0])).group(1)
        for _ in range(31):
            answers.append(
                visitor.post(
                    "/accounts/login/",
                    {"csrfmiddlewaretoken": token, "login": "x@example.com", "password": "y"},
                )
            )
        assert answers[-1].status_code == 429
        assert int(answers[-1]["Retry-After"]) > 0
        assert "Too many requests" in words(answers[-1])
