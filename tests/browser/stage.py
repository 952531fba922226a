"""A served service with a day's life in it, and a real browser to look at it with."""

import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, sync_playwright

from tests.conformance import client as visitors
from tests.server import Server, manage, serving

CHROMIUM = shutil.which("chromium")
PHONE, TABLET, DESKTOP = 360, 768, 1440
COLOURS = ("light", "dark")
LINK = re.compile(r"https?://[^/\s]+(/accounts/\S+)")

# One row of each model that the control area has a page for.
ROWS = """
import json
from django.contrib import admin
from django.contrib.admin.utils import quote
rows = {}
for model in admin.site._registry:
    row = model._default_manager.order_by("pk").first()
    rows[model._meta.model_name] = str(quote(row.pk)) if row else None
print(json.dumps(rows))
"""


@dataclass(frozen=True, slots=True)
class Stage:
    """The service, the browser, the mails that were sent, and ids by what they are ids of."""

    service: visitors.Service
    browser: Browser
    mails: Path
    ids: dict[str, str]

    def last_link(self) -> str:
        """The path in the newest mail."""
        newest = max(self.mails.iterdir(), key=lambda file: file.stat().st_mtime_ns)
        return LINK.findall(newest.read_text())[-1]

    def context(self, visitor: visitors.Browser | None, **options: Any) -> BrowserContext:
        """A window of the browser with the cookies of somebody who signed in."""
        context = self.browser.new_context(base_url=self.service.base_url, **options)
        for cookie in visitor.http.cookies.jar if visitor else ():
            address = self.service.base_url
            context.add_cookies([{"name": cookie.name, "value": cookie.value, "url": address}])
        return context


@contextmanager
def set_up(**settings: str) -> Iterator[Stage]:
    """The stage, until the block ends."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        mails = Path(folder) / "mails"
        mails.mkdir()
        settings = {"EMAIL_URL": f"filemail:///{mails}", **settings}
        with (
            serving(ready=12, idle=3, **settings) as server,
            visitors.Service(server.base_url, server.seed) as service,
        ):
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            yield Stage(service, browser, mails, _ids(server, service))
            browser.close()


def live(service: visitors.Service) -> None:
    """What a day brings: fills, refusals of several kinds, a bot that was never heard."""
    service.push(service.fanout(), service.platform)
    service.deploy(service.own_desk, service.one_desk())
    secret, body = service.bot["secret"], service.tradingview
    for _ in range(3):
        service.push(body(), secret=secret)
    for wrong in (
        body(direction="short"),
        body(pair="ETHUSDT"),
        body(pair="SOL/USDT"),
        body(elected="true"),
    ):
        service.push(wrong, secret=secret)
    service.push(body(), secret=service.floor)
    again = body()
    service.push(again, secret=secret)
    service.push(again, secret=secret)
    service.push(service.of_nox(mode="draft", rationale="Volume is thin."), service.platform)
    service.push(service.of_nox(), service.platform)
    with visitors.Browser(service) as owner:
        owner.sign_in(service.seed["user"])
        visitors.Bot(owner, "Breakout on the daily")
        owner.mint_desk_token()


def _ids(server: Server, service: visitors.Service) -> dict[str, str]:
    live(service)
    found: dict[str, str] = json.loads(manage(server, "shell", "--no-imports", "-c", ROWS))
    return {**found, "bot": service.bot["botId"]}
