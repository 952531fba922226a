"""GET /api/docs in a browser, under the Content-Security-Policy of every page."""

import re
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import sync_playwright

from tests import client, described
from tests.server import serving

pytestmark = pytest.mark.once

DOCS = "/api/docs"
BROWSER = shutil.which("chromium")


def test_everybody_may_read_it(db):
    answer = client.get(DOCS)
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert answer.headers["Cache-Control"] == "no-store"


def test_it_brings_no_script_and_no_style_of_its_own_and_nothing_from_elsewhere(db):
    page = client.get(DOCS).content.decode()
    assert "<style" not in page
    assert not re.search(r"\sstyle=|\son[a-z]+=", page)
    assert all(" src=" in script for script in re.findall(r"<script[^>]*>", page))
    assert re.findall(r'(?:src|href)="(?:https?:)?//', page) == []


@pytest.fixture(scope="module")
def base_url():
    with serving(WEB_CONCURRENCY="1") as server:
        yield server.base_url


@pytest.fixture(params=["light", "dark"])
def page(request, base_url) -> Iterator[Any]:
    """The rendered page in this colour scheme. ``said`` lists its errors."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        page: Any = browser.new_page(color_scheme=request.param)
        page.said, page.colours = [], request.param
        page.on("console", lambda message: page.said.append(message.text))
        page.on("pageerror", lambda error: page.said.append(str(error)))
        page.on("requestfailed", lambda failed: page.said.append(failed.url))
        page.goto(base_url + DOCS)
        page.wait_for_selector(".opblock")
        yield page
        browser.close()


@pytest.mark.processes
@pytest.mark.skipif(not BROWSER, reason="there is no chromium here")
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
