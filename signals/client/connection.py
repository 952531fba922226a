"""Requests to the service, with retries."""

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any

import httpx2

from .data import JsonObject, Refusal, UnreachableError

MAX_WAIT = 25  # seconds, the longest that the service waits for events
RESPONSE_TIMEOUT = MAX_WAIT + 10.0  # seconds for one response
SILENCE_TIMEOUT = 40.0  # seconds without a byte of a stream, which has a heartbeat every 15 s
MIN_BACKOFF, MAX_BACKOFF = 0.5, 8.0  # seconds between two attempts

# Statuses after which the same request can be sent again.
RETRYABLE = (429, 500, 502, 503, 504)

# Parameters by their names: texts, numbers, flags, times or lists. One that is None is left out.
Query = Mapping[str, object]


class Connection:
    """The service's address and a token. ``timeout`` is in seconds, retries included.

    Methods raise ``Refusal`` or ``UnreachableError``.
    """

    def __init__(
        self, base_url: str, token: str, timeout: float, http: httpx2.Client | None
    ) -> None:
        self._base_url = base_url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"}
        self._timeout = timeout
        self._http = http or httpx2.Client(timeout=RESPONSE_TIMEOUT)

    def close(self) -> None:
        self._http.close()

    def get(self, path: str, query: Query) -> Any:
        """Returns the JSON of a GET."""
        return self._result("GET", path, params=_parameters(query))

    def post(self, path: str, body: JsonObject) -> Any:
        """Returns the JSON of a POST. It may arrive several times, so it must be safe to repeat."""
        return self._result("POST", path, json=body)

    def stream(
        self, path: str, query: Query, last_event_id: str
    ) -> AbstractContextManager[httpx2.EventSource]:
        """Opens a stream of server-sent events, without retries.

        Opening or reading it raises ``httpx2.TransportError`` if it is cut, or silent for too long.
        Reading a response that is no stream raises it too.
        """
        headers = {**self._headers, "Last-Event-ID": last_event_id}
        params = _parameters(query)
        return self._http.sse(
            self._base_url + path, params=params, headers=headers, timeout=SILENCE_TIMEOUT
        )

    def _result(self, method: str, path: str, **options: Any) -> Any:
        response = self._request(method, path, **options)
        if response.is_success:
            return response.json()
        is_json = "json" in response.headers.get("Content-Type", "")
        raise Refusal(response.status_code, response.json() if is_json else {})

    def _request(self, method: str, path: str, **options: Any) -> httpx2.Response:
        """Sends a request, and retries until it gets a final response or the timeout is over."""
        deadline = time.monotonic() + self._timeout
        for pause in backoff():
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

    def _send(self, method: str, path: str, **options: Any) -> httpx2.Response | None:
        """Sends a request once. Returns None if it is unknown whether it arrived."""
        url = self._base_url + path
        try:
            return self._http.request(method, url, headers=self._headers, **options)
        except httpx2.TransportError:
            return None


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


def _retry_after(response: httpx2.Response | None) -> float | None:
    """Returns the seconds of the Retry-After header, or None if there is none."""
    value = response.headers.get("Retry-After", "") if response is not None else ""
    return float(value) if value.isdecimal() else None
