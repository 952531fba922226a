"""A new customer in a real browser: from sign-up to the first fill and the first refusal.

Runs once with JavaScript and once without.
"""

import re
import shutil
import subprocess
import sys

import pytest
from playwright.sync_api import expect

from tests.browser.stage import CHROMIUM
from tests.factories import PASSWORD

pytestmark = [
    pytest.mark.processes,
    pytest.mark.once,
    pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed"),
]

ONE_LINE = 24  # pixels: two lines of code are higher
LANGUAGES = {
    "shell": ("sh", "sh"),
    "powershell": ("pwsh", "ps1"),
    "python": (sys.executable, "py"),
    "node": ("node", "js"),
    "php": ("php", "php"),
}


@pytest.fixture(params=[True, False], ids=["with scripts", "without scripts"])
def scripts(request):
    return request.param


@pytest.fixture
def page(stage, scripts):
    context = stage.context(None, java_script_enabled=scripts)
    yield context.new_page()
    context.close()


def press(page, name):
    page.get_by_role("button", name=name, exact=True).click()


def sign_up(stage, page, address):
    page.goto("/")
    page.get_by_role("main").get_by_role("link", name="Sign up").click()
    page.get_by_label("Email").fill(address)
    press(page, "Send link")
    expect(page.get_by_role("heading", level=1)).to_have_text("Check your email")
    page.goto(stage.last_link())
    page.get_by_label("Password").fill(PASSWORD)
    press(page, "Create account")


def become_ready(page):
    """Follows the checklist: connects the desk and enrols."""
    page.get_by_label("Venue", exact=True).select_option("Kraken")
    page.get_by_role("checkbox").check()
    press(page, "Connect")
    press(page, "Enrol")
    expect(page.get_by_text("You are now enrolled")).to_be_visible()


def create_bot(page):
    """Creates a bot, elects and generates a secret. Returns the sample code by language."""
    page.get_by_label("Name", exact=True).fill("Breakout")
    press(page, "Create bot")
    page.get_by_label("Pair", exact=True).fill("ETH/USDT")
    page.get_by_label("Short", exact=True).check()
    press(page, "Elect")
    press(page, "Generate secret")
    expect(page.locator("pre.value")).to_be_visible()
    shown = page.locator("pre[data-language]")
    codes = {each.get_attribute("data-language"): each.text_content() for each in shown.all()}
    page.get_by_role("link", name="I have stored it").click()
    return codes


def execute(code, language, folder):
    """Runs sample code from the page and returns its output."""
    program, ending = LANGUAGES[language]
    file = folder / f"push.{ending}"
    file.write_text(code)
    result = subprocess.run([program, str(file)], capture_output=True, text=True, timeout=300)
    return result.stdout


def test_sign_up_to_first_fill_and_first_refusal(stage, page, scripts, tmp_path):
    sign_up(stage, page, f"trader-{scripts}@example.com".lower())
    become_ready(page)
    codes = create_bot(page)
    assert set(codes) == set(LANGUAGES)
    installed = [name for name in codes if shutil.which(LANGUAGES[name][0])]
    page.get_by_role("link", name="Activity", exact=True).click()
    for language in installed:
        assert '"outcome":"filled"' in execute(codes[language], language, tmp_path)
    if not scripts:
        page.reload()
    expect(page.locator(".signalfilled")).to_have_count(len(installed))
    expect(page.locator(".signalfilled").first).to_contain_text("ETH/USDT short")
    news = page.locator("[data-news]")
    expect(news).to_have_text(re.compile(r"^\d+ new$") if scripts else "")

    wrong = codes["python"].replace("ETH/USDT", "SOL/USDT")
    assert "pair_mismatch" in execute(wrong, "python", tmp_path)
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
    not_installed = sorted(set(codes) - set(installed))
    print(f"Not run, since not installed: {not_installed or 'nothing'}")


def test_no_part_of_an_open_page_contradicts_the_first_fill(stage, tmp_path):
    context = stage.context(None)
    desk = context.new_page()
    sign_up(stage, desk, "first-fill@example.com")
    become_ready(desk)
    codes = create_bot(desk)
    bot = context.new_page()
    bot.goto(desk.url)
    desk.get_by_role("link", name="Desk", exact=True).click()
    for page in (desk, bot):
        expect(page.locator(".steps")).to_contain_text("First signal")
    expect(bot.get_by_role("heading", name="Send the first signal")).to_be_visible()
    expect(bot.get_by_role("img", name="0 filled, 0 refused")).to_be_visible()
    expect(desk.get_by_text("0 filled")).to_be_visible()
    for page in (desk, bot):
        page.evaluate("window.unchanged = true")
    assert '"outcome":"filled"' in execute(codes["python"], "python", tmp_path)
    for page in (desk, bot):
        expect(page.locator(".signalfilled")).to_have_count(1)
        expect(page.locator(".steps")).to_have_count(0)
    expect(desk.get_by_text("1 filled", exact=True)).to_be_visible()
    expect(desk.get_by_text("0 filled")).to_have_count(0)
    expect(bot.get_by_role("heading", name="Send the first signal")).to_have_count(0)
    expect(bot.get_by_role("img", name="1 filled, 0 refused")).to_be_visible()
    for page in (desk, bot):
        assert page.evaluate("window.unchanged")
    context.close()


def test_what_is_typed_stays_and_no_consent_changes_under_the_pointer(stage):
    context = stage.context(None)
    page = context.new_page()
    sign_up(stage, page, "typing@example.com")
    page.get_by_label("Venue", exact=True).select_option("Kraken")
    page.get_by_role("checkbox").check()
    press(page, "Connect")
    expect(page.get_by_text("Your desk is connected")).to_be_visible()
    forms = "document.querySelectorAll('[data-consent]')"
    page.evaluate(f"{forms}.forEach(form => form.dataset.consent = 'x')")
    bots = context.new_page()
    bots.goto("/bots")
    bots.get_by_label("Name", exact=True).fill("Typed")
    press(bots, "Create bot")
    # The event has arrived. The form to enrol, which now names another card, is the one of before.
    expect(page.locator(".automationcreated")).to_have_count(1)
    expect(page.locator("[data-outdated]").first).to_contain_text("Reload this page")
    expect(page.locator("[data-consent=x]").first).to_be_visible()
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
    context.close()


def test_what_is_pressed_is_still_there_when_it_is_released(stage):
    context = stage.context(None)
    page = context.new_page()
    sign_up(stage, page, "pressing@example.com")
    page.goto("/desk")
    bots = context.new_page()
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
    context.close()


def test_a_message_is_checked_before_it_is_sent(stage, page, scripts):
    sign_up(stage, page, f"checker-{scripts}@example.com".lower())
    become_ready(page)
    create_bot(page)
    page.get_by_role("link", name="Send", exact=True).click()
    press(page, "Send a test")
    expect(page.get_by_role("heading", level=2).first).to_contain_text("Would be accepted")
    tab = page.get_by_role("link", name="Send", exact=True)
    expect(tab).to_have_attribute("aria-current", "page")
    page.get_by_role("link", name="Check", exact=True).click()
    message = page.get_by_label("Message")
    message.fill(re.sub("short", "long", message.input_value()))
    press(page, "Check")
    expect(page.get_by_role("heading", level=2).first).to_contain_text("Would be refused")
    expect(page.locator(".compare")).to_contain_text("differs")
    page.goto("/activity")
    expect(page.locator(".signalfilled, .signalrefused")).to_have_count(0)


def test_the_copy_button_says_what_it_copies_and_selects_what_it_cannot_copy(stage, page, scripts):
    sign_up(stage, page, f"copier-{scripts}@example.com".lower())
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


def test_times_are_relative_and_their_tooltip_is_in_the_readers_time_zone(stage, scripts):
    context = stage.context(None, timezone_id="Asia/Tokyo", java_script_enabled=scripts)
    page = context.new_page()
    sign_up(stage, page, f"traveller-{scripts}@example.com".lower())
    page.goto("/activity")
    shown = page.locator("time").first
    expect(shown).to_have_text(re.compile("^just now$|minutes? ago$"))
    hour = int(re.search(r"T(\d\d):", shown.get_attribute("datetime")).group(1))
    local, zone = ((hour + 9) % 24, "GMT+9") if scripts else (hour, "UTC")
    assert re.search(rf", {local:02}:\d\d:\d\d {re.escape(zone)}$", shown.get_attribute("title"))
    context.close()
