"""A new customer in a real browser: from sign-up to the first fill and the first refusal."""

import re
import subprocess
import sys

import pytest
from playwright.sync_api import expect

from tests.browser.stage import BOTH
from tests.browser.visitor import Visitor

pytestmark = [pytest.mark.processes, pytest.mark.once]

ONE_LINE = 24  # pixels: two lines of code are higher


def press(page, name):
    page.get_by_role("button", name=name, exact=True).click()


def become_ready(visitor, address):
    """Signs up, connects the desk and enrols."""
    visitor.sign_up(address)
    visitor.connect()
    visitor.click("button", "Enrol")
    expect(visitor.page.get_by_text("You are now enrolled")).to_be_visible()


def code_of_a_new_bot(visitor):
    """Creates a bot, elects and generates a secret. Returns the sample code of Python."""
    visitor.set_up_bot()
    code = visitor.page.locator("pre[data-language=python]").text_content()
    visitor.page.get_by_role("link", name="I have stored it").click()
    return code


def execute(code):
    """Runs the sample code of Python and returns its output."""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, timeout=300).stdout


@BOTH
def test_sign_up_to_first_fill_and_first_refusal(visitor, scripts):
    become_ready(visitor, f"trader-{scripts}@example.com".lower())
    page, code = visitor.page, code_of_a_new_bot(visitor)
    page.get_by_role("link", name="Activity", exact=True).click()
    assert '"outcome":"filled"' in execute(code)
    if not scripts:
        page.reload()
    expect(page.locator(".signalfilled")).to_have_count(1)
    expect(page.locator(".signalfilled").first).to_contain_text("ETH/USDT short")
    news = page.locator("[data-news]")
    expect(news).to_have_text(re.compile(r"^\d+ new$") if scripts else "")

    assert "pair_mismatch" in execute(code.replace("ETH/USDT", "SOL/USDT"))
    if not scripts:
        page.reload()
    expect(page.locator(".signalrefused")).to_contain_text("sent the pair SOL/USDT")
    page.set_viewport_size({"width": 360, "height": 800})
    page.get_by_role("link", name="sent the pair SOL/USDT").click()
    pairs = page.locator(".compare tbody tr").first.locator("code")
    expect(pairs).to_have_text(["SOL/USDT", "ETH/USDT"])
    assert all(pair.bounding_box()["height"] < ONE_LINE for pair in pairs.all())
    page.get_by_role("link", name="pair_mismatch").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Pair")


def test_no_part_of_an_open_page_contradicts_the_first_fill(visitor):
    become_ready(visitor, "first-fill@example.com")
    desk, code = visitor.page, code_of_a_new_bot(visitor)
    bot = desk.context.new_page()
    bot.goto(desk.url)
    desk.get_by_role("link", name="Desk", exact=True).click()
    for page in (desk, bot):
        expect(page.locator(".steps")).to_contain_text("First signal")
    expect(bot.get_by_role("heading", name="Send the first signal")).to_be_visible()
    expect(bot.get_by_role("img", name="0 filled, 0 refused")).to_be_visible()
    expect(desk.get_by_text("0 filled")).to_be_visible()
    for page in (desk, bot):
        page.evaluate("window.unchanged = true")
    assert '"outcome":"filled"' in execute(code)
    for page in (desk, bot):
        expect(page.locator(".signalfilled")).to_have_count(1)
        expect(page.locator(".steps")).to_have_count(0)
    expect(desk.get_by_text("1 filled", exact=True)).to_be_visible()
    expect(desk.get_by_text("0 filled")).to_have_count(0)
    expect(bot.get_by_role("heading", name="Send the first signal")).to_have_count(0)
    expect(bot.get_by_role("img", name="1 filled, 0 refused")).to_be_visible()
    for page in (desk, bot):
        assert page.evaluate("window.unchanged")


def test_what_is_typed_stays_and_no_consent_changes_under_the_pointer(visitor):
    page, context = visitor.page, visitor.page.context
    visitor.sign_up("typing@example.com")
    visitor.connect()
    expect(page.get_by_text("Your desk is connected")).to_be_visible()
    forms = "document.querySelectorAll('[data-consent]')"
    page.evaluate(f"{forms}.forEach(form => form.dataset.consent = 'x')")
    bots = context.new_page()
    bots.goto("/bots")
    bots.get_by_label("Name", exact=True).fill("Typed")
    press(bots, "Create bot")
    # The event has arrived. A form to enrol in another card than the one of before does not appear.
    expect(page.locator(".automationcreated")).to_have_count(1)
    expect(page.locator("[data-outdated]")).to_have_text("Reload this page to enrol.")
    expect(page.locator("[data-consent]")).to_have_count(0)
    bots.get_by_label("Pair", exact=True).fill("ETH/US")
    other = context.new_page()
    other.goto("/bots")
    other.get_by_label("Name", exact=True).fill("Another")
    press(other, "Create bot")
    page.reload()
    expect(page.locator(".automationcreated")).to_have_count(2)
    other.get_by_label("Pair", exact=True).fill("ETH/USDT")
    other.get_by_label("Short", exact=True).check()
    press(other, "Elect")
    expect(page.locator(".electionmade")).to_have_count(1)
    assert bots.get_by_label("Pair", exact=True).input_value() == "ETH/US"


def test_an_open_desk_page_says_what_another_window_withdrew_and_nothing_else(visitor):
    become_ready(visitor, "two-windows@example.com")
    other, page = visitor.page, visitor.page.context.new_page()
    page.goto("/desk")
    settings, headline = page.locator("[data-part=settings]"), page.locator("[data-part=headline]")
    expect(headline).to_contain_text("ready")
    expect(settings).to_contain_text("Enrolled")

    def confirm(path, button):
        other.goto(path)
        press(other, button)

    confirm("/desk/withdraw", "Withdraw")
    expect(headline).to_contain_text("connected, not enrolled")
    expect(settings).to_contain_text("If you enrol, you elect exactly this pair and direction.")
    expect(settings).not_to_contain_text("Enrolled")
    expect(settings.locator("dd").first).to_have_text("Kraken")
    expect(page.locator("[data-outdated]")).to_have_text("Reload this page to enrol.")
    expect(page.get_by_role("button", name="Enrol")).to_have_count(0)

    confirm("/desk/disconnect", "Disconnect")
    expect(headline).to_contain_text("not connected")
    expect(settings).not_to_contain_text("Kraken")
    expect(page.locator("[data-outdated]")).to_have_count(0)
    expect(page.get_by_role("button", name="Enrol")).to_be_disabled()

    other.goto("/desk/connect")
    visitor.connect()
    expect(headline).to_contain_text("connected, not enrolled")
    page.get_by_role("link", name="Reload this page").click()
    expect(page.get_by_role("button", name="Enrol")).to_be_enabled()


def test_what_is_pressed_is_still_there_when_it_is_released(visitor):
    page = visitor.page
    visitor.sign_up("pressing@example.com")
    page.goto("/desk")
    bots = page.context.new_page()
    bots.goto("/bots")
    bots.get_by_label("Name", exact=True).fill("Meanwhile")
    page.bring_to_front()
    page.get_by_role("link", name="Connect", exact=True).first.hover()
    page.mouse.down()
    with page.expect_response(lambda response: response.url == page.url) as fetched:
        press(bots, "Create bot")
    fetched.value.finished()
    page.evaluate("() => new Promise(requestAnimationFrame)")
    page.mouse.up()
    expect(page.get_by_label("Venue", exact=True)).to_be_visible()


@BOTH
def test_the_copy_button_says_what_it_copies_and_selects_what_it_cannot_copy(visitor, scripts):
    page = visitor.page
    visitor.sign_up(f"copier-{scripts}@example.com".lower())
    page.goto("/desk")
    page.get_by_role("button", name="Mint token").click()
    value = page.locator("pre.value").text_content()
    assert re.fullmatch("svc_desk_[0-9A-Za-z]{49}", value)
    if not scripts:
        expect(page.get_by_role("button", name="Copy")).to_have_count(0)
        return
    button = page.get_by_role("button", name="Copy the token", exact=True)
    expect(page.get_by_role("button", name="Copy the command", exact=True)).to_be_visible()
    said = page.get_by_role("main").get_by_role("status")
    page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error()); }")
    button.click()
    expect(said).to_contain_text("It is selected: copy it with the keyboard.")
    assert page.evaluate("getSelection().toString()") == value
    page.reload()
    page.goto("/desk/token")
    page.get_by_role("button", name="Mint and replace").click()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    button.click()
    expect(said).to_have_text("Copied the token.")
    value = page.locator("pre.value").text_content()
    elsewhere = page.context.new_page()
    elsewhere.set_content("<textarea></textarea>")
    elsewhere.locator("textarea").press("Control+V")
    expect(elsewhere.locator("textarea")).to_have_value(value)


@BOTH
def test_times_are_relative_and_their_tooltip_is_in_the_readers_zone(stage, new_page, scripts):
    page = new_page(timezone_id="Asia/Tokyo", java_script_enabled=scripts)
    Visitor(stage, page).sign_up(f"traveller-{scripts}@example.com".lower())
    page.goto("/activity")
    shown = page.locator("time").first
    expect(shown).to_have_text(re.compile("^just now$|minutes? ago$"))
    hour = int(re.search(r"T(\d\d):", shown.get_attribute("datetime")).group(1))
    local, zone = ((hour + 9) % 24, "GMT+9") if scripts else (hour, "UTC")
    assert re.search(rf", {local:02}:\d\d:\d\d {re.escape(zone)}$", shown.get_attribute("title"))
