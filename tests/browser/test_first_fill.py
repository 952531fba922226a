"""The first fill without a terminal: the page that shows a bot's secret sends a signal."""

import re
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from tests.browser.test_walk import accessibility_faults

pytestmark = [pytest.mark.processes, pytest.mark.once]

MOST_CLICKS = 14
SEND = "Send this signal now"
HOOK = "**/api/hooks/signal"


def set_up(visitor, address):
    """A new customer whose page shows the secret of their bot."""
    visitor.sign_up(address)
    visitor.connect()
    visitor.page.goto("/bots")
    return visitor.set_up_bot()


def test_from_the_home_page_to_the_first_fill_with_every_consent_and_no_other_program(visitor):
    page, requests = visitor.page, []
    page.on("request", lambda request: requests.append(request))  # noqa: PLW0108 - as below
    visitor.sign_up("clicks@example.com")
    expect(page.get_by_label("Venue", exact=True)).to_have_value("")
    expect(page.get_by_role("checkbox")).not_to_be_checked()
    visitor.connect()
    visitor.click("button", "Enrol")
    expect(page.get_by_text("You are now enrolled")).to_be_visible()
    visitor.type("Name", "Breakout")
    visitor.click("button", "Create bot")
    expect(page.get_by_label("Pair", exact=True)).to_have_value("")
    expect(page.get_by_role("radio", checked=True)).to_have_count(0)
    visitor.type("Pair", "ETH/USDT")
    visitor.press(page.get_by_label("Short", exact=True))
    visitor.click("button", "Elect")
    visitor.click("button", "Generate secret")
    visitor.click("button", SEND)
    expect(answer_of(visitor)).to_contain_text("Filled 200 ETH/USDT short, on paper")
    assert visitor.clicks <= MOST_CLICKS, visitor.clicks
    posted = [urlsplit(each.url).path for each in requests if each.method == "POST"]
    bot = page.url.rpartition("/bots/")[2].partition("/")[0]
    assert [path.replace(bot, "BOT") for path in posted] == [
        *("/accounts/signup/", "/accounts/signup/password/", "/desk/connect", "/desk/enrol"),
        *("/bots", "/bots/BOT/elect", "/bots/BOT/secret", "/api/hooks/signal"),
    ]
    visitor.click("link", "Set up TradingView")
    expect(page.get_by_role("heading", name="Waiting for your first alert …")).to_be_visible()


def answer_of(visitor):
    """What the page says of the answer."""
    return visitor.page.locator("[data-send]").get_by_role("status")


def fills(visitor):
    """The fills that a second window lists."""
    page = visitor.page.context.new_page()
    page.goto("/activity")
    return page.locator(".signalfilled")


def wait_for_requests(page, held, count):
    """Waits until so many requests are held: Playwright calls the handler while it waits."""
    while len(held) < count:
        page.wait_for_timeout(10)


def test_the_page_signs_and_sends_and_the_secret_stays_on_it(visitor):
    secret, page = set_up(visitor, "sender@example.com"), visitor.page
    requests = []
    page.on("request", lambda request: requests.append(request))  # noqa: PLW0108 - it marks its handler
    visitor.click("button", SEND)
    expect(answer_of(visitor)).to_contain_text("Filled 200 ETH/USDT short, on paper")
    [request] = [each for each in requests if "/static/" not in each.url]
    assert (request.method, urlsplit(request.url).path) == ("POST", "/api/hooks/signal")
    assert request.post_data_json.keys() == {
        *("botId", "pair", "direction", "nonce", "elected", "source")
    }
    headers = request.all_headers()
    assert "cookie" not in headers
    assert secret not in str([request.url, headers, request.post_data])
    assert page.evaluate("[...Object.values(localStorage), ...Object.values(sessionStorage)]") == []
    assert secret not in page.evaluate("document.cookie")
    assert accessibility_faults(page) == []

    visitor.click("button", SEND)
    expect(fills(visitor)).to_have_count(2)
    nonces = {each.post_data_json["nonce"] for each in requests if each.method == "POST"}
    assert len(nonces) == 2


def test_a_refusal_shows_its_code_its_sentence_and_what_to_do(visitor):
    set_up(visitor, "refused@example.com")
    other = visitor.page.context.new_page()
    other.goto("/bots")
    other.get_by_role("link", name="Breakout").click()
    other.get_by_role("link", name="Withdraw…").click()
    other.get_by_role("button", name="Withdraw").click()
    expect(other.get_by_text("election is withdrawn")).to_be_visible()
    visitor.click("button", SEND)
    said = answer_of(visitor)
    expect(said).to_contain_text("Refused 422 no_election The bot has no election. ")
    expect(said).to_contain_text("must first elect a pair and a direction")
    expect(said.get_by_role("link", name="no_election")).to_have_attribute(
        "href", re.compile("/problems/no_election$")
    )
    assert accessibility_faults(visitor.page) == []


def test_a_signal_whose_answer_was_lost_counts_once_when_it_is_sent_again(visitor):
    set_up(visitor, "lost@example.com")
    page = visitor.page

    def lose_the_answer(route):
        route.fetch()
        route.abort()

    page.route(HOOK, lose_the_answer)
    visitor.click("button", SEND)
    expect(answer_of(visitor)).to_contain_text("No answer The signal may have arrived.")
    page.unroute(HOOK)
    visitor.click("button", SEND)
    expect(answer_of(visitor)).to_contain_text("Filled 200 ETH/USDT short")
    expect(fills(visitor)).to_have_count(1)
    visitor.click("button", SEND)
    expect(answer_of(visitor)).to_contain_text("Filled 200")
    expect(fills(visitor)).to_have_count(2)


def test_impatient_clicks_send_one_signal(visitor):
    set_up(visitor, "impatient@example.com")
    held = []
    visitor.page.route(HOOK, lambda route: held.append(route))  # noqa: PLW0108 - as above
    visitor.click("button", SEND)
    wait_for_requests(visitor.page, held, 1)
    visitor.click("button", SEND)
    held[0].continue_()
    expect(answer_of(visitor)).to_contain_text("Filled 200")
    assert len(held) == 1
    second_of_a_double_click = {"detail": 2}
    visitor.page.get_by_role("button", name=SEND).dispatch_event("click", second_of_a_double_click)
    assert "Filled 200" in answer_of(visitor).inner_text()
    visitor.click("button", SEND)
    wait_for_requests(visitor.page, held, 2)
    assert len(held) == 2


def test_a_bot_with_a_maximum_age_gets_the_time_of_sending(visitor):
    set_up(visitor, "aged@example.com")
    page = visitor.page
    page.get_by_role("link", name="I have stored it").click()
    page.get_by_role("link", name="Alarm", exact=True).click()
    page.get_by_label("Maximum age of a signal, in seconds").fill("600")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved.")).to_be_visible()
    page.get_by_role("link", name="Secret", exact=True).click()
    page.get_by_role("button", name="Generate new secret").click()
    visitor.click("button", SEND)
    expect(answer_of(visitor)).to_contain_text("Filled 200")


@pytest.mark.parametrize("scripts", [False])
def test_without_scripts_the_page_offers_only_code(visitor):
    set_up(visitor, "plain@example.com")
    expect(visitor.page.locator("pre[data-language]").first).to_be_visible()
    expect(visitor.page.get_by_text(SEND)).to_be_hidden()
