"""Destructive acts: each asks first, in red, says what it ends, and works without JavaScript."""

from http import HTTPStatus

import pytest
from django.test import Client

from events.models import Event
from tests import factories, pages, staff
from tests.factories import Bot
from tokens.models import SigningSecret, Token

pytestmark = [pytest.mark.django_db, pytest.mark.once]


@pytest.fixture
def acts(desk, bot: Bot) -> dict[str, tuple[str, str]]:
    """The address of each destructive act, with the label of its button and what it ends."""
    factories.a_desk_token(desk)
    secret = SigningSecret.objects.get().public_id
    hint = Token.objects.get().hint
    return {
        "/desk/token/revoke": ("Revoke", hint),
        "/desk/withdraw": ("Withdraw", "BTC/USDT long"),
        f"/bots/{bot.id}/withdraw": ("Withdraw", "ETH/USDT short"),
        f"/bots/{bot.id}/secrets/{secret}/end": ("End now", SigningSecret.objects.get().hint),
        f"/bots/{bot.id}/remove": ("Remove", "signing secrets end"),
        "/desk/disconnect": ("Disconnect", "All elections"),
    }


def test_each_asks_in_red_and_says_what_it_ends(owner: Client, acts):
    before = Event.objects.count()
    for path, (label, ended) in acts.items():
        page = owner.get(path)
        assert page.status_code == HTTPStatus.OK, path
        assert f'<button type="submit" class="button danger">{label}</button>' in pages.source(page)
        assert '<form method="post" class="confirm">' in pages.source(page)
        assert ended in pages.words(page), path
    assert Event.objects.count() == before


def test_each_is_offered_by_a_red_link_to_the_page_that_asks(owner: Client, acts, bot: Bot):
    offering = ("/desk", f"/bots/{bot.id}", f"/bots/{bot.id}/secret")
    offered = "".join(pages.source(owner.get(path)) for path in offering)
    for path in acts:
        assert f'<a class="button danger" href="{path}">' in offered, path
    assert not [path for path in acts if f'action="{path}"' in offered]


def test_where_there_is_nothing_to_end_nothing_is_asked(owner: Client):
    assert owner.get("/desk/token/revoke")["Location"] == "/desk"
    owner.post("/desk/withdraw")
    assert owner.get("/desk/withdraw")["Location"] == "/desk"
    owner.post("/desk/disconnect")
    assert owner.get("/desk/disconnect")["Location"] == "/desk"


def test_the_control_area_asks_in_red(settings, card, desk):
    settings.REQUIRE_STAFF_MFA = True
    browser = staff.a_client()
    factories.a_desk_token(desk)
    factories.a_shared_secret()
    acts = [
        (Token.objects.get(), "revoke"),
        (SigningSecret.objects.get(), "end"),
        (card, "retire"),
        (desk.user, "deactivate"),
    ]
    for row, act in acts:
        page = pages.source(browser.get(staff.page_of(row, act)))
        assert 'class="note warning"' in page
        assert 'class="button danger"' in page
