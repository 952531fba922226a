"""Clients that put a load on the service and record every answer.

Each client repeats a request until it knows the outcome, as the README tells senders to. It repeats
sooner than ``Retry-After`` says, so that an outage is measured to a tenth of a second.
"""

import itertools
import json
import random
import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import httpx2

from tests.client import EVENTS, HOOK, JSON, TOKENS, bearer, deploy_path, signed, written
from tests.conformance.streams import MEDIA_TYPE, frames_of

TIMEOUT = 60  # seconds for one answer: longer than a stopping server takes to finish its requests
PAUSE = 0.1  # seconds before the next attempt
NOBODY = 0  # the status of a request without an answer
BUSY = HTTPStatus.TOO_MANY_REQUESTS
PASSING = (NOBODY, HTTPStatus.SERVICE_UNAVAILABLE)
LOGIN = "/accounts/login/"
signing_in = threading.Lock()  # the service admits one sign-in of an address at a time
DETAIL = re.compile(r'"detail":\s*"([^"]*)"')
CARD = re.compile(r'name="card" value="(\w+)"')


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer: when it came (monotonic clock), its duration in seconds and its status.

    The duration is without the seconds that the client asked the service to wait. ``said`` is the
    reason that a 503 names.
    """

    at: float
    took: float
    status: int
    what: str
    retry_after: bool
    said: str = ""


def reason(answer: httpx2.Response) -> str:
    """What a problem says, or where the answer is a page instead, that it is one."""
    found = DETAIL.search(answer.text)
    return found[1] if found else "a page"


@dataclass(frozen=True, slots=True)
class Accepted:
    """A signal that a client knows is accepted. ``again``: it learned so only from a retry."""

    at: float
    nonce: str
    id: str
    position: int
    again: bool


@dataclass(slots=True)
class Book:
    """The record of a drill. ``odd`` describes answers that no fault explains."""

    answers: list[Answer] = field(default_factory=list)
    accepted: list[Accepted] = field(default_factory=list)
    # For each desk: the kinds of events that its owner's changes must have caused, in order.
    changes: dict[str, list[str]] = field(default_factory=dict)
    minted: list[str] = field(default_factory=list)
    revoked: list[str] = field(default_factory=list)
    read: list[dict[str, Any]] = field(default_factory=list)
    sent: set[str] = field(default_factory=set)
    # Nonces of bodies that were cut off, which cannot have been accepted.
    cut: set[str] = field(default_factory=set)
    odd: list[str] = field(default_factory=list)


_numbers = itertools.count(1)
_tag = f"{random.getrandbits(32):08x}"


def a_nonce() -> str:
    return f"drill-{_tag}-{next(_numbers)}"


class Client(threading.Thread):
    """A client that sends one request after another until it is stopped.

    ``waits`` is how long it asks the service to wait for news, in seconds, and ``pause`` how long
    it waits itself before each request or group of them.
    """

    waits = 0

    def __init__(self, base_url: str, book: Book, pause: float = 0) -> None:
        super().__init__(daemon=True)
        self.base_url, self.book, self.pause = base_url, book, pause
        self.stopping = threading.Event()

    def run(self) -> None:
        options: dict[str, Any] = {"trust_env": False, "timeout": TIMEOUT}
        with httpx2.Client(base_url=self.base_url, **options) as self.http:
            try:
                self.enter()
                while not self.stopping.wait(self.pause):
                    self.act()
            except Exception as fault:
                self.book.odd.append(f"{type(self).__name__}: {fault!r}")
                raise

    def enter(self) -> None:
        """Runs once, before the first ``act``."""

    def act(self) -> None:
        raise NotImplementedError

    def ask(
        self, method: str, path: str, headers: Callable[[], dict[str, str]] = dict, **options: Any
    ) -> httpx2.Response:
        """Repeats a request until it has a final answer. Records each attempt."""
        while True:
            answer = self.once(method, path, headers(), **options)
            if answer is not None and answer.status_code not in PASSING:
                return answer
            time.sleep(PAUSE)

    def once(
        self, method: str, path: str, headers: dict[str, str], **options: Any
    ) -> httpx2.Response | None:
        began, answer = time.monotonic(), None
        with suppress(httpx2.TransportError):
            answer = self.http.request(method, path, headers=headers, **options)
        now = time.monotonic()
        took = max(0, now - began - self.waits)
        status = answer.status_code if answer is not None else NOBODY
        has_retry_after = answer is not None and "Retry-After" in answer.headers
        said = reason(answer) if answer is not None and status in PASSING else ""
        self.book.answers.append(
            Answer(now, took, status, type(self).__name__, has_retry_after, said)
        )
        return answer

    def expect(self, answer: httpx2.Response, *statuses: int) -> bool:
        """Whether the answer has one of these statuses. Records any other answer as odd."""
        if answer.status_code not in statuses:
            self.book.odd.append(f"{type(self).__name__}: {answer.status_code} {answer.text[:300]}")
            time.sleep(PAUSE)
        return answer.status_code in statuses


class Sender(Client):
    """A client that sends signals, each until its outcome is known."""

    def signal(self, path: str, body: dict[str, Any], *, token: str = "", secret: str = "") -> None:
        raw = written(body)
        self.book.sent.add(body["nonce"])

        def headers() -> dict[str, str]:
            presented = signed(secret, body=raw) if secret else bearer(token)
            return {**presented, "Content-Type": JSON}

        note(self.book, self.ask("POST", path, headers, content=raw), body["nonce"], self)


def note(book: Book, answer: httpx2.Response, nonce: str, client: Client) -> None:
    """Records a signal that was accepted, now or by an earlier attempt."""
    if not client.expect(answer, HTTPStatus.OK, HTTPStatus.CONFLICT):
        return
    result = answer.json()
    again = answer.status_code == HTTPStatus.CONFLICT
    if again and not result.get("identical"):
        book.odd.append(f"another signal has spent {nonce}")
        return
    signal = (result["first"] if again else result)["signal"]
    book.accepted.append(Accepted(time.monotonic(), nonce, signal["id"], signal["position"], again))


class Bot(Sender):
    """An automation that sends signed signals."""

    def __init__(self, base_url: str, book: Book, bot: dict[str, str]) -> None:
        super().__init__(base_url, book)
        self.bot = bot

    def act(self) -> None:
        self.signal(HOOK, push_of(self.bot), secret=self.bot["secret"])


def push_of(bot: dict[str, str]) -> dict[str, Any]:
    """A new signal that repeats the bot's election."""
    election = {name: bot[name] for name in ("botId", "pair", "direction")}
    return {**election, "nonce": a_nonce(), "elected": True, "source": "tradingview"}


class Engine(Sender):
    """The engine: deploys to desks that stay ready, and fans out."""

    def __init__(self, base_url: str, book: Book, seed: dict[str, Any]) -> None:
        super().__init__(base_url, book)
        self.token, self.card = seed["platformToken"], seed["card"]
        self.desks = [desk["userId"] for desk in seed["desks"]]

    def act(self) -> None:
        fields = {"nonce": a_nonce(), "elected": True, "source": "floor"}
        body = {name: self.card[name] for name in ("pair", "direction")} | fields
        if random.random() < 0.5:
            self.signal(HOOK, {**body, "fanout": True}, token=self.token)
        else:
            path = deploy_path(random.choice(self.desks))
            self.signal(path, {**body, "mode": "paper"}, token=self.token)


class Customer(Client):
    """A browser: enrols, withdraws, mints a token and revokes it with that token."""

    def __init__(self, base_url: str, book: Book, account: dict[str, Any]) -> None:
        super().__init__(base_url, book)
        self.account = account
        self.changes = book.changes.setdefault(account["userId"], [])

    def enter(self) -> None:
        """Signs in, once for all drills."""
        if "cookies" not in self.account:
            self.ask("GET", LOGIN)
            form = {name: self.account[name] for name in ("login", "password")}
            with signing_in:
                # If the store of the limits was slow, an earlier sign-in may be admitted for 30 s.
                while (answer := self.send(LOGIN, **form)).status_code == BUSY:
                    time.sleep(PAUSE)
            self.expect(answer, HTTPStatus.FOUND)
            self.account["cookies"] = self.http.cookies
        self.http.cookies = self.account["cookies"]

    def act(self) -> None:
        page = self.ask("GET", "/desk/enrol")
        if not self.expect(page, HTTPStatus.OK):
            return
        [card] = CARD.findall(page.text)
        if self.expect(self.send("/desk/enrol", card=card), HTTPStatus.FOUND):
            self.changes.append("election.made")
        if self.expect(self.send("/desk/withdraw"), HTTPStatus.FOUND):
            self.changes.append("election.withdrawn")
        self.mint_and_revoke()

    def send(self, path: str, **fields: str) -> httpx2.Response:
        return self.ask("POST", path, data={**fields, "csrfmiddlewaretoken": self.csrf()})

    def mint_and_revoke(self) -> None:
        answer = self.ask(
            "POST", TOKENS, lambda: {"X-CSRFToken": self.csrf()}, json={"scope": "desk"}
        )
        if not self.expect(answer, HTTPStatus.CREATED):
            return
        minted = answer.json()
        self.book.minted.append(minted["id"])
        # A Bearer hides the session. A repeated request gets 401: the token is revoked.
        gone = self.ask("DELETE", TOKENS, lambda: bearer(minted["token"]))
        if self.expect(gone, HTTPStatus.OK, HTTPStatus.UNAUTHORIZED):
            self.book.revoked.append(minted["id"])

    def csrf(self) -> str:
        return str(self.http.cookies["csrf"])


class Reader(Client):
    """A reader that follows the feed from a cursor and records every event."""

    waits = 1

    def __init__(self, base_url: str, book: Book, token: str, cursor: str) -> None:
        super().__init__(base_url, book)
        self.token, self.cursor = token, cursor

    def act(self) -> None:
        query = f"{EVENTS}?after={self.cursor}&limit=1000&wait={self.waits}"
        answer = self.ask("GET", query, lambda: bearer(self.token))
        if self.expect(answer, HTTPStatus.OK):
            page = answer.json()
            self.book.read += page["events"]
            self.cursor = page["next"]


class Listener(threading.Thread):
    """Follows the feed by streams, and comes back by its cursor, until ``stop``.

    ``positions`` are those of its events. ``odd`` are ends, and answers that no fault explains.
    """

    def __init__(self, base_url: str, token: str) -> None:
        super().__init__(daemon=True)
        self.positions, self.odd, self.cursor = list[int](), list[str](), ""
        self._base_url, self._token, self._is_over = base_url, token, False
        self.start()

    def run(self) -> None:
        with httpx2.Client(base_url=self._base_url, trust_env=False, timeout=TIMEOUT) as http:
            while not self._is_over:
                with suppress(httpx2.HTTPError, httpx2.StreamError):
                    self._follow(http)
                time.sleep(PAUSE)

    def stop(self) -> None:
        self._is_over = True

    def _follow(self, http: httpx2.Client) -> None:
        headers = {**bearer(self._token), "Accept": MEDIA_TYPE}
        query = {"after": self.cursor} if self.cursor else {}
        with http.stream("GET", EVENTS, params=query, headers=headers) as answer:
            if answer.status_code != HTTPStatus.OK:
                if answer.status_code not in PASSING:
                    self.odd.append(f"{answer.status_code} {answer.read().decode()}")
                time.sleep(1)
                return
            for frame in frames_of(answer.iter_lines()):
                if frame.event == "end":
                    self.odd.append(frame.data)
                elif frame.data:
                    self.positions.append(json.loads(frame.data)["position"])
                self.cursor = frame.id or self.cursor
