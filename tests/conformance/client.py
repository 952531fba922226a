"""A client of the service, written from the contract alone: its calls of the API."""

import hashlib
import hmac
import http.client
import json
import secrets
import ssl
import time
from collections.abc import Iterator
from typing import Any, Self
from urllib.parse import urlsplit

import httpx2

from tests.conformance.document import Comparison
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
SUBSCRIPTIONS = "/api/v1/subscriptions"

JSON = "application/json"
PROBLEM = "application/problem+json"
SOMEBODY = "usr_" + "0" * 22  # no desk has this id
NO_BOT = "bot_" + "0" * 22
NO_SIGNAL = "sig_" + "0" * 22
OF_ANOTHER_LOG = "ZXZlbnRzOjAwMDAwMDAwLjE"  # a cursor that the service made on another database

TIMEOUT = 90  # seconds for one response: a reader of the feed waits up to 25

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


def code(answer: httpx2.Response) -> str:
    """The code of a problem, or ``ok`` for a successful response."""
    return "ok" if answer.is_success else str(answer.json()["code"])


def faults(answer: httpx2.Response) -> set[str]:
    """The invalid fields that a problem names."""
    return {error["field"] for error in answer.json()["errors"]}


def became(answer: httpx2.Response) -> tuple[str, int, int]:
    """What became of an accepted signal: outcome, matched, filled."""
    said = answer.json()
    assert answer.status_code == 200, said
    return said["outcome"], said["matched"], said["filled"]


def without_id(answer: httpx2.Response) -> tuple[int, Body]:
    """The status and body of a response without the request id."""
    return answer.status_code, {k: v for k, v in answer.json().items() if k != "requestId"}


def assert_refused(answer: httpx2.Response, status: int, expected: str) -> Body:
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
        presented = answer.request.headers.get("Authorization", "").lower()
        sent = expected == "token_invalid" and presented.startswith("bearer")
        error = ', error="invalid_token"' if sent else ""
        assert answer.headers["WWW-Authenticate"] == f'Bearer realm="signals"{error}'
    elif expected == "scope_missing":
        challenge = 'Bearer realm="signals", error="insufficient_scope", scope="'
        assert answer.headers["WWW-Authenticate"].startswith(challenge)
    else:
        assert "WWW-Authenticate" not in answer.headers
    return body


class Connected:
    """A client whose connection closes when the block ends."""

    http: httpx2.Client

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
        self.comparison = Comparison(self._read_document)
        self.http = self.client()

    def client(self) -> httpx2.Client:
        """A new HTTP client without cookies. It ignores the environment's proxy settings."""
        return httpx2.Client(
            base_url=self.base_url,
            verify=self.trusted,
            timeout=TIMEOUT,
            trust_env=False,
            event_hooks={
                "request": self.witness.hooks["request"],
                "response": [*self.witness.hooks["response"], self.comparison.on_response],
            },
        )

    def _read_document(self) -> Body:
        url = f"{self.base_url}/api/schema"
        with httpx2.Client(verify=self.trusted, timeout=TIMEOUT, trust_env=False) as client:
            found: Body = client.get(url).json()
        return found

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
    ) -> httpx2.Response:
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
    ) -> httpx2.Response:
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

    def push(self, body: Body | bytes, token: str | None = None, **more: Any) -> httpx2.Response:
        return self.send("POST", HOOK, body, token, **more)

    def check(self, body: Body | bytes, token: str | None = None, **more: Any) -> httpx2.Response:
        return self.send("POST", CHECK, body, token, **more)

    def deploy(
        self, user_id: str, body: Body | bytes, token: str | None = None, **more: Any
    ) -> httpx2.Response:
        return self.send("POST", deploy_path(user_id), body, token or self.platform, **more)

    def connection(self) -> http.client.HTTPConnection:
        """A connection for requests that no client would send."""
        parts = urlsplit(self.base_url)
        assert parts.hostname
        if parts.scheme == "http":
            return http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
        return http.client.HTTPSConnection(
            parts.hostname, parts.port, timeout=60, context=self.trusted
        )

    def send_headers(
        self, method: str, path: str, length: int, headers: Body | None = None
    ) -> httpx2.Response:
        """Declares a body of ``length`` bytes, sends none of it, and reads the response.

        A client that sends a refused body may get a reset instead of the response (section 5).
        """
        connection = self.connection()
        try:
            sent = {"Content-Type": JSON, "Content-Length": str(length), **(headers or {})}
            connection.request(method, path, headers=sent)
            read = connection.getresponse()
            answer = httpx2.Response(
                read.status,
                headers=read.getheaders(),
                content=read.read(),
                request=httpx2.Request(method, self.base_url + path),
            )
            self.comparison.on_response(answer)
            return answer
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
