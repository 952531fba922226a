"""The last steps of the demonstration: a customer adds a webhook, and hears of a signal by it."""

import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from typing import Any

import httpx2

from signals.client import Engine, verify_webhook, webhook_answer

ADDRESS = "127.0.0.1"
SIGN_IN = "/accounts/login/"
SUBSCRIPTIONS = "/api/v1/subscriptions"
TIMEOUT = 30  # seconds until a message has arrived, enough for a slow machine


@dataclass(frozen=True, slots=True)
class Receiver:
    """The customer's endpoint: it answers every message that it can verify.

    The test may arrive before the customer has the secret: its answer waits for that.
    """

    url: str
    secret: Future[str]
    messages: Queue[dict[str, Any]]

    def next(self) -> dict[str, Any]:
        """The next message. Raises ``Empty`` if none comes."""
        return self.messages.get(timeout=TIMEOUT)


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Listens on this machine while the block runs."""
    secret: Future[str] = Future()
    messages: Queue[dict[str, Any]] = Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            message = verify_webhook(body, dict(self.headers), secret.result(TIMEOUT))
            messages.put(message)
            answer = webhook_answer(message, secret.result())
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            """The demonstration prints what it needs."""

    with ThreadingHTTPServer((ADDRESS, 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Receiver(f"http://{ADDRESS}:{server.server_port}/", secret, messages)
        server.shutdown()


def subscribe(base_url: str, user: dict[str, str], url: str) -> str:
    """Signs in as the user and adds a webhook. Returns its secret."""
    with httpx2.Client(base_url=base_url, timeout=TIMEOUT, trust_env=False) as browser:
        browser.get(SIGN_IN)
        form = {
            "login": user["email"],
            "password": user["password"],
            "csrfmiddlewaretoken": browser.cookies["csrf"],
        }
        browser.post(SIGN_IN, data=form)  # without a session the next request is refused
        headers = {"X-CSRFToken": browser.cookies["csrf"]}
        asked = {"url": url, "kinds": ["signal.filled"]}
        answer = browser.post(SUBSCRIPTIONS, json=asked, headers=headers)
        answer.raise_for_status()
        return str(answer.json()["secret"])


def play(
    base_url: str, seeded: dict[str, Any], engine: Engine, announce: Callable[[str], None]
) -> dict[str, Any]:
    """Plays the steps. Returns what arrived: the types of the messages, and the signal's id."""
    with receiving() as receiver:
        announce(
            "The customer signs in and adds a webhook. A signed test arrives, is verified, and its "
            "answer proves that the customer wants it."
        )
        receiver.secret.set_result(subscribe(base_url, seeded["user"], receiver.url))
        test = receiver.next()
        announce("The engine deploys a signal to this desk: the event arrives, and is verified.")
        desk = seeded["desks"][0]["userId"]
        deployed = engine.deploy(desk, seeded["card"], nonce=f"webhook-{uuid.uuid4()}")
        event = receiver.next()
    arrived = event["data"]["signal"]["id"] == deployed.signal["id"]
    return {"test": test["type"], "event": event["type"], "signal": arrived}
