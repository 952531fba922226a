#!/usr/bin/env python3
"""Signs the alerts of a chart platform, which cannot sign, and forwards them.

    alert -> this relay on your own machine -> the service's hook

One file, nothing to install: Python 3.8 or newer. The secret stays on your machine.

    python3 relay.py --settings relay.env               starts the relay
    python3 relay.py --settings relay.env --check       sends a message through every step: the web
                                                        server, the relay and the hook's check,
                                                        which fills nothing; says what is wrong

The settings are lines of NAME=value in the file, or environment variables. The bot's page shows
them, and a systemd unit and the web server's configuration, ready to copy.

RELAY_SECRET       The bot's signing secret. Separate several secrets with commas (several bots, or
                   an old and a new secret): the relay signs with each. At most 5.
RELAY_HOOK         The address of the hook from the bot's page: https://.../api/hooks/signal
RELAY_PATH         The secret path that receives alerts: a slash and 22 or more of A-Za-z0-9_-
RELAY_LISTEN       The address and port to listen on. Default: 127.0.0.1:8080
RELAY_URL          The address of the web server in front, https://relay.example.com, for --check.
RELAY_SENDERS      The addresses that may send alerts. Default: the four addresses of TradingView
RELAY_PROXY        The address of the proxy in front, such as 127.0.0.1. The relay then accepts
                   connections only from the proxy and trusts the last entry of X-Forwarded-For.
RELAY_CERTIFICATE  The name (CN) that the sender's certificate must have, "TradingView Webhooks".
                   The proxy passes X-Client-Verify (SUCCESS) and X-Client-DN. Needs RELAY_PROXY.

The platform sends only to the ports 80 and 443: put a web server with TLS in front. For
RELAY_CERTIFICATE, nginx needs these lines besides those of the bot's page:

    ssl_client_certificate authorities.pem;      # the issuers of the platform's certificate
    ssl_verify_client optional;
    proxy_set_header X-Client-Verify $ssl_client_verify;
    proxy_set_header X-Client-DN $ssl_client_s_dn;

The relay refuses a body that contains what looks like a secret of an exchange, so that it does not
leave your machine. It answers 400 to a text that is no JSON object, such as the platform's own
"ETHUSDT Crossing 2000", and says what to paste. Otherwise it signs the exact bytes that it
received, with these exceptions:

- If a body has no nonce, the relay adds a hash of the body as nonce, so that a retry of an alert is
  the same signal. Two alerts with the same text are then the same signal too: put {{timenow}} into
  the message to tell them apart.
- A nonce that the hook does not accept, because it has a space or is too long, is replaced by its
  hash. The same text always gives the same nonce.
- A message of a strategy has the members market_position and order_action. The relay forwards it,
  without them, only if the order opens the direction of the message: position long and order buy,
  or position short and order sell. To anything else, such as an exit, it answers 200 with the
  outcome not_forwarded and the reason, and counts it in the log.

The relay returns the hook's status and body. The platform retries after a 5xx other than 504, so
the relay returns a 504 as 503. The relay stores nothing and logs no path, body or secret.

The relay checks the path, the sender and the headers before it reads the body. It closes every
connection after 3 seconds. At most 64 connections are open at once. When another one arrives, the
relay closes the oldest connection that has not yet sent the right path from an allowed sender.

A check comes from your own machine, not from the platform. It proves with X-Relay-Check that it
knows the secret: the Unix time, a full stop, and the HMAC of "check." and the time. The relay
forwards it to the hook's check only.
"""

from __future__ import annotations

import argparse
import hashlib
import hmac
import http.client
import ipaddress
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
import unicodedata
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
CHECK_TIMEOUT = 10  # seconds for each request of --check
CHECK_TOLERANCE = 300  # seconds
CHECK_HEADER = "X-Relay-Check"

OPENS = {"long": "buy", "short": "sell"}  # the order that opens a position
STRATEGY = ("market_position", "order_action")  # what the platform fills in for each order
POSITIONS, ORDERS = ("long", "short", "flat"), ("buy", "sell")

# What the platform fills in for its other placeholders, for --check.
EXAMPLES = {
    "ticker": "ETHUSDT",
    "exchange": "BINANCE",
    "interval": "60",
    "open": "3408.25",
    "high": "3421.9",
    "low": "3401.1",
    "close": "3412.5",
    "volume": "1284.553",
    "strategy.order.id": "My Long Entry Id",
    "strategy.order.comment": "My Long Entry Id",
    "strategy.order.alert_message": "",
    "strategy.order.contracts": "0.5",
    "strategy.order.price": "3412.5",
    "strategy.position_size": "0.5",
    "strategy.market_position_size": "0.5",
    "strategy.prev_market_position": "flat",
    "strategy.prev_market_position_size": "0",
}

JSON_SPACE = b" \t\r\n"
PROBLEM = "application/problem+json"
JSON = "application/json"


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
    url: str = ""


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
        url=environment.get("RELAY_URL", "").rstrip("/"),
    )
    _check(settings)
    return settings


def read_file(name: str) -> dict[str, str]:
    """Reads lines of NAME=value. Raises ValueError for another line, OSError if it cannot read."""
    found = {}
    with open(name, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            setting, equals, value = line.strip().partition("=")
            if setting and not setting.startswith("#"):
                if not equals:
                    raise ValueError(f"Line {number} of {name} is not NAME=value.")
                found[setting.strip()] = value.strip()
    return found


def _check(settings: Settings) -> None:
    if not settings.secrets:
        raise ValueError(
            "RELAY_SECRET is empty. It must be the complete signing secret of the bot."
        )
    valid = [re.fullmatch("svc_sign_[0-9A-Za-z]{49}", text) for text in settings.secrets]
    if not all(valid) or len(valid) > MAX_SIGNATURES:
        raise ValueError("RELAY_SECRET must be the complete signing secret from the bot's page.")
    hook = settings.hook
    if not hook.hostname or hook.scheme not in ("http", "https"):
        raise ValueError("RELAY_HOOK must be the address of the hook from the bot's page.")
    if hook.scheme == "http" and hook.hostname not in THIS_MACHINE:
        raise ValueError("RELAY_HOOK must use https: plain HTTP can be modified on the way.")
    if not re.fullmatch("/[A-Za-z0-9_-]{22,}", settings.path):
        path = "/" + secrets.token_urlsafe(24)
        raise ValueError(f"RELAY_PATH must be a path that nobody can guess. A random one: {path}")
    if settings.url and not re.fullmatch("https?://[^/?#]+", settings.url):
        raise ValueError("RELAY_URL must be an address without a path: https://relay.example.com")
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


def looks_secret(raw: bytes) -> bool:
    """Returns whether the body contains a secret: as a JSON object, otherwise as text."""
    with suppress(RecursionError):
        body = parsed(raw)
        if body is not None:
            return contains_secret(body)
    return malformed_contains_secret(raw.decode("utf-8", "replace"))


def parsed(raw: bytes) -> dict[str, Any] | None:
    """Returns the JSON object, None if the body is none: the hook's refusal says what is wrong."""
    try:
        body = json.loads(raw.decode("utf-8"), object_pairs_hook=distinct)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns a JSON object. Raises ValueError for a repeated name: the hook refuses it."""
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError
    return dict(pairs)


def to_forward(raw: bytes) -> bytes:
    """Returns the body for the hook: with a valid nonce, and without what describes an order.

    Changes no other byte if it only adds a nonce, and none if there is nothing to do.
    """
    body = parsed(raw)
    if body is None:
        return raw
    sent = {name: value for name, value in body.items() if name not in STRATEGY}
    if isinstance(sent.get("nonce"), str) and not sent["nonce"].strip():
        del sent["nonce"]
    elif is_unusable(sent.get("nonce")):
        sent["nonce"] = digest(sent["nonce"].encode("utf-8", "replace"))
    if "nonce" in sent:
        return raw if sent == body else written(sent, raw)
    if len(sent) < len(body):
        return written({**sent, "nonce": digest(raw)}, raw)
    before, comma = raw.rstrip(JSON_SPACE)[:-1], b"," if body else b""
    return before + comma + b'"nonce":"' + digest(raw).encode() + b'"}'


def written(body: dict[str, Any], raw: bytes) -> bytes:
    """Returns the body as JSON, unchanged if it is deeper than the hook accepts."""
    try:
        return json.dumps(body).encode()
    except RecursionError:
        return raw


def is_unusable(nonce: Any) -> bool:
    """Returns whether the nonce is text that the hook does not accept."""
    return isinstance(nonce, str) and not re.fullmatch("[!-~]{1,128}", nonce)


def digest(text: bytes) -> str:
    """Returns a nonce that is always the same for this text."""
    return "relay-" + hashlib.sha256(text).hexdigest()[:32]


def why_not(raw: bytes) -> str:
    """Returns why the order of a strategy is not forwarded, empty if it is, or if there is none."""
    body = parsed(raw) or {}
    direction = body.get("direction")
    if direction not in list(OPENS) or not any(name in body for name in STRATEGY):
        return ""
    position, order = (body.get(name) for name in STRATEGY)
    if position not in POSITIONS or order not in ORDERS:
        return (
            "market_position and order_action are not what the platform fills in for a strategy."
            " Use this message for alerts of a strategy only, and do not change these members."
        )
    if position != direction:
        return f"The position after the order ({order}) is {position}: it opens no {direction}."
    if order != OPENS[direction]:
        return f"The order ({order}) reduces the {direction} position."
    return ""


def signing_headers(keys: list[str], body: bytes, now: int) -> dict[str, str]:
    """Returns the headers that sign the body at a Unix time, once per key."""
    message = str(now).encode() + b"." + body
    all_v1 = ["v1=" + hmac.new(key.encode(), message, hashlib.sha256).hexdigest() for key in keys]
    return {"X-SVC-Timestamp": str(now), "X-SVC-Signature": ",".join(all_v1)}


def check_header(key: str, now: int) -> str:
    """Returns the header that proves that a check knows the secret, at a Unix time."""
    return f"{now}.{hmac.new(key.encode(), f'check.{now}'.encode(), hashlib.sha256).hexdigest()}"


def is_check(keys: list[str], header: str, now: int) -> bool:
    """Returns whether the header proves that a check knows one of the secrets."""
    stamp = header.partition(".")[0]
    if not re.fullmatch("[0-9]{10}", stamp) or abs(now - int(stamp)) > CHECK_TOLERANCE:
        return False
    sent = header.encode("latin-1", "replace")
    return any(hmac.compare_digest(sent, check_header(key, int(stamp)).encode()) for key in keys)


NO_SENDER = "The web server in front does not pass the sender's address in X-Forwarded-For."
CHECK_REFUSED = "The relay runs with another RELAY_SECRET, or with another time. Restart it."
FORBIDDEN = (
    "The message contains what looks like a key or secret of an exchange. Take it out: the service"
    " never needs one."
)
NOT_JSON = (
    "This is not JSON. TradingView sends a text of its own until you replace it: paste the message"
    " of the bot's page into the alert."
)


CREDENTIAL = re.compile("svc_(?:desk|plat|sign)_[0-9A-Za-z]{49}|whsec_[0-9A-Za-z+/]{40}")


def is_secret(text: str) -> bool:
    """Returns whether the text contains a private key, or a credential of the service."""
    return ("----" in text and bool(PRIVATE_KEY.search(text))) or bool(CREDENTIAL.search(text))


# --- The search for secrets -----------------------------------------------------------------------
#
# The relays are single files and repeat this section: relay.py word for word, relay.worker.js with
# the same patterns (tests/tokens/crypto/ compares them). A pattern means the same
# in both languages. No two repetitions that can match the same text follow each other unbounded, so
# that every search takes linear time.

FLAGS = re.ASCII | re.IGNORECASE

# The name of a field that holds a secret, in lower case and without separators.
FIELD = re.compile(
    "apikey|apisecret|privatekey|privkey|secretkey|clientsecret|credential|mnemonic|passphrase"
    "|passwd|password|pwd|(?:backup|recovery|secret|seed|wallet)phrase"
    "|(?:creds|secret|(?:access|api|auth|bearer|refresh|security|session)token"
    "|(?:access|account|auth|broker|encryption|exchange|gpg|hmac|master|pgp|signing|ssh|trading"
    "|venue|wallet|alpaca|binance|bitfinex|bitget|bitmex|bitstamp|bybit|coinbase|cryptocom|deribit"
    "|dydx|gateio|gemini|htx|huobi|hyperliquid|kraken|kucoin|mexc|okex|okx)key)s?"
    "(?:base64|data|encrypted|hex|pem|plain|raw|string|text|value)?v?[0-9]*$"
    "|^(?:keys?|otp|sign)[0-9]*$"
)
# A name in lower-case text: of a password, of another secret, or one that has other meanings, too.
# The first characters are repeated in front because that makes the search several times faster.
# "otp" and "pwd" must be whole words, or follow an escape of a URL or "MT5": three letters stand in
# one of 2,000 random nonces.
NAME = re.compile(
    "(?=[abcejkmoprstw])(?:"
    "((?:pass[-_. ]?(?:code|phrase|word)|passwd)[a-z0-9_.-]{0,32}"
    "|(?:(?<![a-z0-9])|(?<=%[0-9a-f]{2})|(?<=mt[45]))(?:otp|pwd)s?(?:code|hash|value)?[0-9]{0,3}"
    "(?:[-_.][a-z0-9_.-]{0,32})?(?![a-z0-9]))"
    "|((?:(?:api|priv(?:ate)?|secret|access|account|auth|broker|exchange|master|signing|trading"
    "|wallet|binance|bitget|bybit|coinbase|kraken|kucoin|okx)[-_. ]?key|secret|credential"
    "|(?:access|api|auth|bearer|refresh|session)[-_. ]?token)[a-z0-9_.-]{0,32})"
    "|((?:authorization|auth|bearer|jwt|key|pass|seed|sign|token)s?"
    "(?:[-_. ]?(?:data|hex|raw|string|text|v?[0-9]{1,3}|value))?(?![a-z0-9_-])))",
    re.ASCII,
)
# Before a name that has other meanings: together they name no secret. The end is not $: only Python
# finds that before a last line break, too.
HARMLESS = re.compile(
    "(?:cache|cursor|foreign|idempotency|next|order|page|partition|position|primary|public|routing"
    r"|row|signal|sort|strategy|trade)[-_. ]?\n?(?![\s\S])",
    FLAGS,
)
# After a name: what separates it from its value, and the value.
VALUE = re.compile(
    r"([ \t\r\n\x22'\x60\\)\[\]0-9*#\u00ab\u00bb\u2018\u2019\u201c\u201d]{0,6}"
    r"(?:->|[:=>|,;~]{1,4}|[^\x00-\x7f]{1,4}|%3[ad]|is[ \t]|-[ \t])"
    r"[ \t\r\n\x22'\x60\\(\[{<*\u00ab\u00bb\u2018\u2019\u201c\u201d]{0,6}"
    r"|[ \t\r\n\x22'\x60\\(.\u00ab\u00bb\u2018\u2019\u201c\u201d]{1,6})"
    "(?:basic |bearer )?([a-z0-9+/_~!@$%^*.-]{4,160})",
    FLAGS,
)
# The same, after one to three words: "api key for binance: ...".
VALUE_AFTER_WORDS = re.compile(
    r"(?:[ \t]\(?[a-z]{1,12}\)?){1,3}[ \t\"'\x60]{0,3}(?:[:=]|is[ \t])[ \t\"'\x60]{0,3}"
    "([a-z0-9+/_-]{4,160})",
    FLAGS,
)
# The words of a wallet: at least twelve.
WALLET = re.compile(
    "(?:mnemonic|(?:backup|recovery|secret|seed|wallet)[-_. ]?(?:phrase|words)|seed)s?"
    r"(?:[^a-z]{0,6}[:=\x22'\x60]|[ \t]is)((?:[^a-z]{0,8}[a-z]{3,8}(?![a-z])){12})",
    FLAGS,
)
# Words that most sentences have, and no wallet.
SENTENCE = re.compile("(?<![a-z])(?:and|are|but|for|from|not|the|was|with|your)(?![a-z])", FLAGS)
WALLET_ADDRESS = re.compile("^0x[0-9a-f]{40}$", FLAGS)
UUID = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", FLAGS)
PRIVATE_KEY = re.compile("-{4,5} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}", FLAGS)

UPPER = re.compile("[A-Z]+")
SEPARATORS = re.compile(r"[\x00-\x2f\x3a-\x40\x5b-\x60\x7b-\x7f]+")
INVISIBLE = re.compile(r"[\u00ad\u034f\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
ESCAPE = re.compile(r"\\u([0-9A-Fa-f]{4})")
# What is normalized at once: to sort a run of combining marks takes quadratic time.
PART = re.compile(r"[\s\S]{1,1000}")
BREAK = re.compile(r"[\"'\x60{}\[\],;&?\n]")
ALPHANUMERIC = re.compile("[A-Za-z0-9]+")
CHANGE = re.compile("[a-z](?=[A-Z0-9])|[A-Z](?=[a-z0-9])|[0-9](?=[A-Za-z])")


def contains_secret(value: object) -> bool:
    """Whether a JSON value contains, at any depth, a secret or a key that names one."""
    if isinstance(value, str):
        return text_contains_secret(value)
    if isinstance(value, dict):
        return any(member_is_secret(name, member) for name, member in value.items())
    return isinstance(value, list) and any(contains_secret(member) for member in value)


def member_is_secret(name: str, value: object) -> bool:
    """Whether a member of a JSON object is, contains or names a secret."""
    name = normalized(name)
    if is_secret_name(name) or is_secret(name) or contains_secret(value):
        return True
    text = f"{name}: {value}" if isinstance(value, str) else name
    return assigns_secret(normalized(text))


def text_contains_secret(text: str) -> bool:
    """Whether text contains a secret, or the name of one and what looks like its value."""
    text = normalized(text)
    return is_secret(text) or assigns_secret(text)


def malformed_contains_secret(text: str) -> bool:
    """Whether text that should be JSON contains a secret, or a name of one before ``:`` or ``=``.

    As in JSON, the name is enough: the message is refused in any case.
    """
    text = normalized(text)
    parts = re.split("[:=]", text)[:-1]
    names = (BREAK.split(part.rstrip(" \t\r\n\"'`\\"))[-1] for part in parts)
    return text_contains_secret(text) or any(is_secret_name(name) for name in names)


def is_secret_name(name: str) -> bool:
    """Whether a key is one that usually holds a secret."""
    joined = SEPARATORS.sub("", normalized(name)).lower()
    return bool(FIELD.search(joined))


def normalized(text: str) -> str:
    """The text as a reader sees it: escapes and compatibility characters replaced."""
    if "\\u" in text:
        text = paired(ESCAPE.sub(lambda found: chr(int(found[1], 16)), text))
    if text.isascii():
        return text
    text = PART.sub(lambda found: unicodedata.normalize("NFKC", found[0]), text)
    return paired(INVISIBLE.sub("", text))


def paired(text: str) -> str:
    """The text with one character for each pair of surrogates, as in the worker's language."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def assigns_secret(text: str) -> bool:
    """Whether the text contains the name of a secret, followed by what looks like its value."""
    lower = UPPER.sub(lambda found: found[0].lower(), text)
    if any(is_assignment(text, name) for name in NAME.finditer(lower)):
        return True
    return any(not SENTENCE.search(words[1]) for words in WALLET.finditer(lower))


def is_assignment(text: str, name: re.Match[str]) -> bool:
    """Whether a value that looks like a secret follows the name."""
    near = VALUE.match(text, name.end())
    value = near[2] if near else ""
    if name[1]:
        return near is not None and not near[1].isspace() and is_password(value)
    if name[2]:
        if is_random(value, 8) or is_random(text[name.start() : name.end()], 16):
            return True
        far = VALUE_AFTER_WORDS.match(text, name.end())
        return far is not None and is_random(far[1], 12)
    if not is_random(value, 16) or WALLET_ADDRESS.search(value):
        return False
    return not HARMLESS.search(text[max(0, name.start() - 12) : name.start()])


def is_password(value: str) -> bool:
    """Whether six letters and digits, a digit among them, stand together."""
    return any(len(run) >= 6 and re.search("[0-9]", run) for run in ALPHANUMERIC.findall(value))


def is_random(value: str, least: int) -> bool:
    """Whether the value looks random: in a long run, letters and digits alternate often.

    Below 16 characters, which follow the name of nothing but a secret, a UUID counts, and any long
    run with letters and digits, or with many letters of both cases.
    """
    if least < 16 and UUID.search(value):
        return True
    for run in ALPHANUMERIC.findall(value):
        if len(run) < least:
            continue
        mixed = re.search("[0-9]", run) and re.search("[A-Za-z]", run)
        if mixed and len(CHANGE.findall(run)) >= max(3, len(run) / 6):
            return True
        capitals = sum(map(len, UPPER.findall(run)))
        many = mixed or len(run) / 4 <= capitals <= 3 * len(run) / 4
        if least < 16 <= len(run) and many:
            return True
    return False


# --- End of the search for secrets ----------------------------------------------------------------


# --- Requests to the hook -------------------------------------------------------------------------


class Forwarding:
    """One request to the hook in its own thread, so that a slow hook cannot delay the answer.

    Calls ``ended`` when the thread ends, which can be after the answer was returned, or at once if
    the machine has no thread left.
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
        try:
            threading.Thread(target=self._send, args=(until,), daemon=True).start()
        except RuntimeError:
            self._ended()
            return busy()
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


def check_of(hook: SplitResult) -> SplitResult:
    """Returns the address of the hook's check."""
    return hook._replace(path=hook.path.rpartition("/")[0] + "/check")


def shut_down(connection: socket.socket) -> None:
    """Shuts a connection down. A thread that reads from or writes to it fails at once."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def too_slow() -> Answer:
    return own_answer(503, "hook_slow", "The hook did not answer in time. Send the alert again.")


def busy() -> Answer:
    return own_answer(503, "busy", "Too many alerts at once. Send the alert again.")


def own_answer(status: int, code: str, detail: str) -> Answer:
    """Returns a problem response of the relay itself."""
    problem = {"title": "Answer of the relay", "status": status, "code": code, "detail": detail}
    return Answer(status, json.dumps(problem).encode(), PROBLEM)


def not_forwarded(reason: str) -> Answer:
    """Returns the answer to an order that fills nothing. The platform does not retry after 200."""
    return Answer(200, json.dumps({"outcome": "not_forwarded", "detail": reason}).encode(), JSON)


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
        self.counting, self.not_forwarded = threading.Lock(), 0
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

    def count(self) -> str:
        """Counts an order that is not forwarded. Returns the number, for the log."""
        with self.counting:
            self.not_forwarded += 1
            return f" ({self.not_forwarded} not forwarded since the start)"

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
        self.checking, self.counted = CHECK_HEADER in self.headers, ""
        refusal = self._refusal()
        answer = refusal or self._answer(request_id)
        log(f"{summary(answer)}{self.counted} (request {request_id})")
        self._give(answer)
        if refusal:
            self._drain()

    def _refusal(self) -> Answer | None:
        """Returns the refusal of a request by its path and headers, None if it is accepted."""
        settings = self.server.settings
        if not hmac.compare_digest(self.path.encode("latin-1"), settings.path.encode()):
            return own_answer(404, "no_such_path", "The webhook URL does not end with RELAY_PATH.")
        sender = self._sender()
        if not is_address(sender):
            return own_answer(403, "sender_unknown", NO_SENDER)
        if self.checking:
            if not is_check(settings.secrets, self.headers[CHECK_HEADER], int(time.time())):
                return own_answer(403, "check_invalid", CHECK_REFUSED)
        elif sender not in settings.senders:
            return own_answer(403, "sender_unknown", f"{sender} is not in RELAY_SENDERS.")
        elif settings.certificate and not self._has_certificate(settings.certificate):
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
        if looks_secret(raw):
            return own_answer(422, "exchange_secret", FORBIDDEN)
        if not raw.lstrip(JSON_SPACE).startswith(b"{"):
            return own_answer(400, "malformed", NOT_JSON)
        if reason := why_not(raw):
            self.counted = "" if self.checking else self.server.count()
            return not_forwarded(reason)
        if not self.server.slots.acquire(blocking=False):
            return busy()
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
        body, settings = to_forward(raw), self.server.settings
        if self.checking:
            settings = settings._replace(hook=check_of(settings.hook))
        forwarding = Forwarding(settings, body, request_id, self.server.slots.release)
        answer = forwarding.answer(self.until)
        if answer.status == 409 and digest(raw).encode() in body and not self.checking:
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
    if body.get("outcome") == "not_forwarded":
        return f"{answer.status} not forwarded: {printable(str(body.get('detail')))}"
    if "outcome" in body:
        said = body.get("wouldBe") or _signal_id(body)
        return printable(f"{answer.status} {body['outcome']}: {said}")
    return printable(f"{answer.status} {body.get('code')}: {body.get('detail')}")


def _signal_id(body: dict[str, Any]) -> Any:
    accepted = body.get("signal")
    return accepted.get("id") if isinstance(accepted, dict) else None


def is_address(text: str) -> bool:
    try:
        return bool(ipaddress.ip_address(text))
    except ValueError:
        return False


def plain(address: str) -> str:
    """Returns an address as the settings write it: an IPv4-mapped IPv6 address as IPv4."""
    return address[7:] if address.startswith("::ffff:") else address


def printable(text: str) -> str:
    """Returns the text on one line, cut to 500 characters."""
    return "".join(letter if letter.isprintable() else " " for letter in text)[:500]


def utc_now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def log(line: str) -> None:
    print(utc_now(), line, flush=True)


# --- The check ------------------------------------------------------------------------------------


class NotPassed(Exception):
    """A step of the check that failed. The message says what is wrong."""


def check(settings: Settings, message: bytes) -> None:
    """Sends a message through every step and prints what each said. Raises ``NotPassed``."""
    pattern, now = message, utc_now()
    message = filled_in(pattern, now)
    step("settings", f"{len(settings.secrets)} secret(s), hook {settings.hook.geturl()}")
    if looks_secret(message):
        raise NotPassed(f"message: {FORBIDDEN}")
    ask = _ask_web_server if settings.url else _ask_relay
    answer = ask(settings, message)
    if settings.url:
        step("web server", f"{settings.url} reaches the relay")
    else:
        step("relay", f"answers at {_local(settings)}; set RELAY_URL to check the web server, too")
    if answer.status != 200:
        raise NotPassed(summary(answer) + _faults(answer))
    checked = json.loads(answer.body.decode("utf-8"))
    if "wouldBe" not in checked:
        raise NotPassed(f"message: the relay does not forward it. {checked.get('detail')}")
    told = checked.get("signal", {})
    step("signature", "the secret and the time are right")
    step(
        "hook",
        printable(
            f"accepts the message: {checked.get('wouldBe')}, {told.get('pair')}"
            f" {told.get('direction')}, desks: {checked.get('filled')}"
        ),
    )

    ending = filled_in(pattern, now, ends=True)
    if ending != message:
        if summary(ask(settings, ending)).startswith("200 not forwarded"):
            step("strategy", "orders that end or reduce the position are not forwarded")
        else:
            raise NotPassed("relay: it forwards exits. It is an old version: replace it.")


def filled_in(message: bytes, now: str, *, ends: bool = False) -> bytes:
    """Returns the message with values as the platform fills them in, for an order that opens.

    ``ends`` fills in an order that ends the position.
    """
    direction = (parsed(message) or {}).get("direction")
    opening = OPENS["short" if direction == "short" else "long"]
    position = "flat" if ends else str(direction)
    order = next(order for order in ORDERS if (order == opening) is not ends)
    values = {
        **EXAMPLES,
        "time": now,
        "timenow": now,
        "strategy.market_position": position,
        "strategy.order.action": order,
    }
    return re.sub(
        rb"\{\{([a-z_.]+)\}\}",
        lambda found: values.get(found[1].decode(), found[0].decode()).encode(),
        message,
    )


def step(name: str, said: str) -> None:
    print(f"ok     {name}: {said}", flush=True)


def _ask_web_server(settings: Settings, message: bytes) -> Answer:
    """Sends the message as the platform does. Raises ``NotPassed`` if it reaches no relay."""
    try:
        answer = _send(settings, settings.url, message, {})
    except (OSError, http.client.HTTPException) as fault:
        raise NotPassed(
            f"web server: nothing answers at {settings.url} ({fault}). Its name must be in the DNS,"
            " its port 443 open, its certificate valid."
        ) from None
    if _is_of_chain(answer):
        return answer
    _ask_relay(settings, message)
    raise NotPassed(
        f"web server: {settings.url} answers {answer.status} itself. The relay runs at"
        f" {_local(settings)}: the web server must pass RELAY_PATH on to it."
    )


def _ask_relay(settings: Settings, message: bytes) -> Answer:
    """Sends the message to the relay as the proxy does. Raises ``NotPassed`` if none answers."""
    try:
        answer = _send(
            settings, _local(settings), message, {"X-Forwarded-For": settings.senders[0]}
        )
    except ConnectionRefusedError:
        raise NotPassed(f"relay: it does not run at {_local(settings)}. Start it.") from None
    except (OSError, http.client.HTTPException):
        raise NotPassed(
            "relay: it closed the connection. RELAY_PROXY must be the address from which the web"
            " server connects, 127.0.0.1 if it runs on the same machine."
        ) from None
    if not _is_of_chain(answer):
        raise NotPassed(f"relay: another program answers at {_local(settings)}.")
    return answer


def _send(settings: Settings, url: str, message: bytes, headers: dict[str, str]) -> Answer:
    to = urlsplit(url)
    kind = http.client.HTTPSConnection if to.scheme == "https" else http.client.HTTPConnection
    connection = kind(str(to.hostname), to.port, timeout=CHECK_TIMEOUT)
    proof = {CHECK_HEADER: check_header(settings.secrets[0], int(time.time()))}
    try:
        connection.request("POST", settings.path, message, {**proof, **headers})
        answer = connection.getresponse()
        content_type = answer.getheader("Content-Type") or "text/plain"
        return Answer(answer.status, answer.read(MAX_ANSWER), content_type)
    finally:
        connection.close()


def _local(settings: Settings) -> str:
    host, port = settings.listen
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared only
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _is_of_chain(answer: Answer) -> bool:
    """Returns whether the relay or the hook gave this answer, not the web server."""
    try:
        body = json.loads(answer.body.decode("utf-8"))
    except (ValueError, RecursionError):
        return False
    outcomes = ("checked", "not_forwarded")
    return isinstance(body, dict) and ("code" in body or body.get("outcome") in outcomes)


def _faults(answer: Answer) -> str:
    """Returns what is wrong with each field."""
    errors = json.loads(answer.body.decode("utf-8")).get("errors") or []
    return "".join("\n       " + printable(f"{one['field']}: {one['detail']}") for one in errors)


def read_message() -> bytes:
    if sys.stdin.isatty():
        print("Paste the message of the alert, then press Ctrl-D on a new line:", flush=True)
    return sys.stdin.buffer.read(MAX_BODY + 1).strip()


def main() -> None:
    asked = argparse.ArgumentParser(
        description="Signs and forwards the alerts of a chart platform."
    )
    asked.add_argument("--settings", metavar="FILE", help="lines of NAME=value")
    asked.add_argument("--check", action="store_true", help="check every step with a message")
    options = asked.parse_args()
    try:
        file = read_file(options.settings) if options.settings else {}
        settings = read_settings({**os.environ, **file})
        if options.check:
            return check(settings, read_message())
        serve(Relay(settings))
    except NotPassed as fault:
        sys.exit(f"WRONG  {fault}")
    except (ValueError, OSError) as fault:
        sys.exit(f"{'WRONG  settings' if options.check else 'The relay cannot start'}: {fault}")


def serve(relay: Relay) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, relay.stop)
    log(f"listening on port {relay.server_port}")
    relay.serve_until_stopped()
    with suppress(RuntimeError):  # the thread of the last connection could not start
        relay.server_close()
    log("stopped")


if __name__ == "__main__":
    main()
