"""A browser of a customer or of staff, and the bots that it makes: what needs a session."""

import hashlib
import hmac
import re
import struct
import time
from base64 import b32decode
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2

from tests.conformance.client import JSON, TOKENS, Body, Connected, Service, written

SIGN_IN = "/accounts/login/"
CARD_FIELD = re.compile(r'name="card" value="([^"]+)"')
CSRF_FIELD = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')
SHOWN = re.compile(r'<pre[^>]* data-copy="[^"]*">(svc_[^<]+)</pre>')
TOTP_STEP = 30  # seconds
USED: dict[str, str] = {}  # the last code that was sent, of each second factor


class Browser(Connected):
    """A browser: cookies, forms with their CSRF field, and API calls with the session."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.http = service.client()

    def sign_in(self, who: Body) -> None:
        """Signs in with address and password, and with the second factor if there is one."""
        answer = self.post(SIGN_IN, {"login": who["email"], "password": who["password"]})
        while who.get("totpSecret") and "2fa" in answer.headers.get("Location", ""):
            code = totp(who["totpSecret"])
            if code != USED.get(who["totpSecret"]):
                USED[who["totpSecret"]] = code
                if self.post(answer.headers["Location"], {"code": code}).status_code == 302:
                    break
            time.sleep(1)  # a code is accepted once, and wrong ones close the sign-in
        assert self.http.get(TOKENS).status_code == 200

    def get(self, path: str) -> httpx2.Response:
        return self.http.get(path)

    def post(self, path: str, form: Body, *, seen_at: str | None = None) -> httpx2.Response:
        """Sends a page's form, with the CSRF field of the page or of the page ``seen_at``."""
        field = CSRF_FIELD.search(self.http.get(seen_at or path).text)
        assert field, f"{seen_at or path} shows no form"
        form = {**form, "csrfmiddlewaretoken": field.group(1)}
        return self.http.post(path, data=form, headers={"Referer": self.service.base_url + path})

    def api(
        self, method: str, path: str, body: Body | bytes | None = None, **headers: str
    ) -> httpx2.Response:
        """An API call with the session, and the csrf cookie as ``X-CSRFToken``."""
        sent = {"X-CSRFToken": self.csrf, "Referer": self.service.base_url + path, **headers}
        content = b"" if body is None else written(body)
        if body is not None:
            sent = {"Content-Type": JSON, **sent}
        return self.http.request(method, path, content=content, headers=sent)

    @property
    def cookie(self) -> str:
        """The header with which another client has this session."""
        return "; ".join(f"{name}={value}" for name, value in self.http.cookies.items())

    @property
    def csrf(self) -> str:
        names = [name for name in self.http.cookies if name.endswith("csrf")]
        return str(self.http.cookies[names[0]])

    def enrol(self) -> httpx2.Response:
        """Elects what the published card shows, on the desk's page."""
        card = CARD_FIELD.search(self.get("/desk/enrol").text)
        assert card, "The page shows no card to elect."
        return self.post("/desk/enrol", {"card": card.group(1)})

    def mint_desk_token(self) -> str:
        return str(self.api("POST", TOKENS, {"scope": "desk"}).json()["token"])

    @contextmanager
    def platform_token(self, *scopes: str, **more: Any) -> Iterator[Body]:
        """The record and value of a new platform token. Revoked when the block ends."""
        body = {"scope": "platform", "name": "Conformance", "scopes": list(scopes), **more}
        minted = self.api("POST", TOKENS, body)
        assert minted.status_code == 201, minted.text
        try:
            yield minted.json()
        finally:
            self.api("DELETE", TOKENS, {"id": minted.json()["id"]})


class Bot:
    """An automation that a test makes on the pages."""

    def __init__(self, owner: Browser, name: str = "Conformance") -> None:
        self.owner = owner
        made = owner.post("/bots", {"name": name})
        assert made.status_code == 302, made.text
        self.page = made.headers["Location"]
        self.id = self.page.rpartition("/")[2]

    def elect(self, pair: str, direction: str) -> None:
        answer = self.owner.post(f"{self.page}/elect", {"pair": pair, "direction": direction})
        assert answer.status_code == 302, answer.text

    def withdraw(self) -> None:
        self.owner.post(f"{self.page}/withdraw", {}, seen_at=self.page)

    def generate(self, overlap: int | None = None) -> str:
        """Generates a secret. The current secret keeps verifying for ``overlap`` seconds."""
        form = {} if overlap is None else {"overlap": str(overlap)}
        shown = SHOWN.search(self.owner.post(f"{self.page}/secret", form).text)
        assert shown
        return shown.group(1)

    def expect(self, rhythm: str = "not", max_age: int | None = None, **more: str) -> None:
        """Says how often the bot is expected to send, and how old its signals may be."""
        age = "" if max_age is None else str(max_age)
        form = {"expected": rhythm, "unit": "hours", "grace": "5", "maxAge": age, **more}
        answer = self.owner.post(f"{self.page}/alarm", form)
        assert answer.status_code == 302, answer.text

    def end_secrets(self) -> None:
        """Ends every live secret."""
        page = self.owner.get(f"{self.page}/secret").text
        for path in re.findall(r'href="([^"]*/secrets/[^"]*/end)"', page):
            self.owner.post(path, {})

    def body(self, **changes: Any) -> Body:
        return self.owner.service.tradingview(botId=self.id, **changes)

    def remove(self) -> None:
        self.owner.post(f"{self.page}/remove", {})


def totp(secret: str) -> str:
    """The current TOTP code (RFC 6238)."""
    key = b32decode(secret + "=" * (-len(secret) % 8))
    digest = hmac.new(key, struct.pack(">Q", int(time.time()) // TOTP_STEP), hashlib.sha1).digest()
    start = digest[-1] & 15
    number = struct.unpack(">I", digest[start : start + 4])[0] & 0x7FFFFFFF
    return f"{number % 1_000_000:06d}"
