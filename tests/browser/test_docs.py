"""GET /api/docs in a browser: every operation, a filter, and commands that work as shown."""

import pytest
from playwright.sync_api import expect

from tests import described
from tests.browser.axe import violations
from tests.browser.stage import COLOURS
from tests.browser.test_contract import run
from tests.conformance.client import HOOK

pytestmark = [pytest.mark.processes, pytest.mark.once]

DOCS = "/api/docs"


@pytest.fixture
def page(new_page):
    page = new_page()
    page.goto(DOCS, wait_until="load")
    return page


def test_it_shows_every_operation_and_message_once(page):
    shown = page.locator(".operation div p .quiet").all_text_contents()
    messages = [
        message["post"]["operationId"]
        for message in described.described().content["webhooks"].values()
    ]
    assert sorted(shown) == sorted([*described.operations(), *messages])


def test_every_link_within_the_page_leads_somewhere(page):
    missing = """Array.from(document.querySelectorAll('a[href^="#"]'), (link) => link.hash.slice(1))
      .filter((id) => !document.getElementById(id))"""
    assert page.evaluate(missing) == []


@pytest.mark.parametrize("name", ["pushSignal", "DeskRecord"])
def test_what_is_folded_opens_for_a_link_without_scripts(new_page, name):
    page = new_page(java_script_enabled=False)
    page.goto(DOCS)
    expect(page.locator(f"#{name}")).to_be_hidden()
    page.goto(f"{DOCS}#{name}")
    expect(page.locator(f"#{name}")).to_be_visible()
    expect(page.locator(f"details:has(#{name}) > summary")).to_be_in_viewport()


def test_the_filter_leaves_the_operations_that_match(page):
    first = page.locator("summary").first
    first.click()
    is_open = page.locator(".parts > section > details[open]")
    expect(is_open).to_have_count(1)
    page.get_by_label("Filter this page").fill("changedSince")
    expect(page.locator("#listDesks")).to_be_visible()
    expect(page.locator("#mintToken")).to_be_hidden()
    page.get_by_label("Filter this page").fill("")
    expect(is_open).to_have_count(1)


def test_commands_work_with_the_token_that_is_typed_and_nothing_leaves_the_browser(stage, page):
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    page.get_by_label("Token for the commands").fill(stage.service.seed["platformToken"])
    pull, push = (
        page.locator(f"#{name} [data-fill]").text_content() for name in ("listDesks", "pushSignal")
    )
    assert '"userId"' in run(pull)
    assert '"outcome":"filled"' in run(push)
    assert [url for url in requests if not url.endswith(".svg")] == []  # the icon of the page


@pytest.mark.parametrize("path", [DOCS, HOOK])
@pytest.mark.parametrize("colours", COLOURS)
def test_axe_finds_nothing_by_any_of_its_rules(new_page, path, colours):
    page = new_page(color_scheme=colours)
    page.goto(path, wait_until="load")
    assert page.locator("main").count() == 1
    assert violations(page) == []
