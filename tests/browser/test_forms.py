"""What only a browser shows: hidden elements, cut text, red fields, what scripts do to forms."""

import re

import pytest
from playwright.sync_api import expect

from events.http.name_rules import MAX_NAME_LENGTH
from tests.browser.pages import HALFWAY, STAFF, USER, VISITOR, address, signed_in
from tests.browser.stage import COLOURS
from tests.conformance.browser import Bot

pytestmark = [pytest.mark.processes, pytest.mark.once]

RESET = "accounts/^password/reset/key/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>.+)/$"
# Hidden elements that are on the page, and those of them that take up space.
HIDDEN = "document.querySelectorAll('input[autocomplete=username][hidden]').length"
SEEN = """Array.from(document.querySelectorAll("[hidden]"))
  .filter((each) => each.getClientRects().length).map((each) => each.outerHTML)"""
# Elements of the explanation that are wider than a phone.
CUT = """Array.from(document.querySelectorAll(".why, .why *"))
  .filter((each) => each.getBoundingClientRect().right > innerWidth).length"""
PHONE = {"width": 390, "height": 844}


@pytest.fixture
def open_page(stage, new_page):
    """Opens a page as a kind of visitor, on a phone."""

    def opened(who, path):
        with signed_in(stage, who) as visitor:
            page, path = new_page(visitor, viewport=PHONE), address(stage, path)
        page.goto(path, wait_until="load")
        return page

    return opened


@pytest.mark.parametrize(
    ("who", "path"),
    [
        (HALFWAY, "accounts/2fa/authenticate/"),
        (USER, "accounts/reauthenticate/"),
        (USER, "accounts/password/change/"),
        (VISITOR, RESET),
    ],
)
def test_the_account_for_the_password_manager_is_not_seen(open_page, who, path):
    page = open_page(who, path)
    assert page.evaluate(HIDDEN) > 0
    assert page.evaluate(SEEN) == []


def test_the_explanation_of_a_signal_fits_on_a_phone(open_page):
    page = open_page(STAFF, "control/signals/signal/<path:object_id>/change/")
    expect(page.locator(".why")).to_be_visible()
    assert page.evaluate(CUT) == 0


def test_a_name_without_spaces_fits_on_a_phone(stage, new_page):
    with signed_in(stage, USER) as owner:
        bot = Bot(owner, "N" * MAX_NAME_LENGTH)
        page = new_page(owner, viewport=PHONE)
    for path in (f"/bots/{bot.id}", f"/bots/{bot.id}/elect", "/bots", "/desk", "/activity"):
        page.goto(path, wait_until="load")
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], path


def test_a_field_with_an_error_has_a_red_border_and_the_sentence_beside_it(open_page):
    page = open_page(USER, "bots/<str:bot_id>/elect")
    page.get_by_label("Pair").fill("btcusdt")
    page.get_by_role("button", name="Replace election").click()
    field = page.get_by_label("Pair")
    expect(field).to_have_attribute("aria-invalid", "true")
    red = page.evaluate("getComputedStyle(document.querySelector('.errorlist')).color")
    expect(field).to_have_css("border-top-color", red)
    expect(page.locator(".field", has=field)).to_contain_text("Did you mean BTC/USDT?")


GROUND = "getComputedStyle(document.body).backgroundColor"


def test_the_theme_wins_over_the_device_without_a_script(stage, new_page):
    with signed_in(stage, USER) as visitor:
        visitor.post("/accounts/preferences/", {"time_zone": "", "theme": "dark"})
        page = new_page(visitor, color_scheme="light", java_script_enabled=False)
    other = new_page(color_scheme="light")
    page.goto("/desk")
    other.goto("/")
    assert page.evaluate(GROUND) != other.evaluate(GROUND)
    with signed_in(stage, USER) as visitor:
        visitor.post("/accounts/preferences/", {"time_zone": "", "theme": "system"})


def test_the_control_area_follows_the_device(stage, new_page):
    with signed_in(stage, STAFF) as visitor:
        light, dark = (new_page(visitor, color_scheme=colours) for colours in COLOURS)
    for page in (light, dark):
        page.goto("/control/")
    assert light.evaluate(GROUND) != dark.evaluate(GROUND)


def test_after_an_error_the_focus_is_on_the_first_field_that_has_one(open_page):
    page = open_page(USER, "bots/<str:bot_id>/elect")
    page.get_by_role("button", name="Replace election").click()
    expect(page).to_have_title(re.compile("^Error: "))
    expect(page.get_by_label("Pair")).to_be_focused()
    page.get_by_label("Pair").fill("ETH/USDT")
    page.get_by_role("button", name="Replace election").click()
    expect(page.get_by_label("Long", exact=True)).to_be_focused()


def test_an_error_of_the_whole_form_gets_the_focus(open_page):
    page = open_page(VISITOR, "accounts/login/")
    page.get_by_label("Email").fill("nobody@example.com")
    page.get_by_label("Password").fill("not the password")
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page).to_have_title(re.compile("^Error: "))
    error = page.locator(".errorlist")
    expect(error).to_have_text("Address or password is wrong. Reset your password.")
    expect(error).to_be_focused()
    error.get_by_role("link", name="Reset your password").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Reset your password")


def test_a_suggested_pair_is_filled_in_and_sent_only_by_its_owner(open_page):
    page = open_page(USER, "bots/<str:bot_id>/elect")
    field = page.get_by_label("Pair")
    field.press_sequentially("eth-usdt")
    expect(field).to_have_value("ETH-USDT")
    page.get_by_role("button", name="Replace election").click()
    page.get_by_role("button", name="Use ETH/USDT").click()
    expect(field).to_have_value("ETH/USDT")
    expect(field).to_be_focused()
    expect(page.get_by_role("button", name="Use ETH/USDT")).to_have_count(0)
    expect(page.get_by_role("heading", level=1)).to_have_text("Elect a pair and a direction")


def test_a_password_is_shown_and_hidden_again(open_page):
    page = open_page(VISITOR, "accounts/login/")
    field = page.get_by_label("Password")
    expect(field).to_have_attribute("type", "password")
    page.get_by_role("button", name="Show Password").click()
    expect(field).to_have_attribute("type", "text")
    page.get_by_role("button", name="Hide Password").click()
    expect(field).to_have_attribute("type", "password")


def test_enter_asks_for_the_security_key_as_the_button_does(open_page):
    page = open_page(STAFF, "accounts/2fa/webauthn/add/")
    page.evaluate("() => { navigator.credentials.create = async () => (window.isAsked = true); }")
    name = page.get_by_label("Name", exact=True)
    name.fill("Mine")
    name.press("Enter")
    page.wait_for_function("() => window.isAsked")
    expect(name).to_have_value("Mine")


def test_a_slash_leads_to_the_search_unless_something_is_typed_or_it_is_turned_off(open_page):
    page = open_page(USER, "activity")
    search = page.get_by_role("searchbox", name="Search")
    expect(page.get_by_text("Press / to search.")).to_be_visible()
    page.keyboard.press("/")
    expect(search).to_be_focused()
    page.keyboard.type("a/b")
    expect(search).to_have_value("a/b")
    page.get_by_text("Filter", exact=True).click()
    pair = page.get_by_label("Pair")
    pair.press_sequentially("A/B")
    expect(pair).to_have_value("A/B")
    page.get_by_role("button", name="Turn this off").click()
    page.reload()
    page.keyboard.press("/")
    expect(search).not_to_be_focused()
    expect(page.get_by_text("Press / to search.")).to_have_count(0)
    page.get_by_role("button", name="Let / lead to the search").click()
    page.keyboard.press("/")
    expect(search).to_be_focused()
    page.keyboard.type("evt_1")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/activity/evt_1$"))


def silent_in(page, minutes):
    """What the form says if it is saved now. The clock may move on meanwhile."""
    clock = "at => new Date(at).toLocaleTimeString('en-GB', {hour: '2-digit', minute: '2-digit'})"
    now = page.evaluate("Date.now()")
    times = [page.evaluate(clock, now + (minutes + late) * 60_000) for late in (0, 1)]
    return re.compile(f"the bot is silent at (.*, )?({'|'.join(times)})\\.$")


def test_the_form_of_an_alarm_says_when_the_bot_would_be_silent(open_page):
    page = open_page(USER, "bots/<str:bot_id>/alarm")
    number = page.get_by_label("How many minutes, hours or days")
    expect(number).to_be_disabled()
    page.get_by_label("Every", exact=True).check()
    number.fill("20")
    page.get_by_label("Grace, in minutes").fill("0")
    shown = page.get_by_role("status").filter(has_text="the bot is silent at")
    expect(shown).to_have_text(silent_in(page, minutes=20))
    page.get_by_role("button", name="15 minutes").click()
    expect(shown).to_have_text(silent_in(page, minutes=15))
