"""Pages hear of news in a real browser: two windows, one stream, a network that goes away."""

from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from tests.browser.pages import STAFF, USER, signed_in
from tests.network import network_to
from tests.server import ADDRESS, gauge
from tests.signals.webhooks.runner.stage import until

pytestmark = [pytest.mark.processes, pytest.mark.once]


@pytest.fixture(scope="module")
def owner(stage):
    with signed_in(stage, USER) as visitor:
        yield visitor


@pytest.fixture
def context(stage, owner):
    wait_for_streams(stage, 0)
    context = stage.context(owner)
    yield context
    context.close()
    wait_for_streams(stage, 0)


def streams(stage):
    """How many streams the service has open."""
    return gauge(stage.service.base_url, "signals_live_readers")


def wait_for_streams(stage, number):
    until(lambda: streams(stage) == number)


@pytest.fixture
def network(stage):
    with network_to(urlsplit(stage.service.base_url).port) as network:
        yield network


class Window:
    """A window on Activity, that was never loaded again, and what it fetched since."""

    def __init__(self, context, network=None):
        self.page = context.new_page()
        self.page.goto(f"http://{ADDRESS}:{network.port}/activity" if network else "/activity")
        mark = "document.querySelectorAll('li').forEach(li => (li.mark = true))"
        self.page.evaluate(f"window.unchanged = true; {mark}")
        self.fetched = []
        self.page.on("request", lambda request: self.fetched.append(request.url))

    def fills(self):
        return self.page.locator(".signalfilled")

    def fetched_but_the_fragment(self):
        return [url for url in self.fetched if "fragment=1" not in url]

    def is_unchanged(self):
        """Whether the page was not loaded again, and its old lines are the same elements."""
        marked = "window.unchanged && [...document.querySelectorAll('li')].at(-1).mark"
        return self.page.evaluate(marked)

    def hide(self, hidden=True):
        """Lets the page believe that its window is hidden, which a browser without one cannot."""
        self.page.evaluate(
            """hidden => {
                Object.defineProperty(document, "hidden", {value: hidden, configurable: true});
                document.dispatchEvent(new Event("visibilitychange"));
            }""",
            hidden,
        )


def fill(stage):
    """A fill of the seeded user's desk."""
    answer = stage.service.push(stage.service.tradingview(), secret=stage.service.bot["secret"])
    assert answer.json()["outcome"] == "filled"


def quiet(*windows):
    """Waits until the windows have made the request that follows the opening of the stream.

    From then on a window that fetches nothing but the fragment has opened no stream: news came by
    the one that is open.
    """
    for window in windows:
        window.page.wait_for_function(
            "() => performance.getEntriesByType('resource').some(e => e.name.includes('fragment'))"
        )
        window.fetched.clear()


def test_a_fill_appears_at_once_in_two_windows_that_share_one_stream(stage, context):
    one, other = Window(context), Window(context)
    wait_for_streams(stage, 1)
    quiet(one, other)
    before = one.fills().count()
    fill(stage)
    for window in (one, other):
        expect(window.fills()).to_have_count(before + 1)
        assert window.is_unchanged()
        assert window.fetched_but_the_fragment() == []
        expect(window.page.locator("[data-news]")).to_have_text("1 new")
    assert streams(stage) == 1
    one.page.close()
    fill(stage)
    expect(other.fills()).to_have_count(before + 2)
    wait_for_streams(stage, 1)


def test_a_page_that_is_hidden_has_no_stream_and_checks_when_it_is_shown(stage, context):
    window = Window(context)
    wait_for_streams(stage, 1)
    quiet(window)
    before = window.fills().count()
    window.hide()
    wait_for_streams(stage, 0)
    window.fetched.clear()
    fill(stage)
    assert window.fetched == []
    window.hide(False)
    expect(window.fills()).to_have_count(before + 1)
    wait_for_streams(stage, 1)


def test_what_happened_while_the_network_was_away_appears_in_both_windows(stage, context, network):
    windows = Window(context, network), Window(context, network)
    wait_for_streams(stage, 1)
    quiet(*windows)
    before = windows[0].fills().count()
    network.cut()
    wait_for_streams(stage, 0)
    fill(stage)
    assert [window.fills().count() for window in windows] == [before, before]
    network.restore()
    for window in windows:
        expect(window.fills()).to_have_count(before + 1)
    wait_for_streams(stage, 1)
    quiet(*windows)
    fill(stage)
    for window in windows:
        expect(window.fills()).to_have_count(before + 2)
        assert window.fetched_but_the_fragment() == []
        assert window.is_unchanged()


def test_a_stream_that_died_unnoticed_is_opened_again_when_the_browser_is_online(
    stage, context, network
):
    window = Window(context, network)
    wait_for_streams(stage, 1)
    quiet(window)
    before = window.fills().count()
    network.lose("/activity/stream")
    fill(stage)
    network.wait_for_a_loss()
    assert window.fills().count() == before
    context.set_offline(True)
    context.set_offline(False)
    expect(window.fills()).to_have_count(before + 1)
    wait_for_streams(stage, 1)
    quiet(window)
    fill(stage)
    expect(window.fills()).to_have_count(before + 2)
    assert window.fetched_but_the_fragment() == []


def test_repeats_are_folded_as_they_come_and_the_focus_and_what_is_open_stay(stage, context):
    window = Window(context)
    page, secret = window.page, stage.service.bot["secret"]
    elected = stage.service.tradingview()

    def send(**changes):
        stage.service.push(stage.service.tradingview(**changes), secret=secret)

    send(pair="ADA/USDT")
    newest = page.locator(".events > li").first
    expect(newest).to_contain_text("sent the pair ADA/USDT")
    send()
    sentence = f"on paper: {elected['pair']} {elected['direction']}"
    expect(newest).to_contain_text(f"Filled {sentence}")
    newest.get_by_role("link").focus()
    send()
    expect(newest).to_contain_text(f"2 fills {sentence}")
    expect(newest.locator("summary")).to_be_focused()
    page.keyboard.press("Enter")
    expect(newest.get_by_role("link")).to_have_count(2)
    page.keyboard.press("Tab")
    first = newest.get_by_role("link").first.get_attribute("href")
    send()
    expect(newest).to_contain_text(f"3 fills {sentence}")
    expect(newest.get_by_role("link")).to_have_count(3)
    expect(newest.get_by_role("link").nth(1)).to_be_focused()
    assert newest.get_by_role("link").nth(1).get_attribute("href") == first
    expect(page.locator("[data-news]")).to_have_text("4 new")
    assert window.is_unchanged()


def test_without_a_stream_the_page_polls(stage, context):
    context.route("**/activity/stream", lambda route: route.fulfill(status=503))
    window = Window(context)
    before = window.fills().count()
    fill(stage)
    expect(window.fills()).to_have_count(before + 1)
    assert streams(stage) == 0


def test_a_page_that_waits_for_an_alert_shows_it_also_after_a_wrong_host_name(stage, context):
    page, bot = context.new_page(), stage.service.bot
    page.goto(f"/bots/{bot['botId']}/tradingview?host=relay")
    expect(page.locator(".errorlist")).to_have_text("Enter a name such as relay.example.com.")
    alert = stage.service.tradingview()
    stage.service.push(alert, secret=bot["secret"])
    expect(page.locator("[data-part=heard]")).to_contain_text(f"with the nonce {alert['nonce']}")


def test_the_log_of_the_control_area_shows_new_events(stage, new_page):
    with signed_in(stage, STAFF) as operator:
        page = new_page(operator)
    page.goto("/control/events/event/")
    wait_for_streams(stage, 1)
    first = page.locator("#result_list tbody tr th a").first
    before = first.get_attribute("href")
    fill(stage)
    expect(first).not_to_have_attribute("href", before)
    expect(page.locator("[data-news]")).to_have_text("1 new")
