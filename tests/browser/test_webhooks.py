"""The open page of a trader's webhook, whose receiver is the code of the page as it is pasted."""

import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.pages import USER, signed_in
from tests.browser.stage import Stage
from tests.browser.test_walk import accessibility_faults
from tests.conformance.client import Service
from tests.server import ADDRESS, delivering, free_port, serving
from tests.signals.webhooks.runner.stage import until

pytestmark = [pytest.mark.processes, pytest.mark.once]


@pytest.fixture
def stage(browser, tmp_path):
    """A service of its own, which may send to this machine, and its runner."""
    with (
        serving(DELIVERY_ALLOW=f"{ADDRESS}/32", WEB_CONCURRENCY="1") as server,
        delivering(server),
        Service(server.base_url, server.seed) as service,
    ):
        yield Stage(server, service, browser, tmp_path)


@contextmanager
def receiving(code: Path, port: int):
    """Runs the pasted code until the block ends."""
    with subprocess.Popen([sys.executable, code], stdout=subprocess.DEVNULL) as process:
        try:
            until(lambda: listens(port))
            yield
        finally:
            process.kill()


def listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex((ADDRESS, port)) == 0


def fill(service):
    assert service.push(service.tradingview(), secret=service.bot["secret"]).status_code == 200


def press(page, name):
    with page.expect_navigation():
        page.get_by_role("button", name=name, exact=True).click()


def test_the_open_page_of_a_webhook_shows_tests_and_deliveries(stage, new_page, tmp_path):
    with signed_in(stage, USER) as owner:
        page = new_page(owner)
    port, code = free_port(), tmp_path / "receiver.py"
    page.goto("/webhooks/new")
    page.get_by_label("URL").fill(f"http://{ADDRESS}:{port}/live")
    page.get_by_label("Fills").check()
    press(page, "Add webhook")
    sample = page.locator("pre[data-language=python]").text_content()
    code.write_text(sample.replace("8081", str(port)))
    page.get_by_role("link", name="I have stored it").click()
    state, attempts = page.locator(".headline > .state"), page.locator(".attempts > li")
    expect(attempts.first).to_contain_text("no answer")
    with receiving(code, port):
        press(page, "Send test")
        page.evaluate("window.unchanged = true")
        expect(state).to_have_text("active")
        expect(attempts.first).to_contain_text("Test")
        expect(attempts.first).not_to_contain_text("no answer")  # saved after the state
        fills = attempts.filter(has_text="Filled")  # another test may come: a retry of the first
        fill(stage.service)
        expect(fills).to_have_count(1)
        expect(attempts.first).to_contain_text("Filled")
        attempts.first.get_by_text("What was sent").click()
        sent = page.locator("pre[data-copy]:visible").filter(has_text="signal.filled")
        expect(sent).to_be_visible()
        body = sent.text_content()
        fill(stage.service)
        expect(fills).to_have_count(2)
        assert sent.text_content() == body
        expect(page.get_by_role("button", name="Copy the body of")).to_have_count(1)
    fill(stage.service)
    expect(state).to_have_text("failing")
    expect(attempts.first).to_contain_text("The host refused the connection.")
    assert page.evaluate("window.unchanged")
    assert accessibility_faults(page) == []
