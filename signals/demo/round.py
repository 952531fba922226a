"""One round of requests over HTTP, as the engine and as a bot. Prints and checks each."""

import itertools
import json
import secrets
import time
from collections.abc import Callable

import httpx2

from events.json_schema import JsonObject
from signals.client import HOOK, Accepted, Card, ClientError, Engine
from signals.demo.webhook import Receiver, subscribe
from tokens.crypto import signing

OPPOSITE = {"long": "short", "short": "long"}
PAGE_SIZE = 3  # desks
TIMEOUT = 120  # seconds for one response, enough for a slow machine

EXPECTED_ERRORS = (httpx2.HTTPError, ClientError, ValueError, LookupError)

Print = Callable[[str], None]


class Round:
    """One round of the demonstration.

    ``seeded`` is the output of ``manage.py seed --json``. ``ready`` is the number of ready desks.
    ``delivers`` is whether a runner sends webhooks beside the server.
    """

    def __init__(
        self,
        base_url: str,
        seeded: JsonObject,
        ready: int,
        output: Print,
        *,
        delivers: bool = False,
    ) -> None:
        self._base_url, self._delivers = base_url, delivers
        self._http = httpx2.Client(
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
        """Plays the round, once. Returns whether every response was as expected."""
        try:
            with self._http:
                start = self._play_engine()
                self._play_automation()
                self._play_feed(start)
                if self._delivers:
                    self._play_webhook()
        except EXPECTED_ERRORS as error:
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
        """Pushes as a bot: accepted, repeated, with the wrong direction, ticker only."""
        bot, nonce = self._seeded["automation"], _nonce()
        pair, direction = bot["pair"], bot["direction"]
        self._announce("A bot pushes a signed signal.")
        sent = {"pair": pair, "direction": direction, "nonce": nonce}
        first = self._push(sent, expected=_filled(1))
        self._announce("It repeats the signal: refused, with the first outcome.")
        spent = {"code": "nonce_used", "identical": True, "first.signal.id": first["signal"]["id"]}
        self._push(sent, status=409, expected=spent)
        self._announce("It pushes the opposite of the elected direction: refused.")
        opposite = {**sent, "direction": OPPOSITE[direction], "nonce": _nonce()}
        mismatch = {"code": "direction_mismatch", "elected.direction": direction}
        self._push(opposite, status=422, expected=mismatch)
        self._announce("It pushes a ticker without pair and direction: refused.")
        ticker = {"ticker": pair.replace("/", ""), "nonce": _nonce()}
        self._push(ticker, status=422, expected={"code": "ticker_only"})

    def _play_feed(self, start: str) -> None:
        self._announce("The engine reads the feed from the saved cursor: each event appears once.")
        page = self._client.page(start)
        self._compare(
            {"events": [event["kind"] for event in page["events"]], "more": page["more"]},
            {"events": ["signal.filled"] * 3 + ["signal.refused"] * 2, "more": False},
        )

    def _play_webhook(self) -> None:
        with Receiver() as receiver:
            self._announce(
                "A user signs in and adds a webhook. A signed test arrives, is verified, and its "
                "answer proves that the user wants it."
            )
            receiver.secret = subscribe(self._base_url, self._seeded["user"], receiver.url)
            self._compare({"type": receiver.next()["type"]}, {"type": "subscription.test"})
            self._announce(
                "The engine deploys a signal to this desk: the event arrives, and is verified."
            )
            desk, card = self._seeded["desks"][0]["userId"], self._seeded["card"]
            deployed = self._client.deploy(desk, card, nonce=_nonce())
            event = receiver.next()
        self._compare(
            {"type": event["type"], "signal": event["data"]["signal"]["id"]},
            {"type": "signal.filled", "signal": deployed.signal["id"]},
        )

    def _push(self, sent: JsonObject, *, expected: JsonObject, status: int = 200) -> JsonObject:
        """Pushes a signal of the automation, signed with its secret. Returns the answer.

        ``expected`` has some members of it, by dotted names.
        """
        bot = self._seeded["automation"]
        body = {"botId": bot["botId"], "elected": True, "source": "tradingview", **sent}
        content, now = json.dumps(body, separators=(",", ":")).encode(), int(time.time())
        headers = {
            "Content-Type": "application/json",
            signing.TIMESTAMP_HEADER: str(now),
            signing.SIGNATURE_HEADER: signing.sign(bot["secret"], now, content),
        }
        response = self._http.post(HOOK, content=content, headers=headers)
        answer: JsonObject = response.json()
        actual = {name: _field(answer, name) for name in expected}
        self._compare({"status": response.status_code, **actual}, {"status": status, **expected})
        if "detail" in answer:
            self._print(f"     {answer['detail']}")
        return answer

    def _announce(self, title: str) -> None:
        self._steps += 1
        self._print(f"{self._steps:3}. {title}")

    def _print_request(self, request: httpx2.Request) -> None:
        path, body = request.url.raw_path.decode(), request.content.decode()
        self._print(f"     {request.method} {path} {body}".rstrip())

    def _compare(self, actual: JsonObject, expected: JsonObject) -> None:
        self._print(f"     {_format(actual)}")
        if actual != expected:
            self._report_fault(f"should be {_format(expected)}")

    def _report_fault(self, message: str) -> None:
        self._faults += 1
        self._print(f"     NOT AS EXPECTED: {message}")


def _field(answer: object, name: str) -> object:
    for part in name.split("."):
        answer = answer.get(part) if isinstance(answer, dict) else None
    return answer


def _format(fields: JsonObject) -> str:
    return ", ".join(f"{name}={json.dumps(value)}" for name, value in fields.items())


def _counts(accepted: Accepted) -> JsonObject:
    return {name: getattr(accepted, name) for name in ("outcome", "matched", "filled")}


def _filled(desks: int) -> JsonObject:
    return {"outcome": "filled", "matched": desks, "filled": desks}


def _nonce() -> str:
    return f"demo-{secrets.token_hex(6)}"
