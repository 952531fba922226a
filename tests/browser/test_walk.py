"""A walk of every page, in both colours and at three widths, as strict as a browser can be."""

from typing import Any
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from tests.browser.pages import HALFWAY, STAFF, USER, VISITOR, address, signed_in, who_sees
from tests.browser.stage import CHROMIUM, DESKTOP, PHONE, TABLET, set_up
from tests.routes import routes

pytestmark = [
    pytest.mark.processes,
    pytest.mark.once,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not CHROMIUM, reason="there is no chromium here"),
]

SERIOUS = ("serious", "critical")
# The reader of the schema is a library's: it puts links inside of its buttons.
A_LIBRARYS_OWN = {"/api/docs": ["nested-interactive"]}
# What axe-core looks for in each colour: everything, and then what depends on the colour.
RULES = {"light": [], "dark": ["color-contrast"]}
# Scripts hear of another colour at the next frame; what fades into it is there at once.
SETTLED = """() => new Promise((drawn) => requestAnimationFrame(() => setTimeout(() => {
    for (const each of document.getAnimations()) each.finish();
    drawn();
  })))"""
# What sticks out of the window, by name, so that a failure says what it is.
TOO_WIDE = """() => document.documentElement.scrollWidth <= innerWidth ? [] :
  Array.from(document.querySelectorAll("body *"))
    .filter((each) => each.getBoundingClientRect().right > innerWidth + 1)
    .map((each) => each.tagName + "." + each.className).slice(0, 5)"""


@pytest.fixture(scope="module")
def stage():
    with set_up(REQUIRE_STAFF_MFA="on") as stage:
        yield stage


def test_every_route_is_a_page_of_the_walk_or_says_why_not():
    for route in routes():
        who_sees(route)


@pytest.fixture(scope="module", params=[VISITOR, USER, STAFF, HALFWAY])
def somebody(request, stage):
    """Who looks, and their cookies: signed in once, since a code is taken once."""
    with signed_in(stage, request.param) as visitor:
        yield request.param, visitor


def test_every_page(stage, somebody):
    who, visitor = somebody
    seen = [address(stage, route) for route in routes() if who_sees(route) == who]
    context = stage.context(visitor)
    page = context.new_page()
    faults = {path: look_at(page, stage.service.base_url, path) for path in seen}
    context.close()
    lines = [f"{path}: {fault}" for path, found in faults.items() for fault in found]
    assert not lines, "\n".join(lines)


def look_at(page: Page, base_url: str, path: str) -> list[str]:
    """Everything that is wrong with a page."""
    said: list[str] = []
    listeners = {
        "console": lambda message: said.append(f"console: {message.text}"),
        "pageerror": lambda error: said.append(f"error: {error}"),
        "requestfailed": lambda request: said.append(f"failed: {request.url}"),
        "request": lambda request: said.extend(elsewhere(base_url, request.url)),
    }
    for event, listener in listeners.items():
        page.on(event, listener)
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": DESKTOP, "height": 900})
    answer = page.goto(base_url + path, wait_until="load")
    if answer.status != 200:
        said.append(f"status: {answer.status}")
    said.extend(narrow(page))
    for event, listener in listeners.items():
        page.remove_listener(event, listener)  # what looks for faults complains of our policy
    return [*said, *unusable(page)]


def elsewhere(base_url: str, url: str) -> list[str]:
    return [] if url.startswith((base_url, "data:")) else [f"elsewhere: {url}"]


def narrow(page: Page) -> list[str]:
    """The widths at which the page scrolls sideways, and what makes it."""
    found = []
    for width in (DESKTOP, TABLET, PHONE):
        page.set_viewport_size({"width": width, "height": 900})
        if wide := page.evaluate(TOO_WIDE):
            found.append(f"wider than {width}: {wide}")
    return found


def unusable(page: Page) -> list[str]:
    """What axe-core finds that keeps somebody from using the page; of dark, what dark changes."""
    page.evaluate(Axe().axe_script)
    exempt = A_LIBRARYS_OWN.get(urlsplit(page.url).path, [])
    return [
        f"{colours}: {each['id']}: {node['html'][:120]}"
        for colours, rules in RULES.items()
        for each in violations(page, colours, rules)
        if each["impact"] in SERIOUS and each["id"] not in exempt
        for node in each["nodes"]
    ]


def violations(page: Page, colours: str, rules: list[str]) -> list[dict[str, Any]]:
    page.emulate_media(color_scheme=colours)
    page.evaluate(SETTLED)
    options = {"resultTypes": ["violations"], **({"runOnly": rules} if rules else {})}
    return page.evaluate("options => axe.run(options).then((found) => found.violations)", options)
