"""Every change in the control area needs a sign-in within the last 15 minutes."""

import re

import pytest
from django.db.models import Model

from desks.models import Card, User
from events.models import Event
from signals.webhooks.models import Subscription
from tests import factories, staff
from tests.routes import routes
from tests.signals.webhooks.stage import URL, a_webhook
from tokens.models import SigningSecret, Token

FORM = {
    "name": "Engine",
    "url": URL,
    "scopes": ["read"],
    "overlap": "3600",
    "pair": "SOL/USDT",
    "direction": "short",
    "retires": "",  # confirmed: no card is published when it is posted
}
# The pages that take no POST from anybody.
WITHOUT_POST = {"control/stream"}
# Values for the parameters of routes. Any value will do.
PART_OF_ROUTE = re.compile(r"<[^>]*>|\^|\(.*\)|\$")

pytestmark = [pytest.mark.django_db, pytest.mark.once]


@pytest.fixture(autouse=True)
def second_factor_is_asked_for(settings) -> None:
    settings.REQUIRE_STAFF_MFA = True


@pytest.fixture
def pages(desk, card) -> list[str]:
    """The URL of every page that changes a credential, a card, a user or a webhook."""
    factories.a_platform_token()
    factories.a_shared_secret()
    webhook = a_webhook()
    rows: list[tuple[Model, str]] = [
        (Token.objects.get(), "revoke"),
        (SigningSecret.objects.get(), "end"),
        (desk.user, "deactivate"),
        (card, "retire"),
        (webhook, "pause"),
        (webhook, "secret"),
        (webhook, "remove"),
    ]
    return [
        staff.list_of(Token, "mint"),
        staff.list_of(SigningSecret, "generate-floor"),
        staff.list_of(SigningSecret, "generate-nox"),
        staff.list_of(Subscription, "new"),
        *(staff.page_of(row, name) for row, name in rows),
        staff.list_of(Card, "publish"),
    ]


def test_an_old_sign_in_cannot_create_or_end_anything(pages):
    member, events = staff.a_client(seconds_ago=staff.LONG_AGO), Event.objects.count()
    for page in pages:
        response = member.post(page, FORM)
        assert staff.refusal(response) == "reauthentication_required", page
        assert response.status_code == 403
        assert f"/accounts/reauthenticate/?next={page}" in response.content.decode()
    assert Event.objects.count() == events
    assert not User.objects.filter(is_active=False).exists()
    assert Card.objects.published().exists()


def test_every_post_to_the_control_area_needs_a_recent_sign_in(db):
    """Holds for any path in the control area, so that new pages are covered."""
    member = staff.a_client(seconds_ago=staff.LONG_AGO)
    inside = [route for route in routes() if route.startswith("control/")]
    assert len(inside) > 25
    for route in inside:
        response = member.post("/" + PART_OF_ROUTE.sub("1", route), FORM)
        answer = (response.status_code, staff.refusal(response))
        if route in WITHOUT_POST:
            assert answer == (405, "method_not_allowed"), route
        else:
            assert answer == (403, "reauthentication_required"), route


def test_a_recent_sign_in_can_make_every_change_and_opening_a_page_makes_none(pages):
    member, before = staff.a_client(), Event.objects.count()
    for page in pages:
        assert member.get(page, FORM).status_code == 200
    assert Event.objects.count() == before
    for page in pages:
        before = Event.objects.count()
        assert member.post(page, FORM).status_code in {200, 302}, page
        assert Event.objects.count() > before


def test_confirming_the_password_returns_to_the_same_page():
    member = factories.a_staff_user()
    client, page = staff.a_client(member, seconds_ago=staff.LONG_AGO), staff.list_of(Token, "mint")
    confirm = client.get(page)["Location"]
    back = client.post(confirm, {"password": factories.PASSWORD})
    assert (back.status_code, back["Location"]) == (302, page)
    assert client.get(page).status_code == 200
    assert client.post(page, FORM).status_code == 200


def test_confirming_a_second_factor_returns_to_the_same_page():
    member = factories.a_staff_user()
    secret = staff.with_totp(member)
    client = staff.a_client(member, seconds_ago=staff.LONG_AGO)
    page = staff.list_of(Token, "mint")
    staff.give_code(client, f"/accounts/2fa/reauthenticate/?next={page}", secret)
    assert client.post(page, FORM).status_code == 200


def test_without_required_second_factors_the_password_is_still_confirmed(settings):
    settings.REQUIRE_STAFF_MFA = False
    member = staff.a_client(None, "password", seconds_ago=staff.LONG_AGO)
    page = staff.list_of(Token, "mint")
    assert staff.refusal(member.post(page, FORM)) == "reauthentication_required"
    member.post(f"/accounts/reauthenticate/?next={page}", {"password": factories.PASSWORD})
    assert member.post(page, FORM).status_code == 200


def test_a_post_without_the_csrf_token_changes_nothing(pages):
    member, events = staff.a_client(enforce_csrf_checks=True), Event.objects.count()
    for page in pages:
        response = member.post(page, FORM)
        assert (response.status_code, staff.refusal(response)) == (403, "csrf_failed")
    assert Event.objects.count() == events
