"""The home page tries a message for a stranger, and says which check decides."""

import json
import re

import pytest
from playwright.sync_api import expect

from tests.browser.axe import violations
from tests.browser.stage import CHROMIUM

pytestmark = [
    pytest.mark.processes,
    pytest.mark.once,
    pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed"),
]


@pytest.fixture(params=[True, False], ids=["with scripts", "without scripts"])
def page(stage, request):
    context = stage.context(None, java_script_enabled=request.param)
    page = context.new_page()
    page.goto("/")
    yield page
    context.close()


def test_a_stranger_sees_which_check_decides_and_what_the_answer_would_be(page):
    answer, message = page.locator("#answer"), page.get_by_label("Message", exact=True)
    decided = answer.get_by_role("listitem").filter(has_text="this decided")

    def press(name):
        with page.expect_navigation():
            page.get_by_role("button", name=name, exact=True).click()

    page.get_by_label("Pair", exact=True).fill("SOL/USDT")
    page.get_by_label("Short", exact=True).check()
    press("Only a ticker")
    expect(answer).to_contain_text("Would be refused")
    expect(decided).to_contain_text("Does it name a pair and a direction, not a ticker?")
    expect(page.get_by_label("Pair", exact=True)).to_have_value("SOL/USDT")
    press("As elected")
    expect(answer).to_contain_text("Would be accepted Outcome: filled, on paper")
    expect(decided).to_have_count(0)
    body = {**json.loads(message.input_value()), "direction": "long"}
    message.fill(json.dumps(body))
    press("Check")
    expect(answer).to_contain_text("direction_mismatch")
    expect(decided).to_contain_text("Is the direction the elected one?")
    press("With an exchange key")
    expect(answer).to_contain_text("exchange_secret")
    expect(decided).to_contain_text("Is the message free of secrets?")
    expect(message).to_have_value(re.compile('"apiKey": "… .a made-up key."'))
    message.fill('{"apiKey": "hunter-mark"}')
    press("Check")
    expect(page.get_by_text("Your message is not shown again")).to_be_visible()
    assert "hunter-mark" not in page.content()


def test_axe_finds_nothing_on_the_page_with_an_answer(stage):
    context = stage.context(None)
    page = context.new_page()
    page.goto("/")
    with page.expect_navigation():
        page.get_by_role("button", name="Another pair", exact=True).click()
    found = violations(page)
    context.close()
    assert found == []
