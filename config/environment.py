"""What the environment says, checked before anything runs (contract, section 8).

A setting that is written wrongly stops the start with a sentence: none falls back in silence.
"""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured
from limits import parse

ROOT = Path(__file__).resolve().parent.parent
KEY_BYTES = 32
LEAST_SECRET_KEY = 32  # characters
LEVELS = ("debug", "info", "warning", "error")
ON, OFF = ("on", "true", "yes", "1"), ("off", "false", "no", "0")

env = environ.Env()
env.read_env(env.str("ENV_FILE", default=str(ROOT / ".env")))


def flag(name: str, *, default: bool) -> bool:
    """On or off. A misspelt one is refused: read as off, it would open what it was to close."""
    text = str(env.str(name, default="on" if default else "off")).lower()
    if text not in ON + OFF:
        raise ImproperlyConfigured(f"{name} takes on or off.")
    return text in ON


def number(name: str, *, default: int, least: int) -> int:
    """A whole number."""
    text = str(env.str(name, default=str(default)))
    if not text.isdecimal() or int(text) < least:
        raise ImproperlyConfigured(f"{name} takes a whole number, at least {least}.")
    return int(text)


def level(name: str, *, default: str) -> str:
    """From which level on the log tells a line."""
    text = str(env.str(name, default=default))
    if text not in LEVELS:
        raise ImproperlyConfigured(f"{name} takes one of {', '.join(LEVELS)}.")
    return text


def metrics_token() -> str:
    """What a reader of the numbers presents; without one there are none to be had."""
    text = str(env.str("METRICS_TOKEN", default=""))
    if text and len(text) < LEAST_SECRET_KEY:
        raise ImproperlyConfigured(
            f"METRICS_TOKEN takes {LEAST_SECRET_KEY} random characters or more, or nothing."
        )
    return text


def limit(name: str, default: str) -> str:
    """How often something may be done: ``120/minute``, or ``off``."""
    text = str(env.str(name, default=default))
    try:
        if text != "off":
            parse(text)
    except ValueError:
        raise ImproperlyConfigured(f"{name} takes a limit such as {default}, or off.") from None
    return text


def secret_key(*, debug: bool) -> str:
    """The text that signs sessions and links."""
    text = _required("SECRET_KEY", debug=debug, stand_in="for development only" * 3)
    if len(text) < LEAST_SECRET_KEY:
        raise ImproperlyConfigured(
            f"SECRET_KEY takes {LEAST_SECRET_KEY} random characters or more (openssl rand -hex 32)."
        )
    return text


def _required(name: str, *, debug: bool, stand_in: str) -> str:
    """The setting's text; with ``DEBUG`` a known stand-in serves where it is not set."""
    value = env.str(name, default=stand_in if debug else "")
    if not value or (value == stand_in and not debug):
        raise ImproperlyConfigured(f"{name} is not set. See .env.example for its meaning.")
    return str(value)


def keys(name: str, *, debug: bool) -> list[bytes]:
    """Keys of 32 bytes each, written in hex and separated by commas, newest first."""
    text = _required(name, debug=debug, stand_in="00" * KEY_BYTES)
    try:
        found = [bytes.fromhex(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or any(len(key) != KEY_BYTES for key in found):
        raise ImproperlyConfigured(
            f"{name} takes keys of 32 bytes in hex, separated by commas (openssl rand -hex 32)."
        )
    if not debug and any(len(set(key)) == 1 for key in found):
        raise ImproperlyConfigured(f"{name} holds a stand-in, not a random key.")
    return found


def hosts_of(base_url: str) -> list[str]:
    """The one host that the base address names."""
    parts = urlsplit(base_url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or base_url.endswith("/"):
        raise ImproperlyConfigured("BASE_URL takes an address such as https://signals.example.")
    return [parts.hostname]


def cache() -> dict[str, Any]:
    """Django's settings of the cache that ``CACHE_URL`` names."""
    chosen: dict[str, Any] = env.cache("CACHE_URL", default="dbcache://cache")
    if "redis" not in chosen["BACKEND"]:
        return chosen
    # One that hangs is away: nobody waits for it longer than the contract's `unavailable` allows.
    patience = {"socket_timeout": 1, "socket_connect_timeout": 1}
    return {**chosen, "OPTIONS": {**patience, **chosen.get("OPTIONS", {})}}


def database(threads: int) -> dict[str, Any]:
    """Django's settings of the database that ``DATABASE_URL`` names."""
    chosen: dict[str, Any] = env.db("DATABASE_URL", default=f"sqlite:///{ROOT / 'service.sqlite3'}")
    ours = _sqlite() if "sqlite" in chosen["ENGINE"] else _postgresql(threads)
    # What the address itself asks for, such as sslmode, stands.
    return {**chosen, **ours, "OPTIONS": {**ours["OPTIONS"], **chosen.get("OPTIONS", {})}}


def _sqlite() -> dict[str, Any]:
    return {
        "CONN_MAX_AGE": None,  # opening the file anew takes longer than most requests
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;",
        },
    }


def _postgresql(threads: int) -> dict[str, Any]:
    # A stalled holder of the log's lock is ended by the database, and who waits gives up sooner:
    # both stay under the two seconds that the contract's `unavailable` allows.
    limits = {
        "lock_timeout": "1500ms",
        "idle_in_transaction_session_timeout": "1500ms",
        "statement_timeout": "10s",
    }
    return {
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {
            # A statement that comes again is parsed and planned once for each connection, which a
            # pooler of transactions in between would have to support.
            "server_side_binding": True,
            "prepare_threshold": 5,
            "connect_timeout": 2,
            # Where the network swallows what is sent, as a firewall does, nothing else would tell.
            "tcp_user_timeout": 1500,
            "keepalives_idle": 1,
            "keepalives_interval": 1,
            "keepalives_count": 1,
            "options": " ".join(f"-c {name}={value}" for name, value in limits.items()),
            # A pool smaller than the threads would let one stalled writer starve the readers.
            # Where the database is away, whoever asks tries anew: by default the pool tries ever
            # more rarely, and is a while behind when the database is back.
            "pool": {
                "min_size": 1,
                "max_size": threads + 1,
                "timeout": 1.5,
                "reconnect_timeout": 0.5,
            },
        },
    }
