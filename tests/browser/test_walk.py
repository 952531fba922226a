"""Opens every page in both colour schemes and at three widths, and checks it in the browser.

``make test`` opens what staff see before their second factor. ``make drills`` opens all pages
(``WALK=all``), in minutes.
"""

import os
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.browser.axe import violations
from tests.browser.pages import HALFWAY, STAFF, USER, VISITOR, address, signed_in, who_sees
from tests.browser.stage import DESKTOP, PHONE, TABLET
from tests.browser.weight import HEAVY, MOST, Scale
from tests.routes import routes

pytestmark = [pytest.mark.processes, pytest.mark.once]

# The rules of axe-core for each colour scheme: all, then those that depend on colour.
RULES: dict[Any, list[str]] = {"light": [], "dark": ["color-contrast"]}
# Waits for two frames and finishes all animations. Returns False if no frames came within a second.
SETTLE = """() => new Promise((settled) => {
    const finish = () => {
      for (const animation of document.getAnimations()) animation.finish();
      settled(true);
    };
    requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(finish)));
    setTimeout(() => settled(false), 1000);
  })"""
# Returns the elements that are wider than the window.
TOO_WIDE = """() => document.documentElement.scrollWidth <= innerWidth ? [] :
  Array.from(document.querySelectorAll("body *"))
    .filter((each) => each.getBoundingClientRect().right > innerWidth + 1)
    .map((each) => each.tagName + "." + each.className).slice(0, 5)"""


def test_every_route_has_a_visitor_or_a_reason_for_no_page():
    for route in routes():
        who_sees(route)


ALL = [VISITOR, USER, STAFF, HALFWAY]
WALKED = ALL if os.environ.get("WALK") == "all" else [HALFWAY]


@pytest.fixture(scope="module", params=WALKED)
def signed_in_visitor(request, stage):
    """A kind of visitor and a client, signed in once, because a code is valid only once."""
    with signed_in(stage, request.param) as visitor:
        yield request.param, visitor


def test_every_page(stage, signed_in_visitor):
    who, visitor = signed_in_visitor
    paths = [address(stage, route) for route in routes() if who_sees(route) == who]
    context = stage.context(visitor)
    page = context.new_page()
    scale = Scale(page)
    faults = {path: check_page(page, stage.service.base_url, path, scale) for path in paths}
    context.close()
    lines = [f"{path}: {fault}" for path, of_page in faults.items() for fault in of_page]
    assert not lines, "\n".join(lines)


def check_page(page: Page, base_url: str, path: str, scale: Scale) -> list[str]:
    """Returns all faults of a page."""
    faults: list[str] = []
    listeners = {
        "console": lambda message: faults.append(f"console: {message.text}"),
        "pageerror": lambda error: faults.append(f"error: {error}"),
        "requestfailed": lambda request: faults.append(f"failed: {request.url}"),
        "request": lambda request: faults.extend(other_hosts(base_url, request.url)),
    }
    for event, listener in listeners.items():
        page.on(event, listener)
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": DESKTOP, "height": 900})
    answer = page.goto(base_url + path, wait_until="load")
    if answer.status != 200:
        faults.append(f"status: {answer.status}")
    weight = scale.take().received
    if weight > MOST and path not in HEAVY:
        faults.append(f"weight: {weight}")
    faults.extend(overflows(page))
    for event, listener in listeners.items():
        page.remove_listener(event, listener)  # axe-core violates the policy
    faults.extend(accessibility_faults(page))
    page.goto("about:blank")  # ends the page's stream, which is no fault of the next page
    return faults


def other_hosts(base_url: str, url: str) -> list[str]:
    return [] if url.startswith((base_url, "data:")) else [f"other host: {url}"]


def overflows(page: Page) -> list[str]:
    """Returns the widths at which the page scrolls sideways, with the elements that cause it."""
    faults = []
    for width in (DESKTOP, TABLET, PHONE):
        page.set_viewport_size({"width": width, "height": 900})
        if wide := page.evaluate(TOO_WIDE):
            faults.append(f"wider than {width}: {wide}")
    return faults


def accessibility_faults(page: Page) -> list[str]:
    """Returns what axe-core finds, by colour scheme."""
    faults = [] if page.locator("main").count() == 1 else ["not one main"]
    for colours, rules in RULES.items():
        page.emulate_media(color_scheme=colours)
        settle(page)
        faults += [f"{colours}: {each}" for each in violations(page, *rules)]
    return faults


def settle(page: Page) -> None:
    """Waits for a frame. A busy headless browser may stop drawing: a screenshot forces a frame."""
    for _ in range(10):
        if page.evaluate(SETTLE):
            return
        page.screenshot()
    raise AssertionError(f"The browser does not show the colour scheme: {page.url}")


def test_axe_finds_nothing_on_the_home_page_with_an_answer(new_page):
    page = new_page()
    page.goto("/")
    with page.expect_navigation():
        page.get_by_role("button", name="Another pair", exact=True).click()
    assert accessibility_faults(page) == []
