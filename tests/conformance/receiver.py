"""An endpoint for webhooks, written from the contract alone."""

import hashlib
import hmac
import json
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PATIENCE = 60  # seconds for a message, or for the secret


class Receiver:
    """Verifies each message, answers tests with the proof, and keeps the other ``messages``.

    The first test may come before the answer that has the secret, so it waits for ``learn``.
    """

    def __init__(self, compare: Callable[[dict[str, str], bytes], None], url: str) -> None:
        self.url, self.messages = url, list[dict[str, Any]]()
        self._compare, self._is_known, self._key = compare, threading.Event(), b""

    def learn(self, secret: str) -> None:
        self._key = b64decode(secret.removeprefix("whsec_"))
        self._is_known.set()

    def take(self, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        """The status and the body of the answer to a message."""
        self._is_known.wait(PATIENCE)
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        digest = hmac.new(self._key, signed, hashlib.sha256).digest()
        if f"v1,{b64encode(digest).decode()}" not in headers["webhook-signature"].split(" "):
            return 400, b""
        self._compare(headers, body)
        message = json.loads(body)
        if message["type"] != "subscription.test":
            self.messages.append(message)
            return 204, b""
        challenge = message["data"]["challenge"].encode()
        proof = hmac.new(self._key, challenge, hashlib.sha256).hexdigest()
        return 200, json.dumps({"challenge": proof}).encode()


@contextmanager
def receiving(compare: Callable[[dict[str, str], bytes], None]) -> Iterator[Receiver]:
    """Listens at a free port of this machine until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            body = self.rfile.read(int(headers["content-length"]))
            status, answer = receiver.take(headers, body)
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver = Receiver(compare, f"http://127.0.0.1:{server.server_port}/")
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield receiver
        finally:
            server.shutdown()
