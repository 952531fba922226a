"""GET /api/docs in a browser, under the Content-Security-Policy of every page."""

import re

import pytest

from tests import described
from tests.browser.stage import CHROMIUM, COLOURS

pytestmark = [
    pytest.mark.processes,
    pytest.mark.once,
    pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed"),
]


@pytest.fixture(params=COLOURS)
def page(request, stage):
    """The rendered page in this colour scheme. ``said`` lists its errors."""
    context = stage.context(None, color_scheme=request.param)
    page = context.new_page()
    page.said, page.colours = [], request.param
    page.on("console", lambda message: page.said.append(message.text))
    page.on("pageerror", lambda error: page.said.append(str(error)))
    page.on("requestfailed", lambda failed: page.said.append(failed.url))
    page.goto("/api/docs")
    page.wait_for_selector(".opblock")
    yield page
    context.close()


def test_a_browser_draws_every_operation_and_tries_one_without_a_complaint(page):
    webhooks = described.described().content["webhooks"]
    assert page.locator(".opblock").count() == len(described.operations()) + len(webhooks)
    page.click("#operations-Catalog-readCatalog .opblock-summary")
    page.click("#operations-Catalog-readCatalog .execute")
    page.wait_for_selector("#operations-Catalog-readCatalog .live-responses-table")
    assert "forEngine" in page.inner_text("#operations-Catalog-readCatalog .live-responses-table")
    page.click("#operations-Signals-pushSignal .opblock-summary")
    page.wait_for_selector("#operations-Signals-pushSignal textarea")
    assert is_light(page) == (page.colours == "dark")
    assert page.said == []


def is_light(page):
    """Returns whether the headings are light, as a dark background requires."""
    text = "getComputedStyle(document.querySelector('.opblock-tag')).color"
    return int(re.search("[0-9]+", page.evaluate(text)).group()) > 128
