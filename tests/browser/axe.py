"""What axe-core finds on a page: WCAG 2.2 AA and its best practice, of any impact."""

from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

# WCAG 2.5.8, which axe-core leaves out by default: every target has 24 px, or space around it.
TARGET_SIZE = {"target-size": {"enabled": True}}
RUN = "options => axe.run(options).then((found) => found.violations)"


def violations(page: Page, *only: str) -> list[str]:
    """Returns each rule that the page breaks, with the element, of all rules or of these."""
    page.evaluate(Axe().axe_script)
    options: dict[str, Any] = {"resultTypes": ["violations"], "rules": TARGET_SIZE}
    if only:
        options = {"resultTypes": ["violations"], "runOnly": list(only)}
    return [
        f"{each['id']}: {node['html'][:120]}"
        for each in page.evaluate(RUN, options)
        for node in each["nodes"]
    ]
