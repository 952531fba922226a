"""Reads and checks how to reach the database, the cache, Redis, the mail server and Telegram.

No error repeats an address, because it may contain a password.
"""

import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured
from psycopg import pq

from config.caches import BACKENDS
from config.environment import ROOT, text

DEFAULT_DATABASE = f"sqlite:///{ROOT / 'service.sqlite3'}"
POSTGRESQL = {"postgres", "postgresql", "psql", "pgsql"}
SMTP = {"smtp", "smtps", "smtp+tls", "smtp+ssl"}
# What `manage.py deliver` opens at most, whatever THREADS is: each of its threads keeps its own.
RUNNER_CONNECTIONS = 16
CONSOLE_MAIL = "config.server.console_mail.EmailBackend"
OTHER_MAIL = {"consolemail", "filemail", "memorymail", "dummymail"}

DATABASE_FORMS = (
    "DATABASE_URL takes postgres://name:password@host:5432/database or sqlite:////folder/file, "
    "in an existing folder."
)
# The cache counts failed sign-ins. In a small cache, failures elsewhere would evict the counters.
MAX_CACHE_ENTRIES = 100_000
CACHE_FORMS = "CACHE_URL takes dbcache://table or rediscache://:password@host:6379/0."
LIMITS_FORMS = "LIMITS_URL takes redis://:password@host:6379/1, or nothing."
TELEGRAM_BOT = re.compile(r"[A-Za-z][A-Za-z0-9_]{1,28}bot", re.ASCII | re.IGNORECASE)
TELEGRAM_TOKEN = re.compile(r"[0-9]{6,16}:[-_A-Za-z0-9]{30,64}", re.ASCII)
EMAIL_FORMS = (
    "EMAIL_URL takes smtp+tls://name:password@host:587, consolemail:// or filemail:////folder."
)


def database(threads: int) -> dict[str, Any]:
    """Returns Django's settings for the database in ``DATABASE_URL``."""
    given = text("DATABASE_URL", default=DEFAULT_DATABASE)
    try:
        chosen: dict[str, Any] = environ.Env.db_url_config(given) if _is_database(given) else {}
    except ValueError:
        chosen = {}
    if not chosen.get("NAME") or (
        "sqlite" in chosen["ENGINE"] and not _can_hold_file(chosen["NAME"])
    ):
        raise ImproperlyConfigured(DATABASE_FORMS)
    ours = _sqlite() if "sqlite" in chosen["ENGINE"] else _postgresql(threads)
    # Options in the address, such as sslmode, override ours.
    return {**chosen, **ours, "OPTIONS": {**ours["OPTIONS"], **chosen.get("OPTIONS", {})}}


def usual_workers(database: dict[str, Any]) -> int:
    """Returns the default number of worker processes.

    One per core, because a process runs Python on one core only. At least two, so that the service
    survives one that hangs. At most four: each may open THREADS + 1 connections, and PostgreSQL
    accepts 100 by default. SQLite has one writer at a time, so two are enough.
    """
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    return max(2, min(cores, 2 if "sqlite" in database["ENGINE"] else 4))


def cache() -> dict[str, Any]:
    """Returns Django's settings for the cache in ``CACHE_URL``."""
    given = text("CACHE_URL", default="dbcache://cache")
    scheme, _, rest = given.partition("://")
    if scheme == "dbcache" and re.fullmatch(r"[a-z_][a-z0-9_]{0,50}", rest):
        options = {"MAX_ENTRIES": MAX_CACHE_ENTRIES}
        return {"BACKEND": BACKENDS[scheme], "LOCATION": rest, "OPTIONS": options}
    location = f"redis://{rest}"
    if scheme != "rediscache" or not _is_redis(location, "redis"):
        raise ImproperlyConfigured(CACHE_FORMS)
    # A Redis that hangs counts as down. The contract's `unavailable` allows two seconds.
    timeouts = {"socket_timeout": 1, "socket_connect_timeout": 1}
    return {"BACKEND": BACKENDS[scheme], "LOCATION": location, "OPTIONS": timeouts}


def limits_url() -> str:
    """Returns the Redis in which all workers count; empty if each worker counts separately."""
    given = text("LIMITS_URL", default="")
    if given and not _is_redis(given, "redis", "rediss"):
        raise ImproperlyConfigured(LIMITS_FORMS)
    return given


def email() -> dict[str, Any]:
    """Returns Django's email settings for ``EMAIL_URL``, by name."""
    given = text("EMAIL_URL", default="consolemail://")
    try:
        chosen: dict[str, Any] = environ.Env.email_url_config(given) if _is_email(given) else {}
    except ValueError:
        chosen = {}
    if not chosen:
        raise ImproperlyConfigured(EMAIL_FORMS)
    if chosen["EMAIL_BACKEND"] == environ.Env.EMAIL_SCHEMES["consolemail"]:
        chosen["EMAIL_BACKEND"] = CONSOLE_MAIL
    return chosen


def telegram() -> tuple[str, str]:
    """Returns the name and the token of the Telegram bot; both are empty if there is none."""
    bot, token = text("TELEGRAM_BOT", default=""), text("TELEGRAM_BOT_TOKEN", default="")
    if bot and not TELEGRAM_BOT.fullmatch(bot):
        raise ImproperlyConfigured(
            "TELEGRAM_BOT takes a bot's name such as SignalsBot, or nothing."
        )
    if token and not TELEGRAM_TOKEN.fullmatch(token):
        raise ImproperlyConfigured("TELEGRAM_BOT_TOKEN takes the token of a bot, or nothing.")
    if bool(bot) != bool(token):
        given, missing = ("", "_TOKEN") if bot else ("_TOKEN", "")
        raise ImproperlyConfigured(
            f"TELEGRAM_BOT{given} takes effect with TELEGRAM_BOT{missing} only. Set both or none."
        )
    return bot, token


def _is_database(given: str) -> bool:
    parts = urlsplit(given)
    if parts.scheme == "sqlite":
        return len(parts.path) > 1 and not (parts.netloc or parts.query or parts.fragment)
    known = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
    return parts.scheme in POSTGRESQL and parse_qs(parts.query).keys() <= known


def _can_hold_file(file: str) -> bool:
    return Path(file).parent.is_dir() and not Path(file).is_dir()


def _is_redis(given: str, *schemes: str) -> bool:
    try:
        parts = urlsplit(given)
        plain = not (parts.query or parts.fragment) and parts.port != 0
    except ValueError:
        return False
    numbered = re.fullmatch(r"(/[0-9]{0,4})?", parts.path)
    return parts.scheme in schemes and plain and bool(parts.hostname and numbered)


def _is_email(given: str) -> bool:
    parts = urlsplit(given)
    if parts.query or parts.fragment or "://" not in given:
        return False
    if parts.scheme in SMTP:
        return bool(parts.hostname) and parts.port != 0 and parts.path in {"", "/"}
    return parts.scheme in OTHER_MAIL and (parts.scheme != "filemail" or len(parts.path) > 1)


def _sqlite() -> dict[str, Any]:
    return {
        "CONN_MAX_AGE": None,  # reopening the file takes longer than most requests
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;",
        },
    }


def _postgresql(threads: int) -> dict[str, Any]:
    # The database ends a stalled holder of the log's lock, and those who wait for it give up. Both
    # happen within the two seconds that the contract's `unavailable` allows.
    session = {
        "lock_timeout": "1500ms",
        "idle_in_transaction_session_timeout": "1500ms",
        "statement_timeout": "10s",
        # PostgreSQL compiles statements that it expects to be long. Ours are short: compiling one
        # took 300 ms, and running it 1 ms.
        "jit": "off",
    }
    return {
        "ENGINE": "config.postgresql",
        "OPTIONS": {
            # A repeated statement is parsed and planned once per connection. A transaction pooler
            # in between must support this.
            "server_side_binding": True,
            "prepare_threshold": 5,
            "connect_timeout": 2,
            # Nothing else notices a network that drops packets silently, as a firewall does.
            "tcp_user_timeout": 1500,
            "keepalives_idle": 1,
            "keepalives_interval": 1,
            "keepalives_count": 1,
            "options": " ".join(f"-c {name}={value}" for name, value in session.items()),
            # A pool smaller than the threads would let one stalled writer starve the readers.
            # While the database is down, every request tries again. By default the pool retries at
            # growing intervals, and would notice late that the database is back.
            "pool": {
                "min_size": 1,
                "max_size": max(threads + 1, RUNNER_CONNECTIONS),
                "timeout": 1.5,
                "reconnect_timeout": 0.5,
            },
        },
    }
