"""One round over real HTTP, as the engine and as an automation: each step is told and checked."""

import itertools
import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx

from desks.models.card import Direction
from signals.client import HOOK, Accepted, Card, ClientError, Engine
from tokens import signing

PAGE = 3  # desks
PATIENCE = 30  # seconds for one answer, on the slowest machine

Answer = dict[str, Any]
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A request and how its outcome should be: the status, and fields by their dotted names.

    It is a POST where it has a body.
    """

    title: str
    path: str
    should: Answer
    status: int = 200
    body: Answer | None = None
    token: str | None = None
    secret: str | None = None

    @property
    def method(self) -> str:
        return "GET" if self.body is None else "POST"

    def content(self) -> bytes:
        """The body as it is sent, and signed."""
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
    """The round, with what ``manage.py seed --json`` printed; ``ready`` desks are ready."""

    def __init__(self, base_url: str, seeded: Answer, ready: int, tell: Tell) -> None:
        self._http = httpx.Client(
            base_url=base_url,
            timeout=PATIENCE,
            trust_env=False,  # no proxy stands between this machine and itself
            event_hooks={"request": [self._sends]},
        )
        self._client = Engine(base_url, seeded["platformToken"], patience=0, http=self._http)
        self._seeded = seeded
        self._ready = ready
        self._tell = tell
        self._steps = 0
        self._faults = 0

    def play(self) -> bool:
        """Plays all of it; true if everything went as it should."""
        try:
            start = self._engine()
            self._automation()
            self._customer()
            self._feed(start)
        except (httpx.HTTPError, ClientError, ValueError, LookupError) as fault:
            self._fault(f"the round ends here, {type(fault).__name__}: {fault}")
        return not self._faults

    def _engine(self) -> str:
        """Pulls, deploys and fans out; returns the cursor of where the log ended before that."""
        desks = [desk["userId"] for desk in self._seeded["desks"][:PAGE]]
        card: Card = self._seeded["card"]
        self._begin("The engine notes where the log ends.")
        start = self._client.tail()
        self._begin("It pulls the desks that are ready, the first three.")
        pulled = itertools.islice(self._client.desks(ready=True, limit=PAGE), PAGE)
        self._compare({"desks": [desk["userId"] for desk in pulled]}, {"desks": desks})
        self._begin("It deploys to one desk.")
        deployed = self._client.deploy(desks[0], card, nonce=_nonce())
        self._compare(_counts(deployed), _filled(1))
        self._begin("It fans out to all that are ready.")
        fanned_out = self._client.fan_out(card, nonce=_nonce())
        self._compare(_counts(fanned_out), _filled(self._ready))
        return start

    def _automation(self) -> None:
        """A chart's alert: signed, sent again, against the election, and with a ticker only."""
        bot = self._seeded["automation"]
        whose = {"botId": bot["botId"], "elected": True, "source": "tradingview"}
        body = {**whose, "pair": bot["pair"], "direction": bot["direction"], "nonce": _nonce()}
        signed = {"path": HOOK, "secret": bot["secret"]}
        first = self._take(
            Step(title="An automation pushes, signed.", body=body, should=_filled(1), **signed)
        )
        self._take(
            Step(
                title="It sends the same again: spent, and told what became of the first.",
                body=body,
                status=409,
                should={
                    "code": "nonce_used",
                    "identical": True,
                    "first.signal.id": first["signal"]["id"],
                },
                **signed,
            )
        )
        self._take(
            Step(
                title="It pushes against the direction that its owner elected.",
                body={**body, "direction": _other(bot["direction"]), "nonce": _nonce()},
                status=422,
                should={"code": "direction_mismatch", "elected.direction": bot["direction"]},
                **signed,
            )
        )
        self._take(
            Step(
                title="It pushes a ticker only.",
                body={**whose, "ticker": bot["pair"].replace("/", ""), "nonce": _nonce()},
                status=422,
                should={"code": "ticker_only"},
                **signed,
            )
        )

    def _customer(self) -> None:
        own = self._seeded["desks"][0]
        self._take(
            Step(
                title="The customer's own token shows the desk.",
                path="/api/v1/me",
                token=own["deskToken"],
                should={"userId": own["userId"], "connected": True, "ready": True},
            )
        )

    def _feed(self, start: str) -> None:
        self._begin("The engine reads on from where the log ended: everything stands there once.")
        page = self._client.page(start)
        self._compare(
            {"events": [event["kind"] for event in page["events"]], "more": page["more"]},
            {"events": ["signal.filled"] * 3 + ["signal.refused"] * 3, "more": False},
        )

    def _take(self, step: Step) -> Answer:
        """Sends the request, and compares its outcome with how it should be."""
        self._begin(step.title)
        response = self._http.request(
            step.method, step.path, content=step.content(), headers=step.headers()
        )
        answer: Answer = response.json()
        found = {name: _field(answer, name) for name in step.should}
        self._compare(
            {"status": response.status_code, **found}, {"status": step.status, **step.should}
        )
        if "detail" in answer:
            self._tell(f"     {answer['detail']}")
        return answer

    def _begin(self, title: str) -> None:
        self._steps += 1
        self._tell(f"{self._steps:3}. {title}")

    def _sends(self, request: httpx.Request) -> None:
        path, body = request.url.raw_path.decode(), request.content.decode()
        self._tell(f"     {request.method} {path} {body}".rstrip())

    def _compare(self, found: Answer, should: Answer) -> None:
        self._tell(f"     {_written(found)}")
        if found != should:
            self._fault(_written(should))

    def _fault(self, said: str) -> None:
        self._faults += 1
        self._tell(f"     NOT AS IT SHOULD BE: {said}")


def _field(answer: Any, name: str) -> Any:
    for part in name.split("."):
        answer = answer.get(part) if isinstance(answer, dict) else None
    return answer


def _written(fields: Answer) -> str:
    return ", ".join(f"{name}={json.dumps(value)}" for name, value in fields.items())


def _counts(accepted: Accepted) -> Answer:
    return {name: getattr(accepted, name) for name in ("outcome", "matched", "filled")}


def _filled(desks: int) -> Answer:
    return {"outcome": "filled", "matched": desks, "filled": desks}


def _other(direction: str) -> str:
    return next(other for other in Direction.values if other != direction)


def _nonce() -> str:
    return f"demo-{secrets.token_hex(6)}"
