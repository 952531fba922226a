"""The browser and the service, which all files of a worker share."""

import pytest
from playwright.sync_api import expect

from tests.browser.stage import chromium, set_up

# Expectations about pages wait as long as a slow machine needs, as actions on pages do.
expect.set_options(timeout=60_000)


@pytest.fixture(scope="package")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="package")
def stage(browser):
    """Tests leave the card, the seeded bot and its election as they are."""
    with set_up(browser) as stage:
        yield stage
