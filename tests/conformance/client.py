"""Clients of the service, written from the contract alone: API calls, a browser and its bots."""

import hashlib
import hmac
import http.client
import json
import re
import secrets
import ssl
import struct
import time
from base64 import b32decode
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self
from urllib.parse import urlsplit

import httpx

from tests.conformance.witness import Witness

CATALOG = "/api/v1"
ME = "/api/v1/me"
DESKS = "/api/v1/desks"
EVENTS = "/api/v1/events"
TOKENS = "/api/v1/tokens"
HOOK = "/api/hooks/signal"
CHECK = "/api/hooks/check"
SIGNALS = "/api/v1/signals"
BOTS = "/api/v1/bots"
SIGN_IN = "/accounts/login/"

JSON = "application/json"
PROBLEM = "application/problem+json"
SOMEBODY = "usr_" + "0" * 22  # no desk has this id
NO_BOT = "bot_" + "0" * 22
NO_SIGNAL = "sig_" + "0" * 22

TIMEOUT = 40  # seconds for one response: a reader of the feed waits up to 25
CSRF_FIELD = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')
SHOWN = re.compile(r"<pre[^>]* data-copy>(svc_[^<]+)</pre>")
TOTP_STEP = 30  # seconds

Body = dict[str, Any]


def nonce(prefix: str = "n-") -> str:
    return prefix + secrets.token_hex(12)


def deploy_path(user_id: str) -> str:
    return f"{DESKS}/{user_id}/signal"


def written(body: Body | bytes) -> bytes:
    """The body as bytes: a dictionary is encoded as JSON."""
    return body if isinstance(body, bytes) else json.dumps(body).encode()


def signature(secret: str, moment: int | str, body: bytes) -> str:
    """One signature for ``X-SVC-Signature`` (section 3)."""
    message = f"{moment}.".encode() + body
    return "v1=" + hmac.new(secret.encode(), message, hashlib.sha256).hexdigest()


def signed(*keys: str, body: bytes, at: int | None = None) -> dict[str, str]:
    """The two headers that sign the body with each secret, now or at the Unix time ``at``."""
    moment = int(time.time()) if at is None else at
    return {
        "X-SVC-Timestamp": str(moment),
        "X-SVC-Signature": ",".join(signature(key, moment, body) for key in keys),
    }


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def code(answer: httpx.Response) -> str:
    """The code of a problem, or ``ok`` for a successful response."""
    return "ok" if answer.is_success else str(answer.json()["code"])


def faults(answer: httpx.Response) -> set[str]:
    """The invalid fields that a problem names."""
    return {error["field"] for error in answer.json()["errors"]}


def without_id(answer: httpx.Response) -> tuple[int, Body]:
    """The status and body of a response without the request id."""
    return answer.status_code, {k: v for k, v in answer.json().items() if k != "requestId"}


def assert_refused(answer: httpx.Response, status: int, expected: str) -> Body:
    """Checks that the response is a complete problem with this code, and returns its body."""
    assert (answer.status_code, answer.headers["Content-Type"]) == (status, PROBLEM), answer.text
    body: Body = answer.json()
    assert body["code"] == expected, body
    assert body["status"] == status
    assert body["type"].endswith(f"/problems/{expected}")
    assert body["title"]
    assert body["detail"]
    assert body["requestId"] == answer.headers["X-Request-Id"]
    assert answer.headers["Cache-Control"] == "no-store"
    if status == 401:
        assert answer.headers["WWW-Authenticate"] == "Bearer"
    return body


class Connected:
    """A client whose connection closes when the block ends."""

    http: httpx.Client

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()


class Service(Connected):
    """The service under test, and the output of its ``seed``."""

    def __init__(self, base_url: str, seed: Body) -> None:
        self.base_url = base_url.rstrip("/")
        self.seed = seed
        self.witness = Witness(seed["admin"]["password"], seed["user"]["password"])
        self.trusted = (
            ssl.create_default_context()
        )  # the system's certificates, or those of SSL_CERT_FILE
        self.http = self.client()

    def client(self) -> httpx.Client:
        """A new HTTP client without cookies. It ignores the environment's proxy settings."""
        return httpx.Client(
            base_url=self.base_url,
            verify=self.trusted,
            timeout=TIMEOUT,
            trust_env=False,
            event_hooks=self.witness.hooks,
        )

    # --- Credentials and ids ---------------------------------------------------------------------

    @property
    def platform(self) -> str:
        return str(self.seed["platformToken"])

    @property
    def reader(self) -> str:
        return str(self.seed["readToken"])

    @property
    def floor(self) -> str:
        return str(self.seed["floorSecret"])

    @property
    def nox(self) -> str:
        """The secret that signs source nox: the Floor secret if there is no Nox secret."""
        return str(self.seed.get("noxSecret") or self.floor)

    @property
    def elected(self) -> Body:
        """The published card's pair and direction."""
        return {name: self.seed["card"][name] for name in ("pair", "direction")}

    @property
    def desk(self) -> str:
        """The id of a ready desk that no test changes."""
        return str(self.seed["desks"][1]["userId"])

    @property
    def desk_token(self) -> str:
        return str(self.seed["desks"][1]["deskToken"])

    @property
    def other_desk(self) -> str:
        return str(self.seed["desks"][2]["userId"])

    @property
    def other_desk_token(self) -> str:
        return str(self.seed["desks"][2]["deskToken"])

    @property
    def own_desk(self) -> str:
        """The id of the seeded user's desk, which owns the seeded automation."""
        return str(self.seed["desks"][0]["userId"])

    @property
    def bot(self) -> Body:
        return dict(self.seed["automation"])

    # --- Requests ----------------------------------------------------------------------------

    def get(
        self, path: str, token: str | None = None, headers: Body | None = None, **query: Any
    ) -> httpx.Response:
        presented = {**(bearer(token) if token else {}), **(headers or {})}
        return self.http.get(path, headers=presented, params=query or None)

    def send(
        self,
        method: str,
        path: str,
        body: Body | bytes = b"",
        token: str | None = None,
        *,
        secret: str | None = None,
        headers: Body | None = None,
    ) -> httpx.Response:
        """Sends a body. ``token`` adds a Bearer token and ``secret`` signs the body."""
        raw = written(body)
        presented = {
            "Content-Type": JSON,
            **(bearer(token) if token else {}),
            **(signed(secret, body=raw) if secret else {}),
            **(headers or {}),
        }
        presented = {name: value for name, value in presented.items() if value is not None}
        return self.http.request(method, path, content=raw, headers=presented)

    def push(self, body: Body | bytes, token: str | None = None, **more: Any) -> httpx.Response:
        return self.send("POST", HOOK, body, token, **more)

    def check(self, body: Body | bytes, token: str | None = None, **more: Any) -> httpx.Response:
        return self.send("POST", CHECK, body, token, **more)

    def deploy(
        self, user_id: str, body: Body | bytes, token: str | None = None, **more: Any
    ) -> httpx.Response:
        return self.send("POST", deploy_path(user_id), body, token or self.platform, **more)

    def send_headers(
        self, method: str, path: str, length: int, headers: Body | None = None
    ) -> httpx.Response:
        """Declares a body of ``length`` bytes, sends none of it, and reads the response.

        A client that sends a refused body may get a reset instead of the response (section 5).
        """
        parts = urlsplit(self.base_url)
        assert parts.hostname
        connection = (
            http.client.HTTPSConnection(
                parts.hostname, parts.port, timeout=10, context=self.trusted
            )
            if parts.scheme == "https"
            else http.client.HTTPConnection(parts.hostname, parts.port, timeout=10)
        )
        try:
            sent = {"Content-Type": JSON, "Content-Length": str(length), **(headers or {})}
            connection.request(method, path, headers=sent)
            answer = connection.getresponse()
            return httpx.Response(answer.status, headers=answer.getheaders(), content=answer.read())
        finally:
            connection.close()

    # --- Bodies of the four shapes, which are accepted ------------------------------------

    def tradingview(self, **changes: Any) -> Body:
        own = {name: self.bot[name] for name in ("botId", "pair", "direction")}
        return {**own, "nonce": nonce(), "elected": True, "source": "tradingview", **changes}

    def one_desk(self, **changes: Any) -> Body:
        body = {**self.elected, "nonce": nonce(), "elected": True, "source": "floor"}
        return {**body, "mode": "paper", **changes}

    def to_desk(self, **changes: Any) -> Body:
        return {"userId": self.desk, **self.one_desk(), **changes}

    def fanout(self, **changes: Any) -> Body:
        body = {"fanout": True, **self.elected, "nonce": nonce(), "elected": True}
        return {**body, "source": "floor", **changes}

    def of_nox(self, **changes: Any) -> Body:
        return {
            "fanout": True,
            "action_id": nonce("act_"),
            "trace_id": nonce("trc_"),
            **self.elected,
            "elected": True,
            "source": "nox",
            "mode": "paper",
            "size_quote": None,
            "rationale": "The trend holds.",
            "decision_ref": None,
            **changes,
        }

    # --- Reading -----------------------------------------------------------------------------

    def desks(self, **query: Any) -> list[Body]:
        """All desks of a list, from all pages."""
        return list(self._pages(DESKS, "desks", self.platform, query))

    def events(self, token: str | None = None, **query: Any) -> list[Body]:
        """All events of a view, from all pages."""
        events: list[Body] = []
        while True:
            page = self.get(EVENTS, token or self.platform, **query).json()
            events += page["events"]
            query["after"] = page["next"]
            if not page["more"]:
                return events

    def tail(self) -> str:
        """The cursor behind the newest event."""
        return str(self.get(EVENTS, self.platform, order="desc", limit=1).json()["next"])

    def _pages(self, path: str, name: str, token: str, query: Body) -> Iterator[Body]:
        while True:
            page = self.get(path, token, **query).json()
            yield from page[name]
            if page["next"] is None:
                return
            query = {**query, "after": page["next"]}


class Browser(Connected):
    """A browser: cookies, forms with their CSRF field, and API calls with the session."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.http = service.client()

    def sign_in(self, who: Body) -> None:
        """Signs in with address and password, and with the second factor if there is one."""
        answer = self.post(SIGN_IN, {"login": who["email"], "password": who["password"]})
        while who.get("totpSecret") and "2fa" in answer.headers.get("Location", ""):
            form = {"code": totp(who["totpSecret"])}
            if self.post(answer.headers["Location"], form).status_code == 302:
                break
            time.sleep(1)  # a code is accepted once: wait for the next one
        assert self.http.get(TOKENS).status_code == 200

    def get(self, path: str) -> httpx.Response:
        return self.http.get(path)

    def post(self, path: str, form: Body, *, seen_at: str | None = None) -> httpx.Response:
        """Sends a page's form, with the CSRF field of the page or of the page ``seen_at``."""
        field = CSRF_FIELD.search(self.http.get(seen_at or path).text)
        assert field, f"{seen_at or path} shows no form"
        form = {**form, "csrfmiddlewaretoken": field.group(1)}
        return self.http.post(path, data=form, headers={"Referer": self.service.base_url + path})

    def api(
        self, method: str, path: str, body: Body | bytes | None = None, **headers: str
    ) -> httpx.Response:
        """An API call with the session, and the csrf cookie as ``X-CSRFToken``."""
        sent = {"X-CSRFToken": self.csrf, "Referer": self.service.base_url + path, **headers}
        content = b"" if body is None else written(body)
        if body is not None:
            sent = {"Content-Type": JSON, **sent}
        return self.http.request(method, path, content=content, headers=sent)

    @property
    def csrf(self) -> str:
        names = [name for name in self.http.cookies if name.endswith("csrf")]
        return str(self.http.cookies[names[0]])

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
