"""An operator's tasks in a real browser: sign-in with a second factor, tokens, secrets, a card."""

import pytest
from playwright.sync_api import expect

from tests.browser.stage import CHROMIUM, set_up
from tests.conformance.browser import totp
from tests.conformance.client import code

pytestmark = [
    pytest.mark.processes,
    pytest.mark.once,
    pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed"),
]


@pytest.fixture(scope="module")
def stage(browser):
    """A service of its own: a card that is published ends every enrolment."""
    with set_up(browser) as stage:
        yield stage


@pytest.fixture(scope="module")
def page(stage):
    """A page of the control area, signed in once, because a code is valid only once."""
    context = stage.context(None)
    page, admin = context.new_page(), stage.service.seed["admin"]
    page.goto("/control/")
    page.get_by_label("Email").fill(admin["email"])
    page.get_by_label("Password").fill(admin["password"])
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.get_by_label("Code").fill(totp(admin["totpSecret"]))
    page.get_by_label("Code").press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    yield page
    context.close()


@pytest.fixture(autouse=True)
def overview(page):
    page.goto("/control/")
    return page


def follow(page, name):
    page.get_by_role("main").get_by_role("link", name=name, exact=True).first.click()


def press(page, name):
    page.get_by_role("button", name=name, exact=True).click()


def shown(page):
    """Returns the value that the page shows only once."""
    value = page.locator("pre.value").text_content().strip()
    follow(page, "I have stored it")
    expect(page.get_by_text(value)).to_have_count(0)
    return value


def test_a_token_is_minted_used_and_revoked(stage, page):
    follow(page, "Mint a platform token")
    page.get_by_label("Name").fill("Second engine")
    page.get_by_label("read: pull desks").check()
    page.get_by_label("write: deploy").check()
    press(page, "Mint a platform token")
    token = shown(page)
    assert stage.service.get("/api/v1/desks", token).status_code == 200
    assert stage.service.push(stage.service.fanout(), token).status_code == 200

    follow(page, "Revoke")
    expect(page.get_by_text("is refused from the next request on")).to_be_visible()
    press(page, "Revoke")
    expect(page.get_by_text("The token is revoked.")).to_be_visible()
    refused = stage.service.get("/api/v1/desks", token)
    assert (refused.status_code, code(refused)) == (401, "token_invalid")


def test_the_first_nox_secret_ends_the_floor_secrets_right_to_sign_nox(stage, page):
    service = stage.service
    assert service.push(service.of_nox(), secret=service.floor).status_code == 200
    follow(page, "Generate a Nox secret")
    expect(page.get_by_text("from now on the Floor secret can never sign nox")).to_be_visible()
    press(page, "Generate a Nox secret")
    nox = shown(page)
    refused = service.push(service.of_nox(), secret=service.floor)
    assert (refused.status_code, code(refused)) == (401, "floor_secret_refused")
    assert service.push(service.of_nox(), secret=nox).status_code == 200


def test_publishing_a_card_ends_every_enrolment(stage, page):
    service = stage.service
    ready = len(list(service.desks(ready=1)))
    assert ready > 1
    follow(page, "Publish a card")
    page.get_by_label("Name").fill("Evening")  # a new card, even with the same pair and direction
    page.get_by_label("Pair").fill("BTC/USDT")
    page.get_by_label("Long").check()
    press(page, "Continue")
    expect(page.get_by_text("Publishing retires Morning trend")).to_be_visible()
    expect(
        page.get_by_text(f"{ready} desks will be unenrolled and must enrol again")
    ).to_be_visible()
    assert len(list(service.desks(ready=1))) == ready
    press(page, "Publish Evening")
    expect(page.get_by_text("The card is published.")).to_be_visible()
    assert list(service.desks(ready=1)) == []
    page.goto("/control/")
    figures = page.locator(".figures")
    expect(figures).to_contain_text("Evening")
    expect(figures).to_contain_text("connected, 0 ready")


def test_a_signals_page_explains_its_outcome(stage, page):
    service = stage.service
    answer = service.push(service.tradingview(), secret=service.bot["secret"]).json()
    page.get_by_role("link", name="Signals", exact=True).click()
    page.get_by_label("Find").fill(answer["signal"]["id"])
    press(page, "Search")
    follow(page, answer["signal"]["id"])
    why = page.locator(".why")
    expect(why).to_contain_text("signed with the secret")
    expect(why).to_contain_text("The credential was valid.")
    expect(why).to_contain_text("repeats both")
    expect(why).to_contain_text("It filled 1 desk")


def test_the_overview_links_to_a_refusals_page(stage, page):
    service = stage.service
    service.push(service.tradingview(direction="short"), secret=service.bot["secret"])
    page.goto("/control/")
    follow(page, "direction_mismatch")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Direction")
