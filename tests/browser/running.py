"""A service with a runner beside it, and the page of the seeded user in a real browser."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page

from tests.conformance.client import Service
from tests.server import Server, serving
from tests.signals.webhooks.runner.stage import RunnerProcess, until


@dataclass
class Running:
    """The service, its runner, the page of its user, and the folder of the mails."""

    server: Server
    service: Service
    runner: RunnerProcess
    page: Page
    mails: Path

    def restart_runner(self) -> None:
        self.runner.stop()
        self.runner = _runner(self.server)

    def press(self, name: str) -> None:
        """Presses the button of a form, and waits for the page that answers.

        A page that is left cannot be reloaded meanwhile: the browser refuses that, now and then.
        """
        with self.page.expect_navigation():
            self.page.get_by_role("button", name=name, exact=True).click()

    def follow(self, name: str, inside: str = "main") -> None:
        """Clicks a link of this part of the page."""
        self.page.get_by_role(inside, exact=True).get_by_role("link", name=name).first.click()  # type: ignore[arg-type]

    def says(self) -> str:
        """The text of the page's main part."""
        return self.page.get_by_role("main").inner_text()

    def until_it_says(self, text: str) -> None:
        """Reloads the page until it says this."""

        def found() -> bool:
            self.page.reload()
            return text in self.says()

        until(found)


@contextmanager
def running(browser: Browser, **settings: Any) -> Iterator[Running]:
    """Runs all of it until the block ends. The runner ends before the database does."""
    with tempfile.TemporaryDirectory() as folder:
        own: dict[str, Any] = {"EMAIL_URL": f"filemail:///{folder}", "WEB_CONCURRENCY": "1"}
        with (
            serving(**own, **settings) as server,
            Service(server.base_url, server.seed) as service,
        ):
            context = browser.new_context(base_url=service.base_url)
            context.set_default_timeout(60_000)  # as long as a slow machine needs
            page = context.new_page()
            _sign_in(page, service.seed["user"])
            found = Running(server, service, _runner(server), page, Path(folder))
            try:
                yield found
            finally:
                found.runner.kill()
                context.close()
                print(found.runner.log.read_text())  # shown if the test fails
            assert "Traceback" not in found.runner.log.read_text()


def _runner(server: Server) -> RunnerProcess:
    return RunnerProcess(server.log.with_name("runner"), **server.environment)


def _sign_in(page: Page, user: dict[str, Any]) -> None:
    page.goto("/")
    page.get_by_role("main").get_by_role("link", name="Sign in").first.click()
    page.get_by_label("Email").fill(user["email"])
    page.get_by_label("Password", exact=True).fill(user["password"])
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.wait_for_url("**/desk")
