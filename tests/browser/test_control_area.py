"""The control area in a real browser: on a phone, live, and with and without scripts."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.pages import STAFF, signed_in
from tests.browser.stage import CHROMIUM, DESKTOP, PHONE, set_up

pytestmark = [
    pytest.mark.processes,
    pytest.mark.once,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed"),
]


@pytest.fixture(scope="module")
def stage():
    with set_up(REQUIRE_STAFF_MFA="on") as stage:
        yield stage


@pytest.fixture(scope="module")
def operator(stage):
    """Staff, signed in once, because a code is valid only once."""
    with signed_in(stage, STAFF) as visitor:
        yield visitor


@pytest.fixture
def open_page(stage, operator):
    """Opens a page of the control area at this width, with or without scripts."""
    contexts = []

    def opened(path, width=DESKTOP, scripts=True):
        context = stage.context(
            operator, viewport={"width": width, "height": 900}, java_script_enabled=scripts
        )
        contexts.append(context)
        page = context.new_page()
        page.goto(path)
        return page

    yield opened
    for context in contexts:
        context.close()


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without scripts"])
def test_on_a_phone_the_lists_and_the_tools_are_a_menu(open_page, scripts):
    page = open_page("/control/", PHONE, scripts)
    lists = page.get_by_role("navigation", name="Control area")
    expect(lists).to_be_hidden()
    assert page.locator("#header").bounding_box()["height"] < 100
    page.get_by_role("button", name="Menu").click()
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    lists.get_by_role("link", name="Tokens").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Tokens")


def test_on_a_desktop_there_is_no_menu_button(open_page):
    page = open_page("/control/")
    expect(page.get_by_role("button", name="Menu")).to_be_hidden()
    expect(page.get_by_role("navigation", name="Control area")).to_be_visible()
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()


def test_on_a_phone_a_row_is_a_stack_of_labelled_cells(open_page):
    page = open_page("/control/tokens/token/", PHONE)
    cells = page.locator("#result_list tbody tr").first.locator("th, td")
    boxes = [cell.bounding_box() for cell in cells.all()]
    assert len({box["x"] for box in boxes}) == 1
    assert [box["y"] for box in boxes] == sorted({box["y"] for box in boxes})
    label = "cell => getComputedStyle(cell, '::before').content"
    assert cells.nth(3).evaluate(label) == '"Scopes"'


def test_a_time_is_relative_and_its_tooltip_names_the_zone(open_page):
    shown = open_page("/control/tokens/token/").locator("#result_list time").first
    expect(shown).to_have_text(re.compile("^just now$|minutes? ago$"))
    assert re.search(r"\d\d:\d\d:\d\d \S+$", shown.get_attribute("title"))
