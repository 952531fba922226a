"""One round of requests over HTTP, as the engine and as an automation. Prints and checks each."""

import itertools
import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx

from desks.choices import Direction
from signals.client import HOOK, Accepted, Card, ClientError, Engine
from tokens.crypto import signing

PAGE_SIZE = 3  # desks
TIMEOUT = 30  # seconds for one response, enough for a slow machine

JsonObject = dict[str, Any]
Print = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A request and its expected response: the status, and fields by their dotted names.

    A step with a body is a POST, otherwise a GET.
    """

    title: str
    path: str
    expected: JsonObject
    status: int = 200
    body: JsonObject | None = None
    token: str | None = None
    secret: str | None = None

    @property
    def method(self) -> str:
        return "GET" if self.body is None else "POST"

    def content(self) -> bytes:
        """The bytes of the body, which are sent and signed."""
        return b"" if self.body is None else json.dumps(self.body, separators=(",", ":")).encode()

    def headers(self) -> dict[str, str]:
        headers = {"Content-Type": "application/json"} if self.body else {}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        if self.secret:
            now = int(time.time())
            headers[signing.TIMESTAMP_HEADER] = str(now)
            headers[signing.SIGNATURE_HEADER] = signing.sign(self.secret, now, self.content())
        return headers


class Round:
    """One round of the demonstration.

    ``seeded`` is the output of ``manage.py seed --json``. ``ready`` is the number of ready desks.
    """

    def __init__(self, base_url: str, seeded: JsonObject, ready: int, output: Print) -> None:
        self._http = httpx.Client(
            base_url=base_url,
            timeout=TIMEOUT,
            trust_env=False,  # ignore proxies of the environment: the server is local
            event_hooks={"request": [self._print_request]},
        )
        self._client = Engine(base_url, seeded["platformToken"], timeout=0, http=self._http)
        self._seeded = seeded
        self._ready = ready
        self._print = output
        self._steps = 0
        self._faults = 0

    def play(self) -> bool:
        """Plays the round. Returns whether every response was as expected."""
        try:
            start = self._play_engine()
            self._play_automation()
            self._play_customer()
            self._play_feed(start)
        except (httpx.HTTPError, ClientError, ValueError, LookupError) as error:
            self._report_fault(f"the round stops here, {type(error).__name__}: {error}")
        return not self._faults

    def _play_engine(self) -> str:
        """Pulls desks, deploys and fans out. Returns the cursor of the log's end before that."""
        desks = [desk["userId"] for desk in self._seeded["desks"][:PAGE_SIZE]]
        card: Card = self._seeded["card"]
        self._announce("The engine saves the cursor of the log's end.")
        start = self._client.tail()
        self._announce("It pulls the first three ready desks.")
        pulled = itertools.islice(self._client.desks(ready=True, limit=PAGE_SIZE), PAGE_SIZE)
        self._compare({"desks": [desk["userId"] for desk in pulled]}, {"desks": desks})
        self._announce("It deploys a signal to one desk.")
        deployed = self._client.deploy(desks[0], card, nonce=_nonce())
        self._compare(_counts(deployed), _filled(1))
        self._announce("It fans a signal out to every ready desk.")
        fanned_out = self._client.fan_out(card, nonce=_nonce())
        self._compare(_counts(fanned_out), _filled(self._ready))
        return start

    def _play_automation(self) -> None:
        """Pushes as an automation: accepted, repeated, with the wrong direction, ticker only."""
        bot = self._seeded["automation"]
        common = {"botId": bot["botId"], "elected": True, "source": "tradingview"}
        body = {**common, "pair": bot["pair"], "direction": bot["direction"], "nonce": _nonce()}
        signed = {"path": HOOK, "secret": bot["secret"]}
        first = self._run(
            Step(
                title="An automation pushes a signed signal.",
                body=body,
                expected=_filled(1),
                **signed,
            )
        )
        self._run(
            Step(
                title="It repeats the signal: refused, with the first outcome.",
                body=body,
                status=409,
                expected={
                    "code": "nonce_used",
                    "identical": True,
                    "first.signal.id": first["signal"]["id"],
                },
                **signed,
            )
        )
        self._run(
            Step(
                title="It pushes the opposite of the elected direction: refused.",
                body={**body, "direction": _other(bot["direction"]), "nonce": _nonce()},
                status=422,
                expected={"code": "direction_mismatch", "elected.direction": bot["direction"]},
                **signed,
            )
        )
        self._run(
            Step(
                title="It pushes a ticker without pair and direction: refused.",
                body={**common, "ticker": bot["pair"].replace("/", ""), "nonce": _nonce()},
                status=422,
                expected={"code": "ticker_only"},
                **signed,
            )
        )

    def _play_customer(self) -> None:
        first_desk = self._seeded["desks"][0]
        self._run(
            Step(
                title="The customer reads the desk with its own token.",
                path="/api/v1/me",
                token=first_desk["deskToken"],
                expected={"userId": first_desk["userId"], "connected": True, "ready": True},
            )
        )

    def _play_feed(self, start: str) -> None:
        self._announce("The engine reads the feed from the saved cursor: each event appears once.")
        page = self._client.page(start)
        self._compare(
            {"events": [event["kind"] for event in page["events"]], "more": page["more"]},
            {"events": ["signal.filled"] * 3 + ["signal.refused"] * 3, "more": False},
        )

    def _run(self, step: Step) -> JsonObject:
        """Sends the request and compares the response with the expected one."""
        self._announce(step.title)
        response = self._http.request(
            step.method, step.path, content=step.content(), headers=step.headers()
        )
        answer: JsonObject = response.json()
        actual = {name: _field(answer, name) for name in step.expected}
        self._compare(
            {"status": response.status_code, **actual}, {"status": step.status, **step.expected}
        )
        if "detail" in answer:
            self._print(f"     {answer['detail']}")
        return answer

    def _announce(self, title: str) -> None:
        self._steps += 1
        self._print(f"{self._steps:3}. {title}")

    def _print_request(self, request: httpx.Request) -> None:
        path, body = request.url.raw_path.decode(), request.content.decode()
        self._print(f"     {request.method} {path} {body}".rstrip())

    def _compare(self, actual: JsonObject, expected: JsonObject) -> None:
        self._print(f"     {_format(actual)}")
        if actual != expected:
            self._report_fault(f"should be {_format(expected)}")

    def _report_fault(self, message: str) -> None:
        self._faults += 1
        self._print(f"     NOT AS EXPECTED: {message}")


def _field(answer: Any, name: str) -> Any:
    for part in name.split("."):
        answer = answer.get(part) if isinstance(answer, dict) else None
    return answer


def _format(fields: JsonObject) -> str:
    return ", ".join(f"{name}={json.dumps(value)}" for name, value in fields.items())


def _counts(accepted: Accepted) -> JsonObject:
    return {name: getattr(accepted, name) for name in ("outcome", "matched", "filled")}


def _filled(desks: int) -> JsonObject:
    return {"outcome": "filled", "matched": desks, "filled": desks}


def _other(direction: str) -> str:
    return next(other for other in Direction.values() if other != direction)


def _nonce() -> str:
    return f"demo-{secrets.token_hex(6)}"
