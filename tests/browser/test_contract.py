"""The contract in a browser: its filter, its code, its signature, and all without scripts."""

import os
import subprocess

import pytest
from playwright.sync_api import expect

from tests.browser.stage import DESKTOP, PHONE
from tests.conformance.client import HOOK
from tokens.crypto import signing

pytestmark = [pytest.mark.processes, pytest.mark.once]

# The elements that do not fit the page's width when it is printed.
CUT_OFF = """() => Array.from(document.querySelectorAll("pre, .members"))
  .filter((each) => each.scrollWidth > each.clientWidth + 1).map((each) => each.textContent)"""


@pytest.fixture
def open_page(new_page):
    """Opens the contract in a new context with these options."""

    def opened(**options):
        page = new_page(**options)
        page.goto(HOOK, wait_until="load")
        return page

    return opened


def run(code, **environment):
    """Runs code of the page in a shell. Returns what it prints."""
    done = subprocess.run(
        ["sh", "-c", code],
        capture_output=True,
        text=True,
        timeout=300,
        env={"PATH": os.environ["PATH"], **environment},
    )
    return done.stdout


def vector(stage):
    return stage.service.get(HOOK).json()["signing"]["vector"]


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_the_filter_leaves_what_matches_and_says_how_much(open_page, width):
    page = open_page(viewport={"width": width, "height": 900})
    all_rows = page.locator("#refusals [data-row]").count()
    page.get_by_label("Filter this page").fill("direction_mismatch")
    expect(page.locator("#found")).to_have_text("1 of 14 parts")
    rows = page.locator("#refusals [data-row]:visible")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("Direction differs from the election")
    expect(page.locator("#signing")).to_be_hidden()
    expect(page.locator(".contents li:visible")).to_have_count(1)
    page.get_by_label("Filter this page").fill("")
    expect(page.locator(".parts > section:visible")).to_have_count(14)
    expect(page.locator("#refusals [data-row]:visible")).to_have_count(all_rows)


def test_the_filter_keeps_all_rows_of_a_part_whose_heading_matches(open_page):
    page = open_page()
    page.get_by_label("Filter this page").fill("LIMITS")
    assert page.locator("#limits [data-row]:visible").count() > 8


def test_the_filter_of_what_is_nowhere_leaves_nothing(open_page):
    page = open_page()
    page.get_by_label("Filter this page").fill("zebra")
    expect(page.locator("#found")).to_have_text("0 of 14 parts")
    expect(page.locator(".parts > section:visible")).to_have_count(0)


def test_the_signature_is_that_of_what_is_typed_and_nothing_is_sent(stage, open_page):
    page, shown = open_page(), vector(stage)
    result = page.locator(".sign output")
    expect(result).to_have_text(shown["signature"])
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    secret, body = "svc_sign_ümlaut", '{"pair": "BTC/USDT", "why": "✓"}\n'
    page.get_by_label("Secret", exact=True).fill(secret)
    page.get_by_label("Timestamp", exact=True).fill("1800000000")
    page.get_by_label("Body", exact=True).fill(body)
    expect(result).to_have_text(signing.sign(secret, 1800000000, body.encode()))
    page.get_by_label("Timestamp", exact=True).press("Enter")
    page.get_by_label("Secret", exact=True).fill("")
    expect(result).to_have_text("Type a secret.")
    assert [url for url in requests if not url.endswith(".svg")] == []  # the icon of the page
    assert page.url.endswith(HOOK)


def test_the_filled_in_code_sends_a_signal_as_it_is_shown(stage, open_page):
    page, bot = open_page(), stage.service.bot
    for label, value in {
        "Bot's id": bot["botId"],
        "Signing secret": bot["secret"],
        "Elected pair": bot["pair"],
        "Elected direction": bot["direction"],
    }.items():
        page.get_by_label(label, exact=True).fill(value)
    assert '"outcome":"filled"' in run(page.locator("[data-language='shell']").text_content())


def test_the_commands_of_an_engine_work_with_what_is_typed_and_nothing_leaves_the_browser(
    stage, open_page
):
    page, token = open_page(), stage.service.seed["platformToken"]
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    page.get_by_label("Platform token", exact=True).fill(token)
    page.get_by_label("A desk's userId", exact=True).fill(stage.service.seed["desks"][0]["userId"])
    page.get_by_label("Platform token", exact=True).press("Enter")
    codes = {
        name: page.locator(f"[data-engine='{name}']").text_content()
        for name in ("pull", "deploy", "fanout", "follow")
    }
    assert all(f'"Authorization: Bearer {token}"' in code for code in codes.values())
    assert '"ready":true' in run(codes["pull"])
    assert '"matched":1,"filled":1' in run(codes["deploy"])
    assert '"outcome":"filled"' in run(codes["fanout"])
    follow = [codes["follow"].replace("curl", f"curl -sm {most}") for most in (2, 60)]  # seconds
    assert any(run(code).startswith("retry: ") for code in follow)  # it does not end by itself
    assert [url for url in requests if not url.endswith(".svg")] == []  # the icon of the page
    assert page.url.endswith(HOOK)
    assert page.evaluate("[localStorage.length, sessionStorage.length, document.cookie]") == [
        0,
        0,
        "",
    ]
    page.reload()
    assert page.get_by_label("Platform token", exact=True).input_value() == ""


def test_without_a_typed_token_the_shell_takes_it_from_a_variable(stage, open_page):
    code = open_page().locator("[data-engine='pull']").text_content()
    assert '"ready":true' in run(code, SVC_TOKEN=stage.service.seed["platformToken"])


def test_without_scripts_all_is_there_but_the_tools(stage, open_page):
    page, shown = open_page(java_script_enabled=False), vector(stage)
    assert page.locator("form:visible").count() == 0
    assert page.locator(".parts > section:visible").count() == 14
    told = stage.service.get(HOOK).json()["refusals"]
    assert page.locator("#refusals [data-row]:visible").count() == len(told)
    for value in shown.values():
        assert page.locator("#signing").get_by_text(value).first.is_visible()
    page.locator("summary", has_text="Python").click()
    assert page.get_by_text("import hashlib").is_visible()


def test_it_is_printed_whole_and_without_tools(open_page):
    page = open_page(viewport={"width": 700, "height": 1000})
    page.emulate_media(media="print")
    assert page.locator(".contents:visible, form:visible, .copy:visible").count() == 0
    assert page.evaluate(CUT_OFF) == []
    assert len(page.pdf()) > 10_000
