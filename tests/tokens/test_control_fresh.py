"""What staff do with credentials asks for a sign-in of the last quarter of an hour."""

import pytest
from django.db.models import Model

from desks.models import User
from events.models import Event
from tests import factories, staff
from tokens.models import SigningSecret, Token

FORM = {"name": "Engine", "scopes": ["read"], "overlap": "3600"}

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def second_factor_is_asked_for(settings) -> None:
    settings.REQUIRE_STAFF_MFA = True


@pytest.fixture
def pages(desk) -> list[str]:
    """The page of each thing that makes or ends a credential."""
    factories.a_platform_token()
    factories.a_shared_secret()
    rows: list[tuple[Model, str]] = [
        (Token.objects.get(), "revoke"),
        (SigningSecret.objects.get(), "end"),
        (desk.user, "deactivate"),
    ]
    return [
        staff.list_of(Token, "mint"),
        staff.list_of(SigningSecret, "generate-floor"),
        staff.list_of(SigningSecret, "generate-nox"),
        *(staff.page_of(row, name) for row, name in rows),
    ]


def test_a_stale_sign_in_makes_and_ends_nothing(pages):
    member, events = staff.a_client(seconds_ago=staff.LONG_AGO), Event.objects.count()
    for page in pages:
        response = member.post(page, FORM)
        assert staff.refusal(response) == "reauthentication_required", page
        assert response.status_code == 403
    assert Event.objects.count() == events
    assert not User.objects.filter(is_active=False).exists()


def test_a_stale_sign_in_is_led_to_confirm_and_back(pages):
    member = staff.a_client(seconds_ago=staff.LONG_AGO)
    for page in pages:
        response = member.get(page)
        assert (response.status_code, response["Location"]) == (
            302,
            f"/accounts/reauthenticate/?next={page.replace('/', '%2F')}",
        )


def test_a_fresh_sign_in_does_all_of_it(pages):
    member = staff.a_client()
    for page in pages:
        assert member.get(page).status_code == 200
    for page in pages:
        before = Event.objects.count()
        assert member.post(page, FORM).status_code in {200, 302}, page
        assert Event.objects.count() > before


def test_who_confirms_a_password_goes_on_where_they_were():
    member = factories.a_staff_user()
    client, page = staff.a_client(member, seconds_ago=staff.LONG_AGO), staff.list_of(Token, "mint")
    asked = client.get(page)["Location"]
    back = client.post(asked, {"password": factories.PASSWORD})
    assert (back.status_code, back["Location"]) == (302, page)
    assert client.get(page).status_code == 200
    assert client.post(page, FORM).status_code == 200


def test_who_confirms_a_second_factor_goes_on_too():
    member = factories.a_staff_user()
    secret = staff.with_totp(member)
    client = staff.a_client(member, seconds_ago=staff.LONG_AGO)
    page = staff.list_of(Token, "mint")
    client.post(f"/accounts/2fa/reauthenticate/?next={page}", {"code": staff.code_of(secret)})
    assert client.post(page, FORM).status_code == 200


def test_what_only_reads_or_publishes_asks_nobody_again(desk, card):
    member = staff.a_client(seconds_ago=staff.LONG_AGO)
    for page in ("/control/", staff.list_of(Token), staff.page_of(desk.user)):
        assert member.get(page).status_code == 200
    assert member.post(staff.page_of(card, "retire")).status_code == 302


def test_where_no_second_factor_is_asked_for_nobody_is_asked_again(settings):
    settings.REQUIRE_STAFF_MFA = False
    member = staff.a_client(None, "password", seconds_ago=staff.LONG_AGO)
    assert member.post(staff.list_of(Token, "mint"), FORM).status_code == 200


def test_a_customer_and_staff_without_a_second_factor_make_and_end_nothing(pages, stranger):
    events = Event.objects.count()
    for client, expected in (
        (staff.a_client(stranger.user), "not_allowed"),
        (staff.a_client(None, "password"), "second_factor_required"),
    ):
        for page in pages:
            response = client.post(page, FORM)
            assert (response.status_code, staff.refusal(response)) == (403, expected)
    assert Event.objects.count() == events


def test_without_the_forms_token_nothing_is_made_or_ended(pages):
    member, events = staff.a_client(enforce_csrf_checks=True), Event.objects.count()
    for page in pages:
        response = member.post(page, FORM)
        assert (response.status_code, staff.refusal(response)) == (403, "csrf_failed")
    assert Event.objects.count() == events
