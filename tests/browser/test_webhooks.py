"""A trader's webhook, from the form to deliveries in order, with nothing but what the pages say.

The receiver is the code of the page as it is pasted, on another port. It breaks, and is mended.
"""

import re
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.running import running
from tests.browser.stage import CHROMIUM
from tests.browser.test_walk import accessibility_faults
from tests.server import free_port
from tests.signals.webhooks.runner.stage import ALLOWED, until

pytestmark = [
    pytest.mark.processes,
    pytest.mark.once,
    pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed"),
]

DELIVERED = re.compile(r"^evt_(\d+)_[0-9a-f]{8} signal\.filled ", re.MULTILINE)


@pytest.fixture(scope="module")
def trader(browser):
    """Each test adds a webhook of its own."""
    with running(browser, DELIVERY_ALLOW=ALLOWED["DELIVERY_ALLOW"]) as trader:
        yield trader


@contextmanager
def receiving(code: Path, log: Path, port: int):
    """Runs the pasted code until the block ends."""
    with open(log, "ab") as file, subprocess.Popen([sys.executable, code], stdout=file) as process:
        try:
            until(lambda: listens(port))
            yield
        finally:
            process.kill()


def listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def fill(service, times):
    """Fills the desk so often, and returns the positions of the fills."""
    secret = service.bot["secret"]
    pushed = [service.push(service.tradingview(), secret=secret).json() for _ in range(times)]
    return [answer["signal"]["position"] for answer in pushed]


def test_what_a_broken_endpoint_missed_arrives_in_order_when_it_is_mended(trader, tmp_path):
    page, port = trader.page, free_port()
    log, code = tmp_path / "log", tmp_path / "receiver.py"
    trader.follow("Webhooks", "navigation")
    trader.follow("Add a webhook")
    page.get_by_label("URL").fill(f"http://127.0.0.1:{port}/from/the/service")
    page.get_by_label("Fills").check()
    trader.press("Add webhook")
    sample = page.locator("pre[data-language=python]").text_content()
    code.write_text(sample.replace("8081", str(port)))
    trader.follow("I have stored it")
    expect(page.get_by_role("heading", level=1)).to_have_text(f"127.0.0.1:{port}")

    def heard():
        return [int(position) for position in DELIVERED.findall(log.read_text())]

    with receiving(code, log, port):
        trader.press("Send test")
        trader.until_it_says("active")
        sent = fill(trader.service, 2)
        until(lambda: heard() == sent)
    missed = fill(trader.service, 3)
    trader.until_it_says("failing")
    assert "The host refused the connection." in trader.says()
    assert "events wait" in trader.says()
    assert "Once the endpoint is mended, send a test: then we try at once" in trader.says()
    trader.follow("Skip the next event…")
    assert "This skips 1 event (Fills)." in trader.says()
    trader.press("Skip")
    assert "1 event was skipped." in trader.says()
    assert "failing" in trader.says()
    with receiving(code, log, port):
        trader.press("Send test")
        until(lambda: heard() == sent + missed[1:])
    trader.until_it_says("0 events")
    trader.until_it_says("active")


def test_the_open_page_of_a_webhook_shows_tests_and_deliveries(trader, tmp_path):
    page, port = trader.page, free_port()
    log, code = tmp_path / "log", tmp_path / "receiver.py"
    page.goto("/webhooks/new")
    page.get_by_label("URL").fill(f"http://127.0.0.1:{port}/live")
    page.get_by_label("Fills").check()
    trader.press("Add webhook")
    sample = page.locator("pre[data-language=python]").text_content()
    code.write_text(sample.replace("8081", str(port)))
    trader.follow("I have stored it")
    state, attempts = page.locator(".headline > .state"), page.locator(".attempts > li")
    expect(attempts.first).to_contain_text("no answer")
    with receiving(code, log, port):
        trader.press("Send test")
        page.evaluate("window.unchanged = true")
        expect(state).to_have_text("active")
        expect(attempts.first).to_contain_text("Test")
        expect(attempts.first).not_to_contain_text("no answer")  # saved after the state
        fills = attempts.filter(has_text="Filled")  # another test may come: a retry of the first
        fill(trader.service, 1)
        expect(fills).to_have_count(1)
        expect(attempts.first).to_contain_text("Filled")
        attempts.first.get_by_text("What was sent").click()
        sent = page.locator("pre[data-copy]:visible").filter(has_text="signal.filled")
        expect(sent).to_be_visible()
        body = sent.text_content()
        fill(trader.service, 1)
        expect(fills).to_have_count(2)
        assert sent.text_content() == body
        expect(page.get_by_role("button", name="Copy the body of")).to_have_count(1)
    fill(trader.service, 1)
    expect(state).to_have_text("failing")
    expect(attempts.first).to_contain_text("The host refused the connection.")
    assert page.evaluate("window.unchanged")
    assert accessibility_faults(page) == []
