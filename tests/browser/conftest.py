"""The browser and the service, which all files of a worker share."""

import pytest
from playwright.sync_api import expect

from tests.browser.stage import CHROMIUM, chromium, set_up
from tests.browser.visitor import Visitor

# Expectations about pages wait as long as a slow machine needs, as actions on pages do.
expect.set_options(timeout=60_000)


@pytest.fixture(scope="package")
def browser():
    if not CHROMIUM:
        pytest.skip("chromium is not installed")
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="package")
def stage(browser):
    """Tests leave the card, the seeded bot and its election as they are."""
    with set_up(browser) as stage:
        yield stage


@pytest.fixture
def new_page(stage):
    """Opens a page in a context of its own, with the cookies of a visitor or with none."""
    contexts = []

    def opened(visitor=None, **options):
        contexts.append(stage.context(visitor, **options))
        return contexts[-1].new_page()

    yield opened
    for context in contexts:
        context.close()


@pytest.fixture
def scripts():
    """Whether the browser runs scripts. ``stage.BOTH`` runs a test with them and without."""
    return True


@pytest.fixture
def visitor(stage, new_page, scripts):
    return Visitor(stage, new_page(java_script_enabled=scripts))
