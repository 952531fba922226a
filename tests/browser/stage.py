"""A running service with sample data, and a real browser."""

import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Browser, BrowserContext, sync_playwright

from tests.conformance import browser as visitors
from tests.conformance.client import Service
from tests.server import METRICS_TOKEN, Server, manage, serving

# The same browser without windows of its own takes a third of the processor's time.
CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
PHONE, TABLET, DESKTOP = 360, 768, 1440
COLOURS = ("light", "dark")
BOTH = pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without scripts"])
LINK = re.compile(r"https?://[^/\s]+(/accounts/\S+)")

# Prints the id of one row of each model in the control area, and of a deactivated user.
ROWS = """
import json
from django.contrib import admin
from django.contrib.admin.utils import quote
from desks.models import Automation, User
from events.actors import SYSTEM
from tests.signals.notices.chats.stage import a_chat
from tests.signals.webhooks.stage import webhooks_to_look_at
from tokens.account_closing import deactivate
from tokens.models import SigningSecret
rows = {}
for model in admin.site._registry:
    row = model._default_manager.order_by("pk").first()
    rows[model._meta.model_name] = str(quote(row.pk)) if row else None
idle = User.objects.filter(is_staff=False).order_by("pk").last()
deactivate(user=idle, actor=SYSTEM)
secret = SigningSecret.objects.get(automation=BOT, ends_at=None).public_id
own, platforms, paused = webhooks_to_look_at(Automation.objects.get(pk=BOT).desk)
rows["chat"] = a_chat(own.desk.user).public_id
rows |= {"webhook": own.public_id, "subscription": str(platforms.pk), "paused": str(paused.pk)}
print(json.dumps({**rows, "deactivated": str(idle.pk), "secret": secret}))
"""


@dataclass
class Stage:
    """The server and its service, the browser, and the folder of sent emails.

    ``staff`` are the cookies of the seeded staff user, once somebody has signed in as that user.
    """

    server: Server
    service: Service
    browser: Browser
    mails: Path
    staff: httpx2.Cookies = field(default_factory=httpx2.Cookies)

    @cached_property
    def ids(self) -> dict[str, str]:
        """Ids by model name, of rows that are made when first asked for."""
        bot = self.service.bot["botId"]
        script = f"BOT = {bot!r}\n{ROWS}"
        printed = manage(self.server, "shell", "--no-imports", "-c", script)
        refusals = self.service.events(userId=self.service.own_desk, kind="signal.refused")
        return {**json.loads(printed), "bot": bot, "refusal": refusals[0]["id"]}

    def last_link(self) -> str:
        """Returns the path of the link in the newest email."""
        newest = max(self.mails.iterdir(), key=lambda file: file.stat().st_mtime_ns)
        return LINK.findall(newest.read_text())[-1]

    def context(self, visitor: visitors.Browser | None, **options: Any) -> BrowserContext:
        """Opens a browser context with the cookies of a signed-in visitor."""
        context = self.browser.new_context(base_url=self.service.base_url, **options)
        context.set_default_timeout(60_000)
        for cookie in visitor.http.cookies.jar if visitor else ():
            address = self.service.base_url
            context.add_cookies([{"name": cookie.name, "value": cookie.value, "url": address}])
        return context


@contextmanager
def chromium() -> Iterator[Browser]:
    """Starts the browser. Stops it when the block ends: until then Django refuses queries."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"], timeout=180_000
        )
        yield browser
        browser.close()


@contextmanager
def set_up(browser: Browser) -> Iterator[Stage]:
    """Starts the service. Stops it when the block ends."""
    with tempfile.TemporaryDirectory() as folder:
        settings: dict[str, Any] = {
            "WEB_CONCURRENCY": "1",
            "REQUIRE_STAFF_MFA": "on",
            "METRICS_TOKEN": METRICS_TOKEN,
            "EMAIL_URL": f"filemail:///{folder}",
        }
        with serving(**settings) as server, Service(server.base_url, server.seed) as service:
            add_sample_data(service)
            yield Stage(server, service, browser, Path(folder))


def add_sample_data(service: Service) -> None:
    """Creates fills, refusals of several kinds, and a bot without requests."""
    service.push(service.fanout(), service.platform)
    service.deploy(service.own_desk, service.one_desk())
    secret, body = service.bot["secret"], service.tradingview
    for _ in range(3):
        service.push(body(), secret=secret)
    for mismatch in (
        body(direction="short"),
        body(pair="ETHUSDT"),
        body(pair="SOL/USDT"),
        body(elected="true"),
    ):
        service.push(mismatch, secret=secret)
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
