"""The engine's calls, their retries and the saved cursor."""

import os
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import httpx

from .data import (
    Accepted,
    Card,
    Desk,
    Event,
    Page,
    Refusal,
    UnreachableError,
)

HOOK = "/api/hooks/signal"
PAGE_SIZE = 1000  # desks in one response, at most
MAX_WAIT = 25  # seconds, the longest that the service waits for events
TIMEOUT = 60.0  # seconds for one call with all its retries
RESPONSE_TIMEOUT = MAX_WAIT + 10.0  # seconds for one response
MIN_BACKOFF, MAX_BACKOFF = 0.5, 8.0  # seconds between two tries

# Statuses after which the same request can be sent again.
RETRYABLE = (429, 500, 502, 503, 504)


class Engine:
    """A client with a platform token. Pass ``http`` to set a proxy, certificates or limits.

    Methods raise ``Refusal`` or ``UnreachableError``. ``timeout`` is in seconds, retries included.
    """

    def __init__(
        self,
        base_url: str,
        token: str,
        *,
        timeout: float = TIMEOUT,
        http: httpx.Client | None = None,
    ) -> None:
        self._base_url = base_url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"}
        self._timeout = timeout
        self._http = http or httpx.Client(timeout=RESPONSE_TIMEOUT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    # --- Desks ------------------------------------------------------------------------------------

    def card(self) -> Card | None:
        """The published card, or None if there is none."""
        published: Card | None = self._get(HOOK, {})["publishedCard"]
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
        given = {"ready": _digit(ready), "connected": _digit(connected), "signal": signal}
        query = {name: value for name, value in given.items() if value} | {"limit": str(limit)}
        after: str | None = ""
        while after is not None:
            page = self._get("/api/v1/desks", query | ({"after": after} if after else {}))
            yield from page["desks"]
            after = page["next"]

    def desk(self, user_id: str) -> Desk:
        """Returns one desk. Raises ``Refusal`` (``not_found``) if it does not exist."""
        desk: Desk = self._get(f"/api/v1/desks/{user_id}", {})
        return desk

    # --- Signals ----------------------------------------------------------------------------------

    def deploy(self, user_id: str, card: Card, *, nonce: str) -> Accepted:
        """Sends a signal to one desk, which must be ready."""
        body = {**_elected(card, nonce), "mode": "paper"}
        return self._signal(f"/api/v1/desks/{user_id}/signal", body)

    def fan_out(self, card: Card, *, nonce: str) -> Accepted:
        """Sends a signal to every desk that is ready."""
        return self._signal(HOOK, {**_elected(card, nonce), "fanout": True})

    # --- The feed ---------------------------------------------------------------------------------

    def tail(self) -> str:
        """Returns the cursor of the log's end."""
        return str(self._get("/api/v1/events", {"order": "desc", "limit": "1"})["next"])

    def page(self, after: str | None = None, *, kinds: Sequence[str] = (), wait: int = 0) -> Page:
        """Returns the events after a cursor, or from the beginning of the log.

        If there are none, the service waits up to ``wait`` seconds for one.
        """
        query: dict[str, str | list[str]] = {"after": after} if after else {}
        page: Page = self._get("/api/v1/events", query | {"kind": list(kinds), "wait": str(wait)})
        return page

    def follow(
        self, cursor: Path, *, kinds: Sequence[str] = (), from_beginning: bool = False
    ) -> Iterator[Event]:
        """Yields every event after the saved cursor, without end.

        If no cursor was saved, it starts at the end of the log, or at its beginning with
        ``from_beginning``. The cursor is saved after all events of a page were consumed. After a
        crash the last page is therefore repeated: to avoid acting twice, remember the position.
        Raises ``Refusal`` (``cursor_lost``) if the log was restored from a backup.
        """
        after: str | None = _read(cursor)
        if after is None and not from_beginning:
            _save(cursor, after := self.tail())
        backoff = _backoff()
        while True:
            started = time.monotonic()
            page = self.page(after, kinds=kinds, wait=MAX_WAIT)
            if page["events"] or page["more"] or time.monotonic() - started > MAX_WAIT / 2:
                backoff = _backoff()
            else:  # the service has no free slot for a waiting reader: do not poll it at once
                time.sleep(next(backoff))
            yield from page["events"]
            if page["next"] != after:
                _save(cursor, after := page["next"])

    # --- Requests ---------------------------------------------------------------------------------

    def _get(self, path: str, query: dict[str, Any]) -> Any:
        return _result(self._request("GET", path, params=query))

    def _signal(self, path: str, body: dict[str, Any]) -> Accepted:
        response = self._request("POST", path, json=body)
        try:
            return _accepted(_result(response), repeated=False)
        except Refusal as refusal:
            if not refusal.problem.get("identical"):
                raise
            return _accepted(refusal.problem["first"], repeated=True)

    def _request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Sends a request, and retries until it gets a final response or the timeout is over."""
        deadline = time.monotonic() + self._timeout
        for pause in _backoff():
            response = self._send(method, path, **options)
            if response is not None and response.status_code not in RETRYABLE:
                break
            delay = _retry_after(response) or pause
            if time.monotonic() + delay > deadline:
                break
            time.sleep(delay)
        if response is None:
            raise UnreachableError("The service did not respond. It is safe to repeat the call.")
        return response

    def _send(self, method: str, path: str, **options: Any) -> httpx.Response | None:
        """Sends a request once. Returns None if it is unknown whether it arrived."""
        url = self._base_url + path
        try:
            return self._http.request(method, url, headers=self._headers, **options)
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


def _accepted(data: dict[str, Any], *, repeated: bool) -> Accepted:
    return Accepted(data["signal"], data["outcome"], data["matched"], data["filled"], repeated)


def _result(response: httpx.Response) -> Any:
    """Returns the JSON of a response. Raises ``Refusal``."""
    if response.is_success:
        return response.json()
    is_json = "json" in response.headers.get("Content-Type", "")
    raise Refusal(response.status_code, response.json() if is_json else {})


def _backoff() -> Iterator[float]:
    """Yields the delays between tries in seconds: exponential, bounded and with jitter."""
    upper = MIN_BACKOFF
    while True:
        yield random.uniform(upper / 2, upper)  # noqa: S311 - jitter, not a secret  # nosec B311
        upper = min(2 * upper, MAX_BACKOFF)


def _retry_after(response: httpx.Response | None) -> float | None:
    """Returns the seconds of the Retry-After header, or None if there is none."""
    value = response.headers.get("Retry-After", "") if response is not None else ""
    return float(value) if value.isdecimal() else None


def _digit(flag: bool | None) -> str | None:
    return None if flag is None else str(int(flag))


def _read(cursor: Path) -> str | None:
    return cursor.read_text().strip() if cursor.exists() else None


def _save(cursor: Path, text: str) -> None:
    """Replaces the file atomically, so that a crash leaves the old cursor or the new one."""
    fresh = cursor.with_name(f"{cursor.name}.new")
    with open(fresh, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(cursor)
