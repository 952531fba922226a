"""The last steps of the demonstration: a customer adds a webhook, and hears of a signal by it."""

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from typing import Any

import httpx2

from signals.client import Engine, verify_webhook

ADDRESS = "127.0.0.1"
SIGN_IN = "/accounts/login/"
SUBSCRIPTIONS = "/api/v1/subscriptions"
TIMEOUT = 30  # seconds until a message has arrived, enough for a slow machine

# A message's body and headers.
Message = tuple[bytes, dict[str, str]]


class Receiver:
    """The customer's endpoint: takes every message, and gives them one by one."""

    def __init__(self, url: str, messages: "Queue[Message]") -> None:
        self.url, self._messages = url, messages

    def next(self, secret: str) -> dict[str, Any]:
        """The next message, verified. Raises ``Empty`` if none comes, and if it is forged."""
        body, headers = self._messages.get(timeout=TIMEOUT)
        return verify_webhook(body, headers, secret)


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Listens on this machine while the block runs."""
    messages: Queue[Message] = Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            messages.put((body, dict(self.headers)))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """The demonstration prints what it needs."""

    with ThreadingHTTPServer((ADDRESS, 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Receiver(f"http://{ADDRESS}:{server.server_port}/", messages)
        server.shutdown()


def subscribe(base_url: str, user: dict[str, str], url: str) -> dict[str, Any]:
    """Signs in as the user and adds a webhook. Returns the record with its secret."""
    with httpx2.Client(base_url=base_url, timeout=TIMEOUT, trust_env=False) as browser:
        browser.get(SIGN_IN)
        form = {
            "login": user["email"],
            "password": user["password"],
            "csrfmiddlewaretoken": browser.cookies["csrf"],
        }
        browser.post(SIGN_IN, data=form)  # without a session the next request is refused
        headers = {"X-CSRFToken": browser.cookies["csrf"]}
        wanted = {"url": url, "kinds": ["signal.filled"]}
        answer = browser.post(SUBSCRIPTIONS, json=wanted, headers=headers)
        answer.raise_for_status()
        record: dict[str, Any] = answer.json()
        return record


def play(
    base_url: str, seeded: dict[str, Any], engine: Engine, announce: Callable[[str], None]
) -> dict[str, Any]:
    """Plays the steps. Returns what arrived: the types of the messages, and the signal's id."""
    with receiving() as receiver:
        announce(
            "The customer signs in and adds a webhook. A signed test arrives, and is verified."
        )
        secret = subscribe(base_url, seeded["user"], receiver.url)["secret"]
        test = receiver.next(secret)
        announce("The engine deploys a signal to this desk: the event arrives, and is verified.")
        desk = seeded["desks"][0]["userId"]
        deployed = engine.deploy(desk, seeded["card"], nonce=f"webhook-{uuid.uuid4()}")
        event = receiver.next(secret)
    arrived = event["data"]["signal"]["id"] == deployed.signal["id"]
    return {"test": test["type"], "event": event["type"], "signal": arrived}
