"""Somebody at the pages: what they click and type, and how many clicks that takes."""

import re

from playwright.sync_api import Locator, Page, expect

from tests.browser.stage import Stage
from tests.factories import PASSWORD


class Visitor:
    """Counts every press of the pointer, the one into a field that has no focus yet included."""

    def __init__(self, stage: Stage, page: Page) -> None:
        self.stage, self.page, self.clicks = stage, page, 0

    def press(self, target: Locator) -> None:
        self.clicks += 1
        target.click()

    def click(self, role: str, name: str, inside: Locator | None = None) -> None:
        self.press((inside or self.page).get_by_role(role, name=name, exact=True).first)  # type: ignore[arg-type]

    def type(self, label: str, text: str) -> None:
        """Types into a field, and clicks it first if it has no focus."""
        field = self.page.get_by_label(label, exact=True)
        field.wait_for()
        if not field.evaluate("field => field === document.activeElement"):
            self.press(field)
        self.page.keyboard.type(text)
        expect(field).to_have_value(text)

    def choose(self, label: str, choice: str) -> None:
        """Chooses from a list: one click opens it, one chooses."""
        self.clicks += 2
        self.page.get_by_label(label, exact=True).select_option(choice)

    def text(self, name: str) -> str | None:
        """A text that the page offers to copy."""
        return self.page.locator(f"pre#{name}").text_content()

    def sign_up(self, address: str) -> None:
        """From the home page to the page that connects the desk. The mail's link is a click."""
        self.page.goto("/")
        self.click("link", "Sign up", self.page.get_by_role("main"))
        self.type("Email", address)
        self.click("button", "Send link")
        expect(self.page.get_by_role("heading", level=1)).to_have_text("Check your email")
        self.clicks += 1
        self.page.goto(self.stage.last_link())
        self.type("Password", PASSWORD)
        self.click("button", "Create account")

    def connect(self) -> None:
        self.choose("Venue", "Kraken")
        self.press(self.page.get_by_role("checkbox"))
        self.click("button", "Connect")

    def set_up_bot(self) -> str:
        """A bot with an election and a secret, from the list of bots. Returns the secret."""
        self.type("Name", "Breakout")
        self.click("button", "Create bot")
        self.type("Pair", "ETH/USDT")
        self.press(self.page.get_by_label("Short", exact=True))
        self.click("button", "Elect")
        self.click("button", "Generate secret")
        secret = self.page.locator("pre.value").text_content() or ""
        assert re.fullmatch(r"svc_sign_\w+", secret)
        return secret
