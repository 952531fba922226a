"""A customer's webhook on this machine, for the last steps of the demonstration."""

from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx2

from events.json_schema import JsonObject
from signals.client import verify_webhook, webhook_answer

ADDRESS = "127.0.0.1"
SIGN_IN = "/accounts/login/"
SUBSCRIPTIONS = "/api/v1/subscriptions"
TIMEOUT = 120  # seconds until a message has arrived, enough for a slow machine


class Receiver(HTTPServer):
    """The customer's endpoint. A message that arrives waits until it is asked for."""

    timeout = TIMEOUT

    def __init__(self) -> None:
        super().__init__((ADDRESS, 0), _Endpoint)
        self.url = f"http://{ADDRESS}:{self.server_port}/"
        self.secret = ""
        self.messages: list[JsonObject] = []

    def next(self) -> JsonObject:
        """The next message, verified and answered. Raises ``LookupError`` if none comes."""
        self.handle_request()
        return self.messages.pop()


class _Endpoint(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        message = verify_webhook(body, dict(self.headers), self.server.secret)
        answer = webhook_answer(message, self.server.secret)
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)
        self.server.messages.append(message)

    def log_message(self, *_: object) -> None:
        """The demonstration prints what it needs."""


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
