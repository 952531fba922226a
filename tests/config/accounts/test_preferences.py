"""The time zone and the theme that a user chose."""

from http import HTTPStatus

import pytest
from django.test import Client
from django.utils import timezone

from config.accounts.preferences import ZONES
from desks.models import User
from tests import pages, staff

pytestmark = [pytest.mark.django_db, pytest.mark.once]

PAGE = "/accounts/preferences/"
META = '<meta name="color-scheme" content="{}">'


def choose(browser: Client, time_zone: str = "", theme: str = "system"):
    return browser.post(PAGE, {"time_zone": time_zone, "theme": theme}, follow=True)


def test_they_are_stored_with_the_user(owner: Client, desk):
    page = choose(owner, "Europe/Berlin", "dark")
    assert "Your preferences are saved." in pages.words(page)
    user = User.objects.get(pk=desk.user_id)
    assert (user.time_zone, user.theme) == ("Europe/Berlin", "dark")
    assert 'value="Europe/Berlin" selected' in pages.source(page)


def test_saving_them_is_a_change_that_is_limited(owner: Client, desk, settings):
    settings.LIMITS = {**settings.LIMITS, "changes": "1/minute"}
    choose(owner, theme="dark")
    refused = choose(owner, theme="light")
    assert (refused.status_code, pages.problem(refused)) == (429, "rate_limited")
    assert User.objects.get(pk=desk.user_id).theme == "dark"
    assert owner.get(PAGE).status_code == 200


@pytest.mark.parametrize(
    ("theme", "colours"), [("system", "light dark"), ("light", "light"), ("dark", "dark")]
)
def test_every_page_of_the_user_is_sent_in_the_theme(owner: Client, theme, colours):
    choose(owner, theme=theme)
    for path in ("/", "/desk", "/bots", "/activity", PAGE):
        assert META.format(colours) in pages.source(owner.get(path)), path
    assert META.format("light dark") in pages.source(Client().get("/"))


def test_times_are_shown_in_the_chosen_zone_and_in_nobody_elses(owner: Client, desk, stranger):
    assert " UTC" in pages.source(owner.get("/desk"))
    choose(owner, "Asia/Kolkata")
    page = pages.source(owner.get("/desk"))
    assert " IST" in page
    assert "data-zoned" in page
    assert "+05:30" in page
    assert timezone.get_current_timezone_name() == "UTC"
    assert "IST" not in pages.source(staff.a_client(stranger.user).get("/desk"))


def test_a_zone_that_this_machine_does_not_know_is_utc(owner: Client, desk):
    """The user chose it on a machine with newer zone files."""
    User.objects.filter(pk=desk.user_id).update(time_zone="Mars/Base")
    assert " UTC" in pages.source(owner.get("/desk"))
    assert owner.get(PAGE).status_code == HTTPStatus.OK
    assert choose(owner, "Asia/Kolkata").status_code == HTTPStatus.OK
    assert " IST" in pages.source(owner.get("/desk"))


@pytest.mark.parametrize("fields", [{"time_zone": "Mars/Base"}, {"theme": "pink"}])
def test_what_is_not_offered_is_refused_beside_its_field(owner: Client, fields):
    page = choose(owner, **fields)
    assert page.status_code == HTTPStatus.UNPROCESSABLE_ENTITY
    assert len(pages.errors(page)) == 1


def test_the_control_area_is_in_the_theme_and_an_expiry_stays_in_utc(settings):
    settings.REQUIRE_STAFF_MFA = True
    browser = staff.a_client()
    choose(browser, "Asia/Kolkata", "dark")
    assert META.format("dark") in pages.source(browser.get("/control/"))
    form = {"name": "x", "scopes": ["read"], "expiresAt": "2099-01-01T00:00"}
    minted = browser.post("/control/tokens/token/mint/", form)
    assert minted.context["record"].expires_at.isoformat() == "2099-01-01T00:00:00+00:00"


def test_the_zones_are_areas_with_their_cities():
    assert {"Europe/London", "America/New_York"} <= set(ZONES)
    assert "localtime" not in ZONES
