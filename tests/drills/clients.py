"""Real clients under load, who write down every answer that they get.

Each asks for one thing after the other, and for the same thing again until it knows what became of
it, as the README tells senders to; sooner than ``Retry-After`` says, so that an outage is seen to a
tenth of a second.
"""

import itertools
import random
import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import httpx

from tests.client import EVENTS, HOOK, JSON, TOKENS, bearer, deploy_path, signed, written

PATIENCE = 40  # seconds for one answer: longer than the server takes to finish what is in flight
PAUSE = 0.1  # seconds before asking again
NOBODY = 0  # the status of no answer at all
PASSING = (NOBODY, HTTPStatus.SERVICE_UNAVAILABLE)
LOGIN = "/accounts/login/"
CARD = re.compile(r'name="card" value="(\w+)"')


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, when (on the monotonic clock), after how many seconds."""

    at: float
    took: float
    status: int
    what: str
    retry_after: bool


@dataclass(frozen=True, slots=True)
class Accepted:
    """A signal that somebody was told is in the log. ``again``: only when they asked again."""

    at: float
    nonce: str
    id: str
    position: int
    again: bool


@dataclass(slots=True)
class Book:
    """All that was written down. ``odd``: answers that nothing in a drill accounts for."""

    answers: list[Answer] = field(default_factory=list)
    accepted: list[Accepted] = field(default_factory=list)
    # Of each desk the kinds of events that its owner's changes must have made, in order.
    changes: dict[str, list[str]] = field(default_factory=dict)
    minted: list[str] = field(default_factory=list)
    revoked: list[str] = field(default_factory=list)
    read: list[dict[str, Any]] = field(default_factory=list)
    sent: set[str] = field(default_factory=set)
    # Nonces of bodies that were cut off: nobody can have accepted them.
    cut: set[str] = field(default_factory=set)
    odd: list[str] = field(default_factory=list)


_numbers = itertools.count(1)
_tag = f"{random.getrandbits(32):08x}"


def a_nonce() -> str:
    return f"drill-{_tag}-{next(_numbers)}"


class Client(threading.Thread):
    """Somebody who asks for one thing after another until told to stop."""

    def __init__(self, base_url: str, book: Book) -> None:
        super().__init__(daemon=True)
        self.base_url, self.book = base_url, book
        self.stopping = threading.Event()

    def run(self) -> None:
        options: dict[str, Any] = {"trust_env": False, "timeout": PATIENCE}
        with httpx.Client(base_url=self.base_url, **options) as self.http:
            try:
                self.enter()
                while not self.stopping.is_set():
                    self.act()
            except Exception as fault:
                self.book.odd.append(f"{type(self).__name__}: {fault!r}")
                raise

    def enter(self) -> None:
        """What is done once."""

    def act(self) -> None:
        raise NotImplementedError

    def ask(
        self, method: str, path: str, headers: Callable[[], dict[str, str]] = dict, **said: Any
    ) -> httpx.Response:
        """The answer, asked for again while it is lost or passing; each one is written down."""
        while True:
            answer = self.once(method, path, headers(), **said)
            if answer is not None and answer.status_code not in PASSING:
                return answer
            time.sleep(PAUSE)

    def once(
        self, method: str, path: str, headers: dict[str, str], **said: Any
    ) -> httpx.Response | None:
        began, answer = time.monotonic(), None
        with suppress(httpx.TransportError):
            answer = self.http.request(method, path, headers=headers, **said)
        now = time.monotonic()
        status = answer.status_code if answer is not None else NOBODY
        told = answer is not None and "Retry-After" in answer.headers
        self.book.answers.append(Answer(now, now - began, status, type(self).__name__, told))
        return answer

    def expect(self, answer: httpx.Response, *statuses: int) -> bool:
        """Whether it is one of these; another one is written down as odd."""
        if answer.status_code not in statuses:
            self.book.odd.append(f"{type(self).__name__}: {answer.status_code} {answer.text[:300]}")
            time.sleep(PAUSE)
        return answer.status_code in statuses


class Sender(Client):
    """Somebody who sends signals, each with a nonce of its own until it is settled."""

    def signal(self, path: str, body: dict[str, Any], *, token: str = "", secret: str = "") -> None:
        raw = written(body)
        self.book.sent.add(body["nonce"])

        def headers() -> dict[str, str]:
            presented = signed(secret, body=raw) if secret else bearer(token)
            return {**presented, "Content-Type": JSON}

        note(self.book, self.ask("POST", path, headers, content=raw), body["nonce"], self)


def note(book: Book, answer: httpx.Response, nonce: str, client: Client) -> None:
    """Writes down a signal that was accepted, now or before."""
    if not client.expect(answer, HTTPStatus.OK, HTTPStatus.CONFLICT):
        return
    said = answer.json()
    again = answer.status_code == HTTPStatus.CONFLICT
    if again and not said.get("identical"):
        book.odd.append(f"another signal has spent {nonce}")
        return
    signal = (said["first"] if again else said)["signal"]
    book.accepted.append(Accepted(time.monotonic(), nonce, signal["id"], signal["position"], again))


class Bot(Sender):
    """An automation: signed pushes."""

    def __init__(self, base_url: str, book: Book, bot: dict[str, str]) -> None:
        super().__init__(base_url, book)
        self.bot = bot

    def act(self) -> None:
        self.signal(HOOK, push_of(self.bot), secret=self.bot["secret"])


def push_of(bot: dict[str, str]) -> dict[str, Any]:
    """A new signal that repeats the bot's election."""
    said = {name: bot[name] for name in ("botId", "pair", "direction")}
    return {**said, "nonce": a_nonce(), "elected": True, "source": "tradingview"}


class Engine(Sender):
    """The engine: deploys to desks that stand throughout, and fans out."""

    def __init__(self, base_url: str, book: Book, seed: dict[str, Any]) -> None:
        super().__init__(base_url, book)
        self.token, self.card = seed["platformToken"], seed["card"]
        self.desks = [desk["userId"] for desk in seed["desks"]]

    def act(self) -> None:
        said = {"nonce": a_nonce(), "elected": True, "source": "floor"}
        body = {name: self.card[name] for name in ("pair", "direction")} | said
        if random.random() < 0.5:
            self.signal(HOOK, {**body, "fanout": True}, token=self.token)
        else:
            path = deploy_path(random.choice(self.desks))
            self.signal(path, {**body, "mode": "paper"}, token=self.token)


class Customer(Client):
    """Somebody at a browser: enrols and withdraws, mints a token and revokes it with itself."""

    def __init__(self, base_url: str, book: Book, account: dict[str, Any]) -> None:
        super().__init__(base_url, book)
        self.account = account
        self.changes = book.changes.setdefault(account["userId"], [])

    def enter(self) -> None:
        """Signs in, for this drill and those that follow."""
        if "cookies" not in self.account:
            self.ask("GET", LOGIN)
            form = {name: self.account[name] for name in ("login", "password")}
            self.expect(self.send(LOGIN, **form), HTTPStatus.FOUND)
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

    def send(self, path: str, **fields: str) -> httpx.Response:
        return self.ask("POST", path, data={**fields, "csrfmiddlewaretoken": self.csrf()})

    def mint_and_revoke(self) -> None:
        answer = self.ask(
            "POST", TOKENS, lambda: {"X-CSRFToken": self.csrf()}, json={"scope": "desk"}
        )
        if not self.expect(answer, HTTPStatus.CREATED):
            return
        minted = answer.json()
        self.book.minted.append(minted["id"])
        # A browser's cookie says nothing beside a token, which is gone once it revoked itself.
        gone = self.ask("DELETE", TOKENS, lambda: bearer(minted["token"]))
        if self.expect(gone, HTTPStatus.OK, HTTPStatus.UNAUTHORIZED):
            self.book.revoked.append(minted["id"])

    def csrf(self) -> str:
        return str(self.http.cookies["csrf"])


class Reader(Client):
    """The engine's other half: follows the feed from a cursor, and keeps what it sees."""

    def __init__(self, base_url: str, book: Book, token: str, cursor: str) -> None:
        super().__init__(base_url, book)
        self.token, self.cursor = token, cursor

    def act(self) -> None:
        query = f"{EVENTS}?after={self.cursor}&limit=1000&wait=1"
        answer = self.ask("GET", query, lambda: bearer(self.token))
        if self.expect(answer, HTTPStatus.OK):
            page = answer.json()
            self.book.read += page["events"]
            self.cursor = page["next"]
