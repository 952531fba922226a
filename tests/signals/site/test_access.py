"""Access to every customer page: by which requests, and how often.

By whom: ``tests/config/test_permission_matrix.py``.
"""

import random

import pytest
from django.test import Client

from desks.models import User
from events.models import Event
from tests import pages
from tests.client import signed_in
from tests.factories import PASSWORD, a_bot, a_desk_token
from tests.pages import problem
from tokens.models import SigningSecret

pytestmark = pytest.mark.django_db

FORMS = [
    "/desk/connect",
    "/desk/disconnect",
    "/desk/enrol",
    "/desk/token",
    "/desk/end",
    "/bots",
    "/bots/{bot}/elect",
    "/bots/{bot}/secret",
    "/bots/{bot}/remove",
]
CHANGES = [
    "/desk/withdraw",
    "/desk/token/revoke",
    "/bots/{bot}/withdraw",
    "/bots/{bot}/secrets/{secret}/end",
]


@pytest.fixture
def paths(desk):
    """The path of each page for the desk's own bot."""
    a_desk_token(desk)
    bot = a_bot(desk)
    secret = SigningSecret.objects.get(automation=bot.id)
    return lambda path: path.format(bot=bot.id, secret=secret.public_id)


def three_in_a_window():
    """A limit of three requests that no other test counts against."""
    return f"3 per {random.randrange(3600, 10**6)} seconds"


def state():
    """The state that a change would alter: the number of events."""
    return Event.objects.count()


def test_an_anonymous_user_signs_in_and_returns(paths):
    page, form = paths("/bots/{bot}/elect"), Client().post("/desk/withdraw")
    assert Client().get(page)["Location"] == f"/accounts/login/?next={page}"
    assert form["Location"] == "/accounts/login/?next=/desk"


@pytest.mark.once
@pytest.mark.parametrize("path", [*FORMS, *CHANGES])
def test_a_form_from_another_site_is_refused(desk, paths, path):
    before = state()
    answer = signed_in(desk.user, csrf=True).post(paths(path), {"name": "Forged", "overlap": "0"})
    assert (answer.status_code, problem(answer)) == (403, "csrf_failed")
    assert state() == before


@pytest.mark.once
@pytest.mark.parametrize("path", [*FORMS, *CHANGES])
def test_getting_a_form_changes_nothing(desk, paths, path):
    before = state()
    signed_in(desk.user).get(paths(path) + "?name=x&venue=Kraken&trade_only=on&card=x&overlap=0")
    assert state() == before


def test_a_user_without_a_desk_sees_an_explanation(db):
    user = User.objects.create_user("unverified@example.com", PASSWORD)
    answer = signed_in(user).get("/desk")
    assert (answer.status_code, problem(answer)) == (403, "not_allowed")


def test_minting_and_generating_are_limited_together_for_each_user(settings, desk, paths):
    settings.LIMITS = {**settings.LIMITS, "minting": three_in_a_window()}
    browser = signed_in(desk.user)
    mint, generate = paths("/desk/token"), paths("/bots/{bot}/secret")
    sent = [browser.post(path, {"overlap": "0"}) for path in (mint, generate, mint, mint, generate)]
    assert [answer.status_code for answer in sent] == [200, 200, 200, 429, 429]
    assert {problem(answer) for answer in sent[3:]} == {"rate_limited"}
    words = pages.words(sent[3])
    assert "more requests than the service allows. Try again in " in words
    assert "header" not in words
