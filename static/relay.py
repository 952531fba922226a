#!/usr/bin/env python3
"""Signs the alerts of a chart platform, which cannot sign, and passes them on.

    alert -> this relay, on a machine of yours -> the service's hook

One file, nothing to install: Python 3.8 or newer. The secret stays on your machine.

RELAY_SECRET       the bot's signing secret; several, separated by commas, each sign (several bots,
                   or an old and a new secret side by side; at most 5)
RELAY_HOOK         where to, as the bot's page shows it: https://.../api/hooks/signal
RELAY_PATH         where alerts come in, unguessable: a slash and 22 or more of A-Za-z0-9_-
RELAY_LISTEN       the address and port to listen on; 127.0.0.1:8080
RELAY_SENDERS      who may send alerts; the four addresses of TradingView
RELAY_PROXY        the address of a proxy in front, such as 127.0.0.1: of it, and of nobody else,
                   X-Forwarded-For is believed, its last entry
RELAY_CERTIFICATE  the name (CN) that the sender's certificate must have, "TradingView Webhooks";
                   the proxy says so in X-Client-Verify (SUCCESS) and X-Client-DN; needs RELAY_PROXY

The platform sends to the ports 80 and 443 only: let a web server with TLS stand in front. nginx:

    ssl_client_certificate authorities.pem;      # who signed the platform's certificate
    ssl_verify_client optional;
    location = /the-path {
        proxy_pass http://127.0.0.1:8080;
        proxy_set_header X-Forwarded-For $remote_addr;
        proxy_set_header X-Client-Verify $ssl_client_verify;
        proxy_set_header X-Client-DN $ssl_client_s_dn;
        access_log off;                          # the path is a secret
    }

What is signed are the bytes as they came. A body without a nonce gets one, made of its own bytes,
so that the platform's second try of an alert is the same signal; so are two alerts of the same
text: put {{timenow}} into it. The hook's status and body go back to the platform, which tries
again after a 5xx only. Nothing here is stored, and no path, body or secret is logged.
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
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from queue import Empty, Queue
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

TRADINGVIEW = "52.89.214.238,34.212.75.30,54.218.53.128,52.32.178.7"
THIS_MACHINE = ("127.0.0.1", "::1", "localhost")

ANSWER_WITHIN = 2.5  # seconds: the platform gives up after 3
READ_WITHIN = 2.0  # seconds that a sender may stand still
LARGEST_BODY = 64 * 1024  # bytes: what the hook takes
LARGEST_ANSWER = 1024 * 1024  # bytes
MOST_AT_ONCE = 32  # alerts under way
MOST_SIGNATURES = 5

JSON_SPACE = b" \t\r\n"
PROBLEM = "application/problem+json"


class Answer(NamedTuple):
    """What goes back to the platform."""

    status: int
    body: bytes
    content_type: str


class Settings(NamedTuple):
    """What the environment says."""

    secrets: list[str]
    hook: SplitResult
    path: str
    listen: tuple[str, int]
    senders: list[str]
    proxy: str
    certificate: str


# --- The environment ------------------------------------------------------------------------------


def read_settings(environment: Mapping[str, str]) -> Settings:
    """The settings; raises ValueError with a sentence, which never holds a secret."""
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
    whole = [re.fullmatch("svc_sign_[0-9A-Za-z]{49}", text) for text in settings.secrets]
    if not whole or not all(whole) or len(whole) > MOST_SIGNATURES:
        raise ValueError("RELAY_SECRET takes the signing secret from the bot's page, whole.")
    hook = settings.hook
    if not hook.hostname or hook.scheme not in ("http", "https"):
        raise ValueError("RELAY_HOOK takes the address of the hook, as the bot's page shows it.")
    if hook.scheme == "http" and hook.hostname not in THIS_MACHINE:
        raise ValueError("RELAY_HOOK takes https: what goes over plain HTTP can be changed.")
    if not re.fullmatch("/[A-Za-z0-9_-]{22,}", settings.path):
        fresh = "/" + secrets.token_urlsafe(24)
        raise ValueError(f"RELAY_PATH takes a path that nobody guesses. A fresh one: {fresh}")
    if settings.certificate and not settings.proxy:
        raise ValueError("RELAY_CERTIFICATE needs RELAY_PROXY: the proxy checks the certificate.")


def _list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise ValueError("RELAY_LISTEN takes an address and a port: 127.0.0.1:8080")
    return host.strip("[]"), int(port)


# --- The body -------------------------------------------------------------------------------------


def with_nonce(raw: bytes) -> bytes:
    """The same bytes; an object without a nonce gets one as its last member, nothing else changes.

    What is not one JSON object stays as it is: the hook says what is wrong with it.
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
    """The headers that sign these bytes at this Unix time."""
    message = str(now).encode() + b"." + body
    made = ["v1=" + hmac.new(key.encode(), message, hashlib.sha256).hexdigest() for key in keys]
    return {"X-SVC-Timestamp": str(now), "X-SVC-Signature": ",".join(made)}


# --- The way on -----------------------------------------------------------------------------------


class Forwarding:
    """One request to the hook, in a thread of its own, so that no stall there holds the answer."""

    def __init__(self, settings: Settings, body: bytes, request_id: str) -> None:
        self._settings, self._body, self._request_id = settings, body, request_id
        self._done: Queue[Answer] = Queue()
        self._line: http.client.HTTPConnection | None = None

    def answer(self, until: float) -> Answer:
        """The hook's answer, or by that moment of the steady clock one of our own."""
        threading.Thread(target=self._send, args=(until,), daemon=True).start()
        try:
            return self._done.get(timeout=max(0.01, until - time.monotonic()))
        except Empty:
            self._hang_up()
            return too_slow()

    def _send(self, until: float) -> None:
        try:
            self._done.put(self._ask(max(0.01, until - time.monotonic())))
        except TimeoutError:
            self._done.put(too_slow())
        except (OSError, http.client.HTTPException) as fault:
            sentence = f"The hook cannot be reached ({type(fault).__name__}). Send it again."
            self._done.put(ours(502, "hook_away", sentence))

    def _ask(self, seconds: float) -> Answer:
        hook = self._settings.hook
        kind = http.client.HTTPSConnection if hook.scheme == "https" else http.client.HTTPConnection
        self._line = kind(str(hook.hostname), hook.port, timeout=seconds)
        headers = {
            "Content-Type": "application/json",
            "X-Request-Id": self._request_id,
            **signing_headers(self._settings.secrets, self._body, int(time.time())),
        }
        try:
            self._line.request("POST", hook.path, self._body, headers)
            answer = self._line.getresponse()
            content_type = answer.getheader("Content-Type") or "text/plain"
            return Answer(answer.status, answer.read(LARGEST_ANSWER), content_type)
        finally:
            self._line.close()

    def _hang_up(self) -> None:
        """Ends the thread that nobody waits for any more."""
        line = self._line.sock if self._line else None
        if line:
            try:
                line.shutdown(socket.SHUT_RDWR)
            except OSError:
                return


def too_slow() -> Answer:
    return ours(504, "hook_slow", "The hook did not answer in time. Send it again.")


def ours(status: int, code: str, detail: str) -> Answer:
    """An answer of the relay itself."""
    problem = {"title": "The relay answers", "status": status, "code": code, "detail": detail}
    return Answer(status, json.dumps(problem).encode(), PROBLEM)


# --- The way in -----------------------------------------------------------------------------------


class Relay(socketserver.ThreadingMixIn, HTTPServer):
    """Listens; hangs up on whoever is neither a sender nor the proxy, before reading anything."""

    daemon_threads = False  # who stops it lets what is under way finish
    request_queue_size = 128

    def __init__(self, settings: Settings) -> None:
        if ":" in settings.listen[0]:
            self.address_family = socket.AF_INET6
        self.settings = settings
        self.seats = threading.BoundedSemaphore(MOST_AT_ONCE)
        super().__init__(settings.listen, Alert)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        peer, proxy = plain(client_address[0]), self.settings.proxy
        if peer in ([proxy] if proxy else self.settings.senders):
            return True
        log(f"hung up on {peer}, which is not in {'RELAY_PROXY' if proxy else 'RELAY_SENDERS'}")
        return False

    def handle_error(self, request: Any, client_address: Any) -> None:
        log(f"a connection broke ({getattr(sys.exc_info()[0], '__name__', 'unknown')})")


class Alert(BaseHTTPRequestHandler):
    """One alert: from whom, to which path, signed, passed on, answered."""

    server: Relay
    timeout = READ_WITHIN

    def do_POST(self) -> None:
        until = time.monotonic() + ANSWER_WITHIN
        request_id = secrets.token_hex(16)
        if self.server.seats.acquire(blocking=False):
            try:
                answer = self._answer(until, request_id)
            finally:
                self.server.seats.release()
        else:
            answer = ours(503, "busy", "Too many alerts at once. Send it again.")
        log(f"{told(answer)} (request {request_id})")
        self._give(answer)

    def _answer(self, until: float, request_id: str) -> Answer:
        length = self.headers.get("Content-Length") or ""
        if not re.fullmatch("[0-9]{1,9}", length) or self.headers.get("Transfer-Encoding"):
            return ours(411, "length_required", "The alert does not say how long it is.")
        if int(length) > LARGEST_BODY:
            return ours(413, "body_too_large", "The alert is longer than 64 KiB.")
        raw = self.rfile.read(int(length))  # before any refusal, or closing would cut it off
        if len(raw) < int(length):
            return ours(400, "cut_short", "The alert ended before its end.")
        return self._refusal() or self._passed_on(raw, until, request_id)

    def _refusal(self) -> Answer | None:
        """Why this request goes no further, if it does not."""
        settings = self.server.settings
        if not hmac.compare_digest(self.path.encode("latin-1"), settings.path.encode()):
            return ours(404, "no_such_path", "The alert's address does not end with RELAY_PATH.")
        sender = self._sender()
        if sender not in settings.senders:
            return ours(403, "sender_unknown", f"{printable(sender)} is not in RELAY_SENDERS.")
        if settings.certificate and not self._has_certificate(settings.certificate):
            return ours(403, "certificate_wrong", "The certificate is not RELAY_CERTIFICATE's.")
        return None

    def _sender(self) -> str:
        """The address that the connection, or the proxy in front, knows the sender by."""
        if not self.server.settings.proxy:
            return plain(self.client_address[0])
        hops = ",".join(self.headers.get_all("X-Forwarded-For") or [])
        return hops.rpartition(",")[2].strip()

    def _has_certificate(self, name: str) -> bool:
        names = re.findall(r"(?:^|(?<!\\),)CN=((?:[^,\\]|\\.)*)", self.headers["X-Client-DN"] or "")
        return self.headers["X-Client-Verify"] == "SUCCESS" and names == [name]

    def _passed_on(self, raw: bytes, until: float, request_id: str) -> Answer:
        body = with_nonce(raw)
        answer = Forwarding(self.server.settings, body, request_id).answer(until)
        if answer.status == 409 and body != raw:
            log("that text came before: put {{timenow}} into the message to tell alerts apart")
        return answer

    def _give(self, answer: Answer) -> None:
        self.send_response_only(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(answer.body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What is no POST, or no HTTP, is told so; nothing of it is repeated."""
        status = 405 if code == 501 else int(code)
        self.request_version = "HTTP/1.0"
        self._give(ours(status, "not_an_alert", "Alerts are sent by POST."))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Silent: its lines would hold the path."""


# --- The log --------------------------------------------------------------------------------------


def told(answer: Answer) -> str:
    """An answer in one line: the status, and what the service says became of the signal, or why."""
    try:
        said = json.loads(answer.body.decode("utf-8"))
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        return str(answer.status)
    if "outcome" in said:
        return printable(f"{answer.status} {said['outcome']}: {_signal_id(said)}")
    return printable(f"{answer.status} {said.get('code')}: {said.get('detail')}")


def _signal_id(said: dict[str, Any]) -> Any:
    signal_of_it = said.get("signal")
    return signal_of_it.get("id") if isinstance(signal_of_it, dict) else None


def plain(address: str) -> str:
    """An address as it is written in the settings: of version 4 also where the line is of 6."""
    return address[7:] if address.startswith("::ffff:") else address


def printable(text: str) -> str:
    """The text on one line, of a length that a log bears."""
    return "".join(letter if letter.isprintable() else " " for letter in text)[:500]


def log(line: str) -> None:
    print(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), line, flush=True)


def main() -> None:
    try:
        relay = Relay(read_settings(os.environ))
    except (ValueError, OSError) as fault:
        sys.exit(f"The relay does not start: {fault}")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: threading.Thread(target=relay.shutdown).start())
    log(f"listening on port {relay.server_port}")
    relay.serve_forever(poll_interval=0.1)
    relay.server_close()
    log("stopped")


if __name__ == "__main__":
    main()
