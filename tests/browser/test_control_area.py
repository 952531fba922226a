"""The control area in a real browser: on a phone, live, and with and without scripts."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.pages import STAFF, signed_in
from tests.browser.stage import BOTH, DESKTOP, PHONE
from tests.conformance.client import DESKS
from tests.signals.webhooks.runner.stage import until

pytestmark = [pytest.mark.processes, pytest.mark.once]


@pytest.fixture(scope="module")
def operator(stage):
    """Staff, signed in once, because a code is valid only once."""
    with signed_in(stage, STAFF) as visitor:
        yield visitor


@pytest.fixture
def open_page(new_page, operator):
    """Opens a page of the control area at this width, with or without scripts."""

    def opened(path, width=DESKTOP, scripts=True):
        viewport = {"width": width, "height": 900}
        page = new_page(operator, viewport=viewport, java_script_enabled=scripts)
        page.goto(path)
        return page

    return opened


@BOTH
def test_on_a_phone_the_lists_and_the_tools_are_a_menu(open_page, scripts):
    page = open_page("/control/", PHONE, scripts)
    lists = page.get_by_role("navigation", name="Control area")
    expect(lists).to_be_hidden()
    assert page.get_by_role("banner").bounding_box()["height"] < 100
    page.get_by_role("button", name="Menu").click()
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    lists.get_by_role("link", name="Tokens").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Tokens")


def test_on_a_desktop_there_is_no_menu_button(open_page):
    page = open_page("/control/")
    expect(page.get_by_role("button", name="Menu")).to_be_hidden()
    expect(page.get_by_role("navigation", name="Control area")).to_be_visible()
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    reached = [each.bounding_box() for each in page.locator("header :is(a, button):visible").all()]
    places = [(box["y"] // 40, box["x"]) for box in reached]
    assert places == sorted(places), "the tab key follows another order than the eye"


def test_on_a_phone_a_row_is_its_link_and_labelled_values_in_a_few_lines(open_page):
    row = open_page("/control/tokens/token/", PHONE).locator("#result_list tbody tr").first
    link, values = row.locator("th").bounding_box(), row.locator("td:visible")
    lines = [cell.bounding_box()["y"] for cell in values.all()]
    assert min(lines) > link["y"]
    assert len(set(lines)) < len(lines)
    label = "cell => getComputedStyle(cell, '::before').content"
    assert values.first.evaluate(label) == '"Hint"'
    expect(row.locator("td", has_text=re.compile("^-$")).first).to_be_hidden()


def test_the_overview_follows_what_happens_and_can_be_paused(stage, open_page):
    page = open_page("/control/")
    figure = page.locator("#figures div").filter(has_text="Accepted in the last hour").locator("dd")
    before = int(figure.first.text_content())
    page.locator("#hour-table summary").click()
    stage.service.push(stage.service.fanout(), stage.service.platform)
    expect(figure.first).to_have_text(str(before + 1))
    expect(page.get_by_text("This page updates itself. Last at")).to_be_visible()
    expect(page.locator("#hour-table table")).to_be_visible()  # it stays open
    page.get_by_role("button", name="Stop updating").click()
    expect(page.get_by_text("This page no longer updates itself.")).to_be_visible()
    stage.service.push(stage.service.fanout(), stage.service.platform)
    page.get_by_role("button", name="Update again").click()
    expect(figure.first).to_have_text(str(before + 2))


@pytest.mark.parametrize("focused", ["#day-table summary", "#shares section:nth-of-type(2)"])
def test_the_focus_stays_where_it_is_when_the_overview_changes(stage, open_page, focused):
    page = open_page("/control/")
    figure = page.locator("#figures div").filter(has_text="Refused in the last hour").locator("dd")
    before = int(figure.first.text_content())
    page.locator(focused).focus()
    stage.service.push(stage.service.fanout(pair="SOL/USDT"), stage.service.platform)
    expect(figure.first).to_have_text(str(before + 1))
    expect(page.locator(focused)).to_be_focused()


def test_the_overview_says_that_it_is_not_current(open_page):
    page = open_page("/control/")
    page.route("**/control/", lambda route: route.abort())
    page.get_by_role("button", name="Stop updating").click()
    page.get_by_role("button", name="Update again").click()
    expect(page.get_by_text("Not updated: the service does not answer")).to_be_visible()


# Sets window.isOver when what the page does with an answer that it fetched, or with none, is done.
OVER = """(() => {
  const over = () => setTimeout(() => (window.isOver = true));
  const { fetch } = window, { text } = Response.prototype;
  window.fetch = (...asked) => {
    const answer = fetch(...asked);
    answer.catch(over);
    return answer;
  };
  Response.prototype.text = function () {
    return text.call(this).finally(over);
  };
})()"""


@pytest.mark.parametrize("is_answered", [True, False])
def test_an_answer_that_comes_after_the_page_was_stopped_changes_nothing(
    new_page, operator, is_answered
):
    page, asked = new_page(operator), []
    page.add_init_script(OVER)

    def hold(route):
        if route.request.resource_type == "fetch":
            asked.append(route)
        else:
            route.continue_()

    page.route("**/control/", hold)
    page.goto("/control/")
    until(lambda: page.evaluate("true") and asked)
    page.get_by_role("button", name="Stop updating").click()
    page.evaluate("document.querySelector('#figures').textContent = 'as it was'")
    if is_answered:
        asked[0].continue_()
    else:
        asked[0].abort()
    page.wait_for_function("() => window.isOver")
    expect(page.locator("#figures")).to_have_text("as it was")
    expect(page.locator("[data-live-status]")).to_contain_text("no longer updates itself")


def test_without_scripts_the_overview_is_whole_and_not_live(open_page):
    page = open_page("/control/", scripts=False)
    expect(page.locator(".updates")).to_be_hidden()
    page.locator("#day-table summary").click()
    expect(page.locator("#day-table").get_by_role("row")).to_have_count(25)


def test_a_refusals_page_tells_it_before_the_folded_json(stage, open_page):
    stage.service.push(stage.service.fanout(pair="SOL/USDT"), stage.service.platform)
    page = open_page("/control/")
    lists = page.get_by_role("navigation", name="Control area")
    lists.get_by_role("link", name="Refusals", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Refusals")
    page.locator("#result_list tbody th a").first.click()
    expect(page.get_by_text("It was refused: pair_mismatch.")).to_be_visible()
    expect(page.get_by_text("No: this decided.")).to_be_visible()
    content = page.locator("pre.content").first
    expect(content).to_be_hidden()
    page.get_by_text("As JSON").first.click()
    expect(content).to_contain_text("SOL/USDT")
    page.set_viewport_size({"width": PHONE, "height": 900})
    right = "each => each.getBoundingClientRect().right"
    row = page.locator(".field-story")
    assert page.locator(".story").evaluate(right) <= row.evaluate(right)


def test_a_token_is_minted_used_and_revoked(stage, open_page):
    page = open_page("/control/")
    main = page.get_by_role("main")
    main.get_by_role("link", name="Mint a platform token", exact=True).click()
    page.get_by_label("Name").fill("Second engine")
    page.get_by_label("read: pull desks").check()
    page.get_by_role("button", name="Mint a platform token", exact=True).click()
    token = page.locator("pre.value").text_content().strip()
    main.get_by_role("link", name="I have stored it").click()
    expect(page.get_by_text(token)).to_have_count(0)
    assert stage.service.get(DESKS, token).status_code == 200
    main.get_by_role("link", name="Revoke", exact=True).click()
    expect(page.get_by_text("is refused from the next request on")).to_be_visible()
    page.get_by_role("button", name="Revoke", exact=True).click()
    expect(page.get_by_text("The token is revoked.")).to_be_visible()
    assert stage.service.get(DESKS, token).status_code == 401
