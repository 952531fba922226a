#!/usr/bin/env python3
"""Signs the alerts of a chart platform, which cannot sign, and forwards them.

    alert -> this relay on your own machine -> the service's hook

One file, nothing to install: Python 3.8 or newer. The secret stays on your machine.

RELAY_SECRET       The bot's signing secret. Separate several secrets with commas (several bots, or
                   an old and a new secret): the relay signs with each. At most 5.
RELAY_HOOK         The address of the hook from the bot's page: https://.../api/hooks/signal
RELAY_PATH         The secret path that receives alerts: a slash and 22 or more of A-Za-z0-9_-
RELAY_LISTEN       The address and port to listen on. Default: 127.0.0.1:8080
RELAY_SENDERS      The addresses that may send alerts. Default: the four addresses of TradingView
RELAY_PROXY        The address of the proxy in front, such as 127.0.0.1. The relay then accepts
                   connections only from the proxy and trusts the last entry of X-Forwarded-For.
RELAY_CERTIFICATE  The name (CN) that the sender's certificate must have, "TradingView Webhooks".
                   The proxy passes X-Client-Verify (SUCCESS) and X-Client-DN. Needs RELAY_PROXY.

The platform sends only to the ports 80 and 443. Put a web server with TLS in front, such as nginx:

    ssl_client_certificate authorities.pem;      # the issuers of the platform's certificate
    ssl_verify_client optional;
    location = /the-path {
        proxy_pass http://127.0.0.1:8080;
        proxy_set_header X-Forwarded-For $remote_addr;
        proxy_set_header X-Client-Verify $ssl_client_verify;
        proxy_set_header X-Client-DN $ssl_client_s_dn;
        access_log off;                          # the path is a secret
    }

The relay signs the exact bytes that it received. If a body has no nonce, the relay adds a hash of
the body as nonce, so that a retry of an alert is the same signal. Two alerts with the same text
are then the same signal too: put {{timenow}} into the message to tell them apart. The relay
returns the hook's status and body. The platform retries after a 5xx other than 504, so the relay
returns a 504 as 503. The relay stores nothing and logs no path, body or secret.

The relay checks the path, the sender and the headers before it reads the body. It closes every
connection after 3 seconds. At most 64 connections are open at once. When another one arrives, the
relay closes the oldest connection that has not yet sent the right path from an allowed sender.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import os
import re
import secrets
import signal
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from queue import Empty, Queue
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

TRADINGVIEW = "52.89.214.238,34.212.75.30,54.218.53.128,52.32.178.7"
THIS_MACHINE = ("127.0.0.1", "::1", "localhost")

ANSWER_TIMEOUT = 2.5  # seconds after the connection was accepted
CONNECTION_TIMEOUT = 3.0  # seconds after it was accepted; the platform gives up then, too
POLL_INTERVAL = 0.1  # seconds between two searches for connections to close
MAX_BODY = 64 * 1024  # bytes, the limit of the hook
MAX_ANSWER = 1024 * 1024  # bytes
MAX_CONCURRENT = 32  # requests to the hook, one thread each
MAX_CONNECTIONS = 64  # connections of senders, one thread each
MAX_SIGNATURES = 5

JSON_SPACE = b" \t\r\n"
PROBLEM = "application/problem+json"


class Answer(NamedTuple):
    """The response to the platform."""

    status: int
    body: bytes
    content_type: str


class Settings(NamedTuple):
    """The settings from the environment."""

    secrets: list[str]
    hook: SplitResult
    path: str
    listen: tuple[str, int]
    senders: list[str]
    proxy: str
    certificate: str


# --- The environment ------------------------------------------------------------------------------


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Reads the settings. Raises ValueError with a sentence that never contains a secret."""
    settings = Settings(
        secrets=_list(environment.get("RELAY_SECRET", "")),
        hook=urlsplit(environment.get("RELAY_HOOK", "")),
        path=environment.get("RELAY_PATH", ""),
        listen=_address(environment.get("RELAY_LISTEN", "127.0.0.1:8080")),
        senders=_list(environment.get("RELAY_SENDERS", TRADINGVIEW)),
        proxy=environment.get("RELAY_PROXY", ""),
        certificate=environment.get("RELAY_CERTIFICATE", ""),
    )
    _check(settings)
    return settings


def _check(settings: Settings) -> None:
    valid = [re.fullmatch("svc_sign_[0-9A-Za-z]{49}", text) for text in settings.secrets]
    if not valid or not all(valid) or len(valid) > MAX_SIGNATURES:
        raise ValueError("RELAY_SECRET must be the complete signing secret from the bot's page.")
    hook = settings.hook
    if not hook.hostname or hook.scheme not in ("http", "https"):
        raise ValueError("RELAY_HOOK must be the address of the hook from the bot's page.")
    if hook.scheme == "http" and hook.hostname not in THIS_MACHINE:
        raise ValueError("RELAY_HOOK must use https: plain HTTP can be modified on the way.")
    if not re.fullmatch("/[A-Za-z0-9_-]{22,}", settings.path):
        path = "/" + secrets.token_urlsafe(24)
        raise ValueError(f"RELAY_PATH must be a path that nobody can guess. A random one: {path}")
    if settings.certificate and not settings.proxy:
        raise ValueError("RELAY_CERTIFICATE needs RELAY_PROXY: the proxy checks the certificate.")


def _list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise ValueError("RELAY_LISTEN must be an address and a port, such as 127.0.0.1:8080.")
    return host.strip("[]"), int(port)


# --- The body -------------------------------------------------------------------------------------


def with_nonce(raw: bytes) -> bytes:
    """Adds a nonce as the last member of a JSON object that has none. Changes no other byte.

    Returns anything else unchanged: the hook's refusal says what is wrong.
    """
    try:
        body = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError):
        return raw
    if not isinstance(body, dict) or "nonce" in body:
        return raw
    nonce = "relay-" + hashlib.sha256(raw).hexdigest()[:32]
    before = raw.rstrip(JSON_SPACE)[:-1]
    comma = b"," if body else b""
    return before + comma + b'"nonce":"' + nonce.encode() + b'"}'


def signing_headers(keys: list[str], body: bytes, now: int) -> dict[str, str]:
    """Returns the headers that sign the body at a Unix time, once per key."""
    message = str(now).encode() + b"." + body
    all_v1 = ["v1=" + hmac.new(key.encode(), message, hashlib.sha256).hexdigest() for key in keys]
    return {"X-SVC-Timestamp": str(now), "X-SVC-Signature": ",".join(all_v1)}


# --- Requests to the hook -------------------------------------------------------------------------


class Forwarding:
    """One request to the hook in its own thread, so that a slow hook cannot delay the answer.

    Calls ``ended`` when the thread ends, which can be after the answer was returned.
    """

    def __init__(
        self, settings: Settings, body: bytes, request_id: str, ended: Callable[[], None]
    ) -> None:
        self._settings, self._body, self._request_id = settings, body, request_id
        self._ended = ended
        self._done: Queue[Answer] = Queue()
        self._connection: http.client.HTTPConnection | None = None

    def answer(self, until: float) -> Answer:
        """Returns the hook's answer, or the relay's own if none came by ``until`` (monotonic)."""
        threading.Thread(target=self._send, args=(until,), daemon=True).start()
        try:
            return self._done.get(timeout=max(0.01, until - time.monotonic()))
        except Empty:
            self._disconnect()
            return too_slow()

    def _send(self, until: float) -> None:
        try:
            self._done.put(self._ask(max(0.01, until - time.monotonic())))
        except TimeoutError:
            self._done.put(too_slow())
        except (OSError, http.client.HTTPException) as fault:
            sentence = f"Cannot reach the hook ({type(fault).__name__}). Send the alert again."
            self._done.put(own_answer(502, "hook_away", sentence))
        finally:
            self._ended()

    def _ask(self, seconds: float) -> Answer:
        hook = self._settings.hook
        kind = http.client.HTTPSConnection if hook.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(str(hook.hostname), hook.port, timeout=seconds)
        headers = {
            "Content-Type": "application/json",
            "X-Request-Id": self._request_id,
            **signing_headers(self._settings.secrets, self._body, int(time.time())),
        }
        try:
            self._connection.request("POST", hook.path, self._body, headers)
            answer = self._connection.getresponse()
            status = 503 if answer.status == 504 else answer.status
            content_type = answer.getheader("Content-Type") or "text/plain"
            return Answer(status, answer.read(MAX_ANSWER), content_type)
        finally:
            self._connection.close()

    def _disconnect(self) -> None:
        """Closes the connection to the hook, which ends the abandoned thread."""
        if self._connection and self._connection.sock:
            shut_down(self._connection.sock)


def shut_down(connection: socket.socket) -> None:
    """Shuts a connection down. A thread that reads from or writes to it fails at once."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def too_slow() -> Answer:
    return own_answer(503, "hook_slow", "The hook did not answer in time. Send the alert again.")


def own_answer(status: int, code: str, detail: str) -> Answer:
    """Returns a problem response of the relay itself."""
    problem = {"title": "Answer of the relay", "status": status, "code": code, "detail": detail}
    return Answer(status, json.dumps(problem).encode(), PROBLEM)


# --- Alerts ---------------------------------------------------------------------------------------


class Relay(socketserver.ThreadingMixIn, HTTPServer):
    """The server. Closes connections that come neither from a sender nor from the proxy, unread.

    Every other connection has its own thread and a deadline.
    """

    daemon_threads = False  # on shutdown, the requests in progress finish
    timeout = POLL_INTERVAL
    request_queue_size = 128

    def __init__(self, settings: Settings) -> None:
        if ":" in settings.listen[0]:
            self.address_family = socket.AF_INET6
        self.settings = settings
        self.stopped = False
        self.slots = threading.BoundedSemaphore(MAX_CONCURRENT)
        self.threads = threading.BoundedSemaphore(MAX_CONNECTIONS)
        # The deadline of each connection, oldest connection first.
        self.unverified: dict[socket.socket, float] = {}
        self.trusted: dict[socket.socket, float] = {}  # sent the right path from an allowed sender
        super().__init__(settings.listen, Alert)
        threading.Thread(target=self._close_expired, daemon=True).start()

    def stop(self, *_: Any) -> None:
        """Handles a signal. It only sets a flag: to start a thread here can deadlock."""
        self.stopped = True

    def serve_until_stopped(self) -> None:
        while not self.stopped:
            self.handle_request()

    def verify_request(self, request: Any, client_address: Any) -> bool:
        peer, proxy = plain(client_address[0]), self.settings.proxy
        if peer in ([proxy] if proxy else self.settings.senders):
            return True
        log(
            f"closed the connection of {peer}: not in {'RELAY_PROXY' if proxy else 'RELAY_SENDERS'}"
        )
        return False

    def process_request(self, request: Any, client_address: Any) -> None:
        """Gives the connection a thread, if necessary that of the oldest unverified one."""
        if self.threads.acquire(blocking=False) or self._take_thread_of_oldest():
            self.unverified[request] = time.monotonic() + CONNECTION_TIMEOUT
            super().process_request(request, client_address)
        else:
            log("closed a connection: too many connections")
            self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        if self.unverified.pop(request, None) or self.trusted.pop(request, None):
            self.threads.release()

    def trust(self, connection: socket.socket) -> None:
        """Marks a connection as trusted, so that no other connection takes its thread."""
        self.trusted[connection] = self.unverified.pop(connection)

    def _take_thread_of_oldest(self) -> bool:
        for oldest in self.unverified.copy():
            shut_down(oldest)
            return self.threads.acquire(timeout=POLL_INTERVAL)
        return False

    def _close_expired(self) -> None:
        while True:
            time.sleep(POLL_INTERVAL)
            now = time.monotonic()
            for connection, until in {**self.unverified, **self.trusted}.items():
                if now >= until:
                    shut_down(connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        log(f"a connection failed ({getattr(sys.exc_info()[0], '__name__', 'unknown')})")


class Alert(BaseHTTPRequestHandler):
    """Handles one alert: checks the sender and path, signs, forwards and answers it."""

    server: Relay
    timeout = CONNECTION_TIMEOUT

    def setup(self) -> None:
        self.until = time.monotonic() + ANSWER_TIMEOUT
        super().setup()

    def do_POST(self) -> None:
        request_id = secrets.token_hex(16)
        refusal = self._refusal()
        answer = refusal or self._answer(request_id)
        log(f"{summary(answer)} (request {request_id})")
        self._give(answer)
        if refusal:
            self._drain()

    def _refusal(self) -> Answer | None:
        """Returns the refusal of a request by its path and headers, None if it is accepted."""
        settings = self.server.settings
        if not hmac.compare_digest(self.path.encode("latin-1"), settings.path.encode()):
            return own_answer(404, "no_such_path", "The webhook URL does not end with RELAY_PATH.")
        sender = self._sender()
        if sender not in settings.senders:
            return own_answer(
                403, "sender_unknown", f"{printable(sender)} is not in RELAY_SENDERS."
            )
        if settings.certificate and not self._has_certificate(settings.certificate):
            return own_answer(
                403, "certificate_wrong", "The client certificate does not match RELAY_CERTIFICATE."
            )
        length = self.headers.get("Content-Length") or ""
        if not re.fullmatch("[0-9]{1,9}", length) or self.headers.get("Transfer-Encoding"):
            return own_answer(411, "length_required", "The alert has no valid Content-Length.")
        if int(length) > MAX_BODY:
            return own_answer(413, "body_too_large", "The alert is longer than 64 KiB.")
        return None

    def _answer(self, request_id: str) -> Answer:
        self.server.trust(self.connection)
        length = int(self.headers["Content-Length"])
        raw = self.rfile.read(length)
        if len(raw) < length:
            return own_answer(400, "cut_short", "The alert is shorter than its Content-Length.")
        if not self.server.slots.acquire(blocking=False):
            return own_answer(503, "busy", "Too many alerts at once. Send the alert again.")
        return self._forward(raw, request_id)

    def _sender(self) -> str:
        """Returns the sender's address, from the connection or from the proxy's header."""
        if not self.server.settings.proxy:
            return plain(self.client_address[0])
        hops = ",".join(self.headers.get_all("X-Forwarded-For") or [])
        return hops.rpartition(",")[2].strip()

    def _has_certificate(self, name: str) -> bool:
        names = re.findall(r"(?:^|(?<!\\),)CN=((?:[^,\\]|\\.)*)", self.headers["X-Client-DN"] or "")
        return self.headers["X-Client-Verify"] == "SUCCESS" and names == [name]

    def _forward(self, raw: bytes, request_id: str) -> Answer:
        """Returns the hook's answer. The request frees its slot when it ends."""
        body = with_nonce(raw)
        forwarding = Forwarding(self.server.settings, body, request_id, self.server.slots.release)
        answer = forwarding.answer(self.until)
        if answer.status == 409 and body != raw:
            log("this text was sent before: put {{timenow}} into the message to tell alerts apart")
        return answer

    def _give(self, answer: Answer) -> None:
        self.send_response_only(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(answer.body)

    def _drain(self) -> None:
        """Reads the rest of the request. Closing at once would cut off the answer."""
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            while self.connection.recv(MAX_BODY):
                pass

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answers what is not a POST, or not HTTP, without echoing any of it."""
        status = 405 if code == 501 else int(code)
        self.request_version = "HTTP/1.0"
        self._give(own_answer(status, "not_an_alert", "Send alerts with POST."))
        self._drain()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Logs nothing: the default lines would contain the secret path."""


# --- The log --------------------------------------------------------------------------------------


def summary(answer: Answer) -> str:
    """Returns an answer in one line: the status and the signal's outcome, or the refusal."""
    try:
        body = json.loads(answer.body.decode("utf-8"))
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        return str(answer.status)
    if "outcome" in body:
        return printable(f"{answer.status} {body['outcome']}: {_signal_id(body)}")
    return printable(f"{answer.status} {body.get('code')}: {body.get('detail')}")


def _signal_id(body: dict[str, Any]) -> Any:
    accepted = body.get("signal")
    return accepted.get("id") if isinstance(accepted, dict) else None


def plain(address: str) -> str:
    """Returns an address as the settings write it: an IPv4-mapped IPv6 address as IPv4."""
    return address[7:] if address.startswith("::ffff:") else address


def printable(text: str) -> str:
    """Returns the text on one line, cut to 500 characters."""
    return "".join(letter if letter.isprintable() else " " for letter in text)[:500]


def log(line: str) -> None:
    print(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), line, flush=True)


def main() -> None:
    try:
        relay = Relay(read_settings(os.environ))
    except (ValueError, OSError) as fault:
        sys.exit(f"The relay cannot start: {fault}")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, relay.stop)
    log(f"listening on port {relay.server_port}")
    relay.serve_until_stopped()
    relay.server_close()
    log("stopped")


if __name__ == "__main__":
    main()
