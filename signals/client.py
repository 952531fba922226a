"""A client for the engine: pulls desks, deploys, fans out, follows the feed (contract, section 4).

    with Engine("https://signals.example", token) as engine:
        for desk in engine.desks(ready=True): ...
        engine.fan_out(card, nonce="bar-2026-11-20T09:30")
        for event in engine.follow(Path("cursor")): ...

It needs httpx and nothing else of this repository. Every call is safe to repeat, so each one asks
again, for as long as its patience lasts, when an answer was lost or the service is away or busy: a
reading changes nothing, and a nonce is spent once and for good. Choose a nonce by what the signal
is about, a bar or an order, so that the engine says the same one after a crash of its own.
"""

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NotRequired, Self, TypedDict

import httpx

HOOK = "/api/hooks/signal"
PAGE = 1000  # desks, the most that one answer holds
WAIT = 25  # seconds that the service holds an empty page of the feed: its most
PATIENCE = 60.0  # seconds for one call, asked again as often as that allows
ANSWER = WAIT + 10.0  # seconds for one answer
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 8.0  # seconds between two tries

# Nothing was done, says the service or the proxy before it: the same may be asked again.
PASSING = (429, 500, 502, 503, 504)

Direction = Literal["long", "short"]


class Card(TypedDict):
    """What is elected: signals repeat its pair and direction. The published one has a name."""

    name: NotRequired[str]
    pair: str
    direction: Direction


class Desk(TypedDict):
    """A desk as the engine sees it."""

    userId: str
    connected: bool
    ready: bool
    connection: dict[str, Any] | None
    election: dict[str, Any] | None
    createdAt: str
    updatedAt: str


class Event(TypedDict):
    """One event of the log. ``position`` orders all of them."""

    id: str
    position: int
    kind: str
    at: str
    userId: str | None
    signal: dict[str, Any] | None
    data: dict[str, Any]


class Page(TypedDict):
    """A page of the feed; ``next`` is where to read on, also where there was nothing."""

    events: list[Event]
    next: str
    more: bool


@dataclass(frozen=True, slots=True)
class Accepted:
    """What became of a signal. ``repeated``: it had been accepted before, and this tells of it."""

    signal: dict[str, Any]
    outcome: str
    matched: int
    filled: int
    repeated: bool


class ClientError(Exception):
    """Why a call has no result."""


class Refusal(ClientError):
    """The service said no: the code and the sentence of the contract's section 5."""

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        self.status, self.problem = status, problem
        self.code: str = problem.get("code", "")
        self.detail: str = problem.get("detail", "")
        super().__init__(f"{status} {self.code}: {self.detail}")


class UnreachableError(ClientError):
    """No answer within the patience. A signal may have arrived: send it again with its nonce."""


class Engine:
    """A platform token at work. ``http`` may bring a proxy, certificates or limits of its own."""

    def __init__(
        self,
        base_url: str,
        token: str,
        *,
        patience: float = PATIENCE,
        http: httpx.Client | None = None,
    ) -> None:
        self._base_url = base_url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"}
        self._patience = patience
        self._http = http or httpx.Client(timeout=ANSWER)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    # --- Desks ------------------------------------------------------------------------------------

    def card(self) -> Card | None:
        """The published card, null while there is none."""
        published: Card | None = self._get(HOOK, {})["publishedCard"]
        return published

    def desks(
        self,
        *,
        ready: bool | None = None,
        connected: bool | None = None,
        signal: str | None = None,
        limit: int = PAGE,
    ) -> Iterator[Desk]:
        """All desks, or those that are so, or that a signal filled; ``limit`` of them an answer."""
        given = {"ready": _digit(ready), "connected": _digit(connected), "signal": signal}
        query = {name: value for name, value in given.items() if value} | {"limit": str(limit)}
        after: str | None = ""
        while after is not None:
            page = self._get("/api/v1/desks", query | ({"after": after} if after else {}))
            yield from page["desks"]
            after = page["next"]

    def desk(self, user_id: str) -> Desk:
        """One desk; raises ``Refusal`` (``not_found``) where there is none."""
        desk: Desk = self._get(f"/api/v1/desks/{user_id}", {})
        return desk

    # --- Signals ----------------------------------------------------------------------------------

    def deploy(self, user_id: str, card: Card, *, nonce: str) -> Accepted:
        """Signals to one desk, which must be ready."""
        body = {**_elected(card, nonce), "mode": "paper"}
        return self._signal(f"/api/v1/desks/{user_id}/signal", body)

    def fan_out(self, card: Card, *, nonce: str) -> Accepted:
        """Signals to every desk that is ready."""
        return self._signal(HOOK, {**_elected(card, nonce), "fanout": True})

    # --- The feed ---------------------------------------------------------------------------------

    def tail(self) -> str:
        """The cursor of where the log ends now."""
        return str(self._get("/api/v1/events", {"order": "desc", "limit": "1"})["next"])

    def page(self, after: str | None = None, *, kinds: Sequence[str] = (), wait: int = 0) -> Page:
        """What comes after a cursor, or from the beginning; waits so many seconds for something."""
        query: dict[str, str | list[str]] = {"after": after} if after else {}
        page: Page = self._get("/api/v1/events", query | {"kind": list(kinds), "wait": str(wait)})
        return page

    def follow(
        self, cursor: Path, *, kinds: Sequence[str] = (), from_beginning: bool = False
    ) -> Iterator[Event]:
        """Every event from the saved cursor on, for ever; without one from now on.

        The cursor is saved when the events of a page were taken: after a crash the last page comes
        again, so whoever must not act twice remembers the position. Raises ``Refusal``
        (``cursor_lost``) when the log no longer holds the cursor, as after a restore.
        """
        after: str | None = _read(cursor)
        if after is None and not from_beginning:
            _save(cursor, after := self.tail())
        while True:
            page = self.page(after, kinds=kinds, wait=WAIT)
            yield from page["events"]
            if page["next"] != after:
                _save(cursor, after := page["next"])

    # --- Asking -----------------------------------------------------------------------------------

    def _get(self, path: str, query: dict[str, Any]) -> Any:
        return _result(self._ask("GET", path, params=query))

    def _signal(self, path: str, body: dict[str, Any]) -> Accepted:
        response = self._ask("POST", path, json=body)
        try:
            return _accepted(_result(response), repeated=False)
        except Refusal as refusal:
            if not refusal.problem.get("identical"):
                raise
            return _accepted(refusal.problem["first"], repeated=True)

    def _ask(self, method: str, path: str, **said: Any) -> httpx.Response:
        """The answer, asked for again while it is lost or passing and patience lasts."""
        deadline, pause = time.monotonic() + self._patience, FIRST_PAUSE
        while True:
            response = self._try(method, path, **said)
            if response is not None and response.status_code not in PASSING:
                return response
            rest = _rest(response, pause)
            if time.monotonic() + rest > deadline:
                return _give_up(response)
            time.sleep(rest)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _try(self, method: str, path: str, **said: Any) -> httpx.Response | None:
        """One try; null where nobody knows whether it arrived."""
        url = self._base_url + path
        try:
            return self._http.request(method, url, headers=self._headers, **said)
        except httpx.TransportError:
            return None


def _elected(card: Card, nonce: str) -> dict[str, Any]:
    return {
        "pair": card["pair"],
        "direction": card["direction"],
        "nonce": nonce,
        "elected": True,
        "source": "floor",
    }


def _accepted(said: dict[str, Any], *, repeated: bool) -> Accepted:
    return Accepted(said["signal"], said["outcome"], said["matched"], said["filled"], repeated)


def _result(response: httpx.Response) -> Any:
    """What the answer says; raises ``Refusal``."""
    if response.is_success:
        return response.json()
    is_json = "json" in response.headers.get("Content-Type", "")
    raise Refusal(response.status_code, response.json() if is_json else {})


def _rest(response: httpx.Response | None, pause: float) -> float:
    """How many seconds to rest before the next try."""
    said = response.headers.get("Retry-After", "") if response is not None else ""
    return float(said) if said.isdecimal() else pause


def _give_up(response: httpx.Response | None) -> httpx.Response:
    if response is None:
        raise UnreachableError("The service did not answer. Ask again: nothing is done twice.")
    return response


def _digit(flag: bool | None) -> str | None:
    return None if flag is None else str(int(flag))


def _read(cursor: Path) -> str | None:
    return cursor.read_text().strip() if cursor.exists() else None


def _save(cursor: Path, text: str) -> None:
    """Replaces the file in one step: a power cut leaves the old cursor or the new one."""
    fresh = cursor.with_name(f"{cursor.name}.new")
    with open(fresh, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(cursor)
