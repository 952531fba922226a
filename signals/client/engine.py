"""The engine's calls, how it follows the feed, and a copy of all desks that it keeps."""

import json
import logging
import os
import random
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, NotRequired, Self, TypedDict, Unpack

import httpx2

HOOK = "/api/hooks/signal"
CHECK = "/api/hooks/check"
SIGNALS = "/api/v1/signals"
DESKS = "/api/v1/desks"
FEED = "/api/v1/events"
PAGE_SIZE = 1000  # desks in one response, at most
# The parameters of the feed that ``EventSearch`` has by another name.
PARAMETERS = {"kinds": "kind", "user_id": "userId", "bot_id": "botId"}

TIMEOUT = 60.0  # seconds for one call with all its retries
MAX_WAIT = 25  # seconds, the longest that the service waits for events
RESPONSE_TIMEOUT = MAX_WAIT + 10.0  # seconds for one response
SILENCE_TIMEOUT = 40.0  # seconds without a byte of a stream, which has a heartbeat every 15 s
MIN_BACKOFF, MAX_BACKOFF = 0.5, 8.0  # seconds between two attempts
# Statuses after which the same request can be sent again.
RETRYABLE = (429, 500, 502, 503, 504)
PROBLEM = "application/problem+json"  # the type of the service's refusals
# The members of a response that calls read. An object without them is not the service's.
ACCEPTED = ("signal", "outcome", "matched", "filled")
CHECKED = ("signal", "wouldBe", "matched", "filled", "ignored")
DESK_PAGE = ("desks", "asOf", "next")
PAGE = ("events", "next", "more")

END = "end"  # the kind of a stream's last message
RESTARTING = "restarting"  # the reason of an end after which the stream can be opened again
SAVING_INTERVAL = 1.0  # seconds between two writes of the file
MIN_STREAM_PAUSE, MAX_STREAM_PAUSE = 15.0, 600.0  # seconds without a stream after it was refused
RECONNECT_PAUSE = 4.0  # seconds, if the stream named none

# It says when the service is away and when it is back. Without a configuration of logging Python
# prints that to standard error.
log = logging.getLogger(__name__)

Direction = Literal["long", "short"]
JsonObject = dict[str, Any]
# Parameters by their names: texts, numbers, flags, times or lists. One that is None is left out.
Query = Mapping[str, object]

# --- What calls take, return and raise ------------------------------------------------------------


class Card(TypedDict):
    """A pair and direction for signals to repeat. The published card also has a name."""

    name: NotRequired[str]
    pair: str
    direction: Direction


class Desk(TypedDict):
    """A desk as the engine sees it."""

    userId: str
    connected: bool
    ready: bool
    connection: JsonObject | None
    election: JsonObject | None
    createdAt: str
    updatedAt: str


class RemovedDesk(TypedDict):
    """A desk that is no longer listed."""

    userId: str
    removed: Literal[True]


class DeskPage(TypedDict):
    """A page of desks. ``cardChanged`` and removed desks are in pages of changes only."""

    desks: list[Desk | RemovedDesk]
    asOf: str
    next: str | None
    cardChanged: NotRequired[bool]


class EventFilter(TypedDict, total=False):
    """Which events to read. Several filters narrow together."""

    kinds: Sequence[str]
    user_id: str  # what this desk sees, fan-outs that filled it included
    bot_id: str
    signal: str


class EventSearch(EventFilter, total=False):
    """Which events to read, and from which time: not before ``since``, before ``until``."""

    since: datetime
    until: datetime


class Event(TypedDict):
    """One event of the log. ``position`` orders all of them."""

    id: str
    position: int
    kind: str
    at: str
    actor: dict[str, str | None] | None
    userId: str | None
    signal: JsonObject | None
    data: JsonObject


class Page(TypedDict):
    """A page of the feed. ``next`` is the cursor to continue from, even if the page is empty."""

    events: list[Event]
    next: str
    more: bool


@dataclass(frozen=True, slots=True)
class Accepted:
    """The outcome of a signal. ``repeated`` is True if an earlier call was already accepted."""

    signal: JsonObject
    outcome: str
    matched: int
    filled: int
    repeated: bool


@dataclass(frozen=True, slots=True)
class Checked:
    """What a signal would do now. ``ignored`` are the names of members that have no meaning."""

    signal: JsonObject
    would_be: str
    matched: int
    filled: int
    ignored: list[str]


class ClientError(Exception):
    """The base class of the errors that calls raise."""


class Refusal(ClientError):
    """The service refused the request. ``code`` and ``detail`` are those of section 5."""

    def __init__(self, status: int, problem: JsonObject) -> None:
        self.status, self.problem = status, problem
        self.code: str = problem.get("code", "")
        self.detail: str = problem.get("detail", "")
        super().__init__(f"{status} {self.code}: {self.detail}")


class UnreachableError(ClientError):
    """No response of the service before ``timeout``: none, or one that something else gave.

    A proxy's page, redirect or refusal is such a response: ``status`` is its status, otherwise
    None. A signal may have arrived: send it again with its nonce.
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        self.status = status
        super().__init__(message)


# --- Requests -------------------------------------------------------------------------------------


class Connection:
    """The service's address and a token. ``timeout`` is in seconds, retries included.

    Methods raise ``Refusal`` or ``UnreachableError``, the latter also if a response does not have
    the members that are ``needed``.
    """

    def __init__(
        self, base_url: str, token: str, timeout: float, http: httpx2.Client | None
    ) -> None:
        self._base_url = base_url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"}
        self._timeout = timeout
        self._is_away = False
        self._http = http or httpx2.Client(timeout=RESPONSE_TIMEOUT)

    def close(self) -> None:
        self._http.close()

    def get(self, path: str, query: Query, *needed: str) -> Any:
        """Returns the JSON of a GET."""
        url, params = self._base_url + path, _parameters(query)
        request = self._http.build_request("GET", url, params=params, headers=self._headers)
        return self._result(request, needed)

    def post(self, path: str, body: JsonObject, *needed: str) -> Any:
        """Returns the JSON of a POST. It may arrive several times, so it must be safe to repeat."""
        url = self._base_url + path
        request = self._http.build_request("POST", url, json=body, headers=self._headers)
        return self._result(request, needed)

    def stream(
        self, path: str, query: Query, last_event_id: str
    ) -> AbstractContextManager[httpx2.EventSource]:
        """Opens a stream of server-sent events, without retries.

        Opening or reading it raises ``httpx2.RequestError`` if it is cut, or silent for too long.
        Reading a response that is no stream raises it too.
        """
        headers = {**self._headers, "Last-Event-ID": last_event_id}
        params = _parameters(query)
        return self._http.sse(
            self._base_url + path, params=params, headers=headers, timeout=SILENCE_TIMEOUT
        )

    def say_away(self, status: int | None) -> None:
        """Says once that the service is away. ``status`` is its answer's, None without one."""
        if not self._is_away:
            self._is_away = True
            who = "The service" if status in (None, *RETRYABLE) else "Something else"
            what = "does not answer" if status is None else f"answers {status}"
            log.warning("%s %s. The client waits and tries again.", who, what)

    def _say_back(self) -> None:
        if self._is_away:
            self._is_away = False
            log.warning("The service answers again.")

    def _result(self, request: httpx2.Request, needed: Sequence[str]) -> JsonObject:
        response = self._response(request)
        status, found = response.status_code, _object(response)
        is_result = response.is_success and found.keys() >= set(needed)
        if not is_result and not _is_refusal(response, found):
            what = f"Something else answered with {status}. It is safe to repeat the call."
            raise UnreachableError(what, status)
        if status not in RETRYABLE:
            self._say_back()
        if is_result:
            return found
        raise Refusal(status, found)

    def _response(self, request: httpx2.Request) -> httpx2.Response:
        """Sends a request, and retries until it gets a final response or the timeout is over."""
        deadline = time.monotonic() + self._timeout
        for pause in backoff():
            response: httpx2.Response | None = None  # it is unknown whether the request arrived
            with suppress(httpx2.RequestError):
                response = self._http.send(request)
            if response is not None and response.status_code not in RETRYABLE:
                break
            delay = _retry_after(response) or pause
            if time.monotonic() + delay > deadline:
                break
            self.say_away(None if response is None else response.status_code)
            time.sleep(delay)
        if response is None:
            raise UnreachableError("The service did not respond. It is safe to repeat the call.")
        return response


def backoff(least: float | None = None, most: float | None = None) -> Iterator[float]:
    """Yields the delays between attempts in seconds: exponential, bounded and with jitter."""
    upper = least or MIN_BACKOFF
    while True:
        yield random.uniform(upper / 2, upper)  # noqa: S311 - jitter, not a secret  # nosec B311
        upper = min(2 * upper, most or MAX_BACKOFF)


def _parameters(query: Query) -> dict[str, str | list[str]]:
    return {name: _text(value) for name, value in query.items() if value is not None}


def _text(value: object) -> str | list[str]:
    """The text of a parameter. A time without an offset is taken for local time."""
    if isinstance(value, datetime):
        return value.astimezone().isoformat()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [str(each) for each in value]
    return str(int(value)) if isinstance(value, bool) else str(value)


def _object(response: httpx2.Response) -> JsonObject:
    """Returns the JSON object of a response, or an empty one: a proxy may have answered."""
    try:
        found = response.json()
    except (ValueError, RecursionError):  # RecursionError: of a body that is nested too deeply
        return {}
    return found if isinstance(found, dict) else {}


def _is_refusal(response: httpx2.Response, found: JsonObject) -> bool:
    """Whether an error is the service's own: its refusals are problem documents with a code."""
    is_problem = response.headers.get("Content-Type", "").startswith(PROBLEM)
    return response.is_error and is_problem and isinstance(found.get("code"), str)


def _retry_after(response: httpx2.Response | None) -> float | None:
    """Returns the seconds of the Retry-After header, or None if there is none."""
    value = response.headers.get("Retry-After", "") if response is not None else ""
    return float(value) if value.isdecimal() else None


# --- The feed -------------------------------------------------------------------------------------


class SavedCursor:
    """A cursor of the feed, and the file that it is saved in. None if none was saved yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.value: str | None = path.read_text().strip() if path.exists() else None
        self._saved, self._saved_at = self.value, time.monotonic() - SAVING_INTERVAL

    def move(self, value: str) -> None:
        """Moves the cursor. Saves it if it was not saved within the last second."""
        self.value = value
        if time.monotonic() - self._saved_at >= SAVING_INTERVAL:
            self.save()

    def save(self) -> None:
        """Replaces the file atomically, so that a crash leaves the old cursor or the new one."""
        if self.value is None or self.value == self._saved:
            return
        fresh = self._path.with_name(f"{self._path.name}.new")
        with open(fresh, "w") as file:
            file.write(self.value)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path)
        self._saved, self._saved_at = self.value, time.monotonic()


class Follower:
    """Reads the feed from a saved cursor on. ``query`` are its filters."""

    def __init__(self, connection: Connection, cursor: SavedCursor, query: Query) -> None:
        self._connection, self._cursor, self._query = connection, cursor, query
        self._pauses = backoff()

    def events(self) -> Iterator[Event]:
        """Yields every event after the cursor, without end.

        It polls until it has caught up for the first time, and while the service offers no stream.
        """
        try:
            yield from self._poll() if self._cursor.value is None else ()
            pauses, without_stream_until = _stream_pauses(), 0.0
            while True:
                if time.monotonic() < without_stream_until:
                    yield from self._poll()
                elif (yield from self._stream()):
                    pauses = _stream_pauses()
                else:
                    without_stream_until = time.monotonic() + next(pauses)
                    yield from self._poll()
        finally:
            self._cursor.save()

    def _stream(self) -> Generator[Event, None, bool]:
        """Yields the events of one stream. Returns whether to open another one.

        False: the service offers none, it cannot be reached, or it ended the stream for a reason
        that the next poll names in a refusal.
        """
        pause: float | None = None  # None until the stream has begun
        try:
            with self._connection.stream(FEED, self._query, str(self._cursor.value)) as source:
                for message in source:
                    pause = (message.retry or 0) / 1000 or pause or RECONNECT_PAUSE
                    if message.event == END:
                        if json.loads(message.data).get("reason") != RESTARTING:
                            return False
                        break
                    if message.data:
                        event: Event = json.loads(message.data)
                        yield event
                    self._cursor.move(message.id)
        except httpx2.RequestError:
            pass  # refused, cut, or without a heartbeat for too long
        if pause is not None:
            time.sleep(pause)
        return pause is not None

    def _poll(self) -> Iterator[Event]:
        """Yields the events of the list, page by page, until a page is empty.

        It goes on while the service cannot be reached, is unavailable or busy, or while a proxy
        answers in its place.
        """
        caught_up = False
        while not caught_up:
            started = time.monotonic()
            after = {"after": self._cursor.value or None, "wait": MAX_WAIT}
            try:
                page: Page = self._connection.get(FEED, {**self._query, **after}, *PAGE)
            except (Refusal, UnreachableError) as error:
                if isinstance(error, Refusal) and error.status not in RETRYABLE:
                    raise
                self._connection.say_away(error.status)
                time.sleep(next(self._pauses))
                continue
            caught_up = not page["events"] and not page["more"]
            if not caught_up or time.monotonic() - started > MAX_WAIT / 2:
                self._pauses = backoff()
            else:  # the service has no free slot for a waiting reader: do not poll it at once
                time.sleep(next(self._pauses))
            yield from page["events"]
            self._cursor.move(page["next"])


def _stream_pauses() -> Iterator[float]:
    """Yields the seconds to poll before the next attempt to open a stream."""
    return backoff(MIN_STREAM_PAUSE, MAX_STREAM_PAUSE)


# --- The engine -----------------------------------------------------------------------------------


class Engine:
    """A client with a platform token, or a desk token for reads of one desk.

    Pass ``http`` to set a proxy, certificates or limits. ``timeout`` is in seconds, retries
    included. Methods raise ``Refusal`` or ``UnreachableError``.
    """

    def __init__(
        self,
        base_url: str,
        token: str,
        *,
        timeout: float = TIMEOUT,
        http: httpx2.Client | None = None,
    ) -> None:
        self._connection = Connection(base_url, token, timeout, http)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    # --- Desks ------------------------------------------------------------------------------------

    def card(self) -> Card | None:
        """The published card, or None if there is none."""
        published: Card | None = self._connection.get(HOOK, {}, "publishedCard")["publishedCard"]
        return published

    def desks(
        self,
        *,
        ready: bool | None = None,
        connected: bool | None = None,
        signal: str | None = None,
        limit: int = PAGE_SIZE,
    ) -> Iterator[Desk]:
        """Yields all desks that match the filters. ``signal`` selects the desks that it filled.

        ``limit`` is the number of desks in one response.
        """
        query: Query = {"ready": ready, "connected": connected, "signal": signal}
        for page in self._pages(DESKS, query, limit):
            yield from page["desks"]

    def desk_pages(
        self, *, changed_since: str | None = None, limit: int = PAGE_SIZE
    ) -> Iterator[DeskPage]:
        """Yields the pages of all desks, or of those that changed since the ``asOf`` of a page.

        ``DeskCopy`` keeps a copy of the desks with it.
        """
        yield from self._pages(DESKS, {"changedSince": changed_since}, limit)

    def desk(self, user_id: str) -> Desk:
        """Returns one desk. Raises ``Refusal`` (``not_found``) if it does not exist."""
        desk: Desk = self._connection.get(f"{DESKS}/{user_id}", {}, "userId")
        return desk

    # --- Signals ----------------------------------------------------------------------------------

    def deploy(self, user_id: str, card: Card, *, nonce: str) -> Accepted:
        """Sends a signal to one desk, which must be ready."""
        body = {**_elected(card, nonce), "mode": "paper"}
        return self._signal(f"{DESKS}/{user_id}/signal", body)

    def fan_out(self, card: Card, *, nonce: str) -> Accepted:
        """Sends a signal to every desk that is ready."""
        return self._signal(HOOK, {**_elected(card, nonce), "fanout": True})

    def check(self, card: Card, *, nonce: str, user_id: str | None = None) -> Checked:
        """Returns what a signal would do now, to one desk or as a fan-out. Nothing is recorded.

        Raises the ``Refusal`` that the signal would get.
        """
        target = {"userId": user_id} if user_id else {"fanout": True}
        body = {**_elected(card, nonce), **target}
        found = self._connection.post(CHECK, body, *CHECKED)
        return Checked(
            found["signal"], found["wouldBe"], found["matched"], found["filled"], found["ignored"]
        )

    def signal(self, signal_id: str) -> Accepted:
        """Returns the outcome of an accepted signal.

        Raises ``Refusal`` (``not_found``) if there is none with this id that the token may see.
        """
        found = self._connection.get(f"{SIGNALS}/{signal_id}", {}, *ACCEPTED)
        return _accepted(found, repeated=True)

    def find_signal(
        self,
        nonce: str,
        *,
        source: Literal["floor", "nox"] | None = None,
        bot_id: str | None = None,
    ) -> Accepted:
        """Returns the outcome of the signal with this nonce, of one source or of one bot.

        Raises ``Refusal`` (``not_found``) if none was accepted so far: send it with that nonce.
        """
        query: Query = {"nonce": nonce, "source": source, "botId": bot_id}
        return _accepted(self._connection.get(SIGNALS, query, *ACCEPTED), repeated=True)

    # --- The feed ---------------------------------------------------------------------------------

    def tail(self) -> str:
        """Returns the cursor of the log's end."""
        return str(self._connection.get(FEED, {"order": "desc", "limit": 1}, "next")["next"])

    def page(
        self, after: str | None = None, *, wait: int = 0, **search: Unpack[EventSearch]
    ) -> Page:
        """Returns the events after a cursor, or from the beginning of the log.

        If there are none, the service waits up to ``wait`` seconds for one.
        """
        query: Query = {"after": after, "wait": wait, **_by_parameter(search)}
        page: Page = self._connection.get(FEED, query, *PAGE)
        return page

    def follow(
        self, cursor: Path, *, from_beginning: bool = False, **only: Unpack[EventFilter]
    ) -> Iterator[Event]:
        """Yields every event after the saved cursor, without end, by a stream or by long polling.

        If no cursor was saved, it starts at the end of the log, or at its beginning with
        ``from_beginning``. The cursor is saved at most once a second, after an event was consumed,
        and when the iteration ends. After a crash the last second's events (when polling, the last
        page's) are therefore repeated: to avoid acting twice, remember the position.

        It goes on however long the service is away, or something else answers in its place. It ends
        only with a ``Refusal`` that no repetition changes: ``token_invalid`` if the token ends,
        ``cursor_lost`` if the log was restored from a backup. Without a saved cursor, its first
        call can raise ``UnreachableError``.
        """
        saved = SavedCursor(cursor)
        if saved.value is None and not from_beginning:
            saved.move(self.tail())
        yield from Follower(self._connection, saved, _by_parameter(only)).events()

    # --- Requests ---------------------------------------------------------------------------------

    def _pages(self, path: str, query: Query, limit: int) -> Iterator[Any]:
        after, more = None, True
        while more:
            asked = {**query, "limit": limit, "after": after}
            page = self._connection.get(path, asked, *DESK_PAGE)
            yield page
            after = page["next"]
            more = after is not None

    def _signal(self, path: str, body: JsonObject) -> Accepted:
        try:
            return _accepted(self._connection.post(path, body, *ACCEPTED), repeated=False)
        except Refusal as refusal:
            if not refusal.problem.get("identical"):
                raise
            return _accepted(refusal.problem["first"], repeated=True)


class DeskCopy:
    """All desks by ``userId``, as of the last ``refresh``, without pulling them all each time.

    ``as_of`` is the cursor up to which the copy is complete. Store it with ``desks`` to continue
    after a restart; with None the next ``refresh`` pulls all desks.
    """

    def __init__(self, desks: dict[str, Desk] | None = None, as_of: str | None = None) -> None:
        self.desks = desks if desks is not None else {}
        self.as_of = as_of

    def refresh(self, engine: Engine) -> None:
        """Takes over what changed since the last call. If the log was restored, pulls all again.

        Raises as the engine's calls do. The copy can then be refreshed again.
        """
        try:
            self._take_over(engine)
        except Refusal as refusal:
            if refusal.code != "cursor_lost":
                raise
            self.as_of = None
            self._take_over(engine)

    def _take_over(self, engine: Engine) -> None:
        if self.as_of is None:
            self.desks.clear()
        as_of = None  # of the first page: it is lost if an event was lost while the pages were read
        for page in engine.desk_pages(changed_since=self.as_of):
            self._apply(page)
            as_of = as_of or page["asOf"]
        self.as_of = as_of

    def _apply(self, page: DeskPage) -> None:
        if page.get("cardChanged"):
            for desk in self.desks.values():
                desk["ready"], desk["election"] = False, None
        for record in page["desks"]:
            if "removed" in record:
                self.desks.pop(record["userId"], None)
            else:
                self.desks[record["userId"]] = record


def _elected(card: Card, nonce: str) -> JsonObject:
    return {
        "pair": card["pair"],
        "direction": card["direction"],
        "nonce": nonce,
        "elected": True,
        "source": "floor",
    }


def _accepted(data: JsonObject, *, repeated: bool) -> Accepted:
    return Accepted(data["signal"], data["outcome"], data["matched"], data["filled"], repeated)


def _by_parameter(search: EventFilter | EventSearch) -> Query:
    """The values of a search by the names of their parameters."""
    return {PARAMETERS.get(name, name): value for name, value in search.items()}
