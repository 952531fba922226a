"""Reads and checks settings from the environment (contract, section 8).

An invalid setting stops the process with one sentence. It never falls back to a default. No
sentence repeats a value, because it may contain a password.
"""

import ipaddress
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from email.utils import parseaddr
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from django.core.exceptions import ImproperlyConfigured
from environ import Env
from psycopg import pq

ROOT = Path(__file__).resolve().parent.parent
KEY_BYTES = 32
MIN_SECRET_KEY_LENGTH = 32  # characters
TEXT_KEY = f"[^,]{{{MIN_SECRET_KEY_LENGTH},}}"
HEX_KEY = f"[0-9A-Fa-f]{{{2 * KEY_BYTES}}}"
LARGEST_NUMBER = 1_000_000
HIGHEST_PORT = 65_535
SWITCHES = {
    **dict.fromkeys(("on", "true", "yes", "1"), True),
    **dict.fromkeys(("off", "false", "no", "0"), False),
}
LIMIT = r"[1-9][0-9]{0,8}/(second|minute|hour|day)|off"
HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,252})", re.ASCII)
HOST_AND_PORT = re.compile(r"[a-z0-9]([a-z0-9.-]{0,252}[a-z0-9])?(:[1-9][0-9]{0,4})?", re.ASCII)
BOT_NAME = "(?i:[a-z][a-z0-9_]{1,28}bot)?"
BOT_TOKEN = "([0-9]{6,16}:[-_A-Za-z0-9]{30,64})?"  # noqa: S105 - its form
MAILBOX = re.compile(r"[^\s@]+@[^\s@]+")
POSTGRESQL = {"postgres", "postgresql", "psql", "pgsql"}
SMTP = {"smtp", "smtps", "smtp+tls", "smtp+ssl"}
OTHER_MAIL = {"consolemail", "filemail", "memorymail", "dummymail"}
CONSOLE_MAIL = "config.accounts.check_your_email.PrintedMail"
# What `manage.py deliver` opens at most, whatever THREADS is: each of its threads keeps its own.
RUNNER_CONNECTIONS = 16
# The cache counts failed sign-ins. In a small cache, failures elsewhere would evict the counters.
MAX_CACHE_ENTRIES = 100_000

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Backend = dict[str, Any]  # Django's settings of a database or a cache

# --- Every setting -------------------------------------------------------------------------------


def read_file() -> None:
    """Reads ``ENV_FILE`` or ``.env``. Variables of the environment win."""
    path = os.environ.get("ENV_FILE", str(ROOT / ".env"))
    if "ENV_FILE" not in os.environ and not Path(path).exists():
        return
    try:
        with open(path, encoding="utf-8") as file:
            Env.read_env(file)
    except (OSError, ValueError):
        raise ImproperlyConfigured("ENV_FILE takes the path of a file that can be read.") from None


@contextmanager
def setting(name: str, default: str, takes: str) -> Iterator[str]:
    """Gives the text of a setting to a block that converts it. Empty is a value, not the default.

    The block raises ``ValueError`` or ``LookupError`` for what is not ``takes``.
    """
    # Not django-environ's own casts: they read a misspelt switch as off, "1_0" as a number, and
    # "$THREADS" from another variable.
    try:
        yield os.environ.get(name, default)
    except (LookupError, ValueError):
        raise ImproperlyConfigured(f"{name} takes {takes}.") from None


def text(name: str, default: str, pattern: str, takes: str) -> str:
    """Reads a text of the form ``pattern``."""
    with setting(name, default, takes) as given:
        return _matching(pattern, given)


def flag(name: str, *, default: bool) -> bool:
    """Reads a switch. A misspelt value is refused: read as off, it could disable a protection."""
    with setting(name, "on" if default else "off", "on or off") as given:
        return SWITCHES[given.lower()]


def number(name: str, default: int, *, least: int = 1, most: int = LARGEST_NUMBER) -> int:
    """Reads a whole number from ``least`` to ``most``."""
    with setting(name, str(default), f"a whole number from {least} to {most}") as given:
        found = int(_matching("[0-9]{1,7}", given))
        _require(least <= found <= most)
        return found


def telemetry() -> bool:
    """Whether spans are sent. OpenTelemetry itself reads the address, and its other variables."""
    takes = "the address of a collector, such as http://127.0.0.1:4318, or nothing"
    address = text("OTEL_EXPORTER_OTLP_ENDPOINT", "", r"(https?://[!-~]+)?", takes)
    if address and not find_spec("opentelemetry"):
        raise ImproperlyConfigured(
            "OTEL_EXPORTER_OTLP_ENDPOINT needs what requirements/telemetry.txt lists."
        )
    return bool(address)


def number_or_off(name: str, default: int) -> int | None:
    """Reads a whole number of at least 1; None for ``off``."""
    return None if os.environ.get(name) == "off" else number(name, default)


def limit(name: str, default: str) -> str:
    """Reads a limit: ``120/minute``, or ``off``."""
    return text(name, default, LIMIT, f"a limit such as {default}, or off")


def _matching(pattern: str, given: str) -> str:
    _require(re.fullmatch(pattern, given, re.ASCII))
    return given


def _require(condition: object) -> None:
    if not condition:
        raise ValueError


# --- Keys ----------------------------------------------------------------------------------------


def keys(
    name: str,
    form: str = TEXT_KEY,
    takes: str = f"keys of {MIN_SECRET_KEY_LENGTH} random characters or more",
    stand_in: str = "for development only" * 3,
    *,
    debug: bool,
) -> list[str]:
    """Reads the keys of a required setting, separated by commas. The first is used for new data.

    Only with ``DEBUG`` may one be a public stand-in, which repeats itself.
    """
    default = stand_in if debug else ""
    given = os.environ.get(name, default)
    if not given or (given == stand_in and not debug):
        raise ImproperlyConfigured(f"{name} is not set. See .env.example for its meaning.")
    takes = f"{takes}, separated by commas (openssl rand -hex 32)"
    found = text(name, default, f"{form}(,{form})*", takes).split(",")
    if not debug and any(key in f"{key}{key}"[1:-1] for key in found):
        raise ImproperlyConfigured(f"{name} holds a stand-in, not a random key.")
    return found


def hex_keys(name: str, *, debug: bool) -> list[bytes]:
    """Reads keys of 32 bytes in hex."""
    takes, stand_in = f"keys of {KEY_BYTES} bytes in hex", "00" * KEY_BYTES
    return [bytes.fromhex(key) for key in keys(name, HEX_KEY, takes, stand_in, debug=debug)]


# --- Addresses -----------------------------------------------------------------------------------


def base_url(default: str) -> str:
    """Reads the public address: scheme, host and optionally a port."""
    with setting("BASE_URL", default, "an address such as https://signals.example") as given:
        parts = urlsplit(given)
        _require(parts.scheme in {"http", "https"} and parts.port != 0 and _is_host(parts.hostname))
        _require(not (parts.path or parts.query or parts.fragment or "@" in parts.netloc))
        _require(given[-1] not in "?#:")
        return given


def host_of(address: str) -> str:
    """Returns the host name or IP address of an address."""
    return urlsplit(address).hostname or ""


def allowed_hosts(default: str) -> list[str]:
    """Reads the accepted values of the Host header, as Django expects them: IPv6 in brackets."""
    takes = "names such as signals.example, separated by commas, without ports"
    with setting("ALLOWED_HOSTS", default, takes) as given:
        names = [name.strip("[]") for name in given.split(",")]
        _require(all(name == "*" or _is_host(name.removeprefix(".")) for name in names))
        return [_in_address(name) for name in names]


def from_email(default: str) -> str:
    """Reads the sender of emails: an address, or a name and an address in angle brackets."""
    with setting("FROM_EMAIL", default, "an address such as signals@signals.example") as given:
        _require(given == default or MAILBOX.fullmatch(parseaddr(given)[1]))
        _require(given.isprintable())
        return given


def host() -> str:
    """Reads the address on which both servers listen. IPv6 without brackets."""
    takes = "an address to listen at, such as 127.0.0.1"
    with setting("HOST", "127.0.0.1", takes) as given:
        address = given.strip("[]")
        _require(_is_host(address))
        return address


def host_and_port(host: str, port: int) -> str:
    """Returns both as they stand in an address."""
    return f"{_in_address(host)}:{port}"


def _in_address(host: str) -> str:
    """Returns a host as it stands in an address: IPv6 in brackets."""
    return f"[{host}]" if ":" in host else host


def networks(name: str) -> list[Network]:
    """Reads networks, separated by commas; none by default."""
    takes = "networks such as 10.1.0.0/16, separated by commas, or nothing"
    with setting(name, "", takes) as given:
        return [ipaddress.ip_network(each) for each in _items(given)]


def hosts(name: str) -> list[str]:
    """Reads hosts, each with a port if that is not 443, separated by commas; none by default."""
    takes = (
        "hosts such as ntfy.example or ntfy.example:8443, in lower case, separated by commas, or "
        "nothing"
    )
    with setting(name, "", takes) as given:
        found = _items(given)
        _require(all(HOST_AND_PORT.fullmatch(host) and ".." not in host for host in found))
        return found


def refuse_public(hosts: Iterable[str], trusted_proxies: int) -> None:
    """Raises ``ImproperlyConfigured`` for a public address without a proxy.

    A proxy absorbs slow clients.
    """
    if not trusted_proxies and not all(map(is_loopback, hosts)):
        raise ImproperlyConfigured(
            "HOST is not a loopback address and TRUSTED_PROXIES is 0. Put a proxy in front, as "
            "deploy/nginx.conf does, and set TRUSTED_PROXIES to 1."
        )


def is_loopback(host: str) -> bool:
    """Returns whether only this machine can reach the address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_host(host: str | None) -> bool:
    """Returns whether the text is a host name or an IP address. IPv6 without brackets.

    Raises ``ValueError`` for a malformed IPv6 address.
    """
    if host and ":" in host:
        return bool(ipaddress.IPv6Address(host))
    return bool(host and HOST_NAME.fullmatch(host) and ".." not in host)


def _items(given: str) -> list[str]:
    return given.split(",") if given else []


# --- Other services ------------------------------------------------------------------------------


def database(threads: int) -> Backend:
    """Returns Django's settings for the database in ``DATABASE_URL``."""
    takes = (
        "postgres://name:password@host:5432/database or sqlite:////folder/file, in an existing "
        "folder"
    )
    with setting("DATABASE_URL", f"sqlite:///{ROOT / 'service.sqlite3'}", takes) as given:
        chosen = _database(given)
    return _with_ours(chosen, _sqlite() if "sqlite" in chosen["ENGINE"] else _postgresql(threads))


def replica(threads: int, database: Backend) -> Backend | None:
    """Returns Django's settings for ``REPLICA_URL``; None if there is none.

    ``HOST`` and ``PORT`` have as many items, separated by commas.
    """
    takes = "postgres://name@host1:5432,host2:5432/database, with a port for each host, or nothing"
    with setting("REPLICA_URL", "", takes) as given:
        if not given:
            return None
        chosen = _database(given)
        _require("sqlite" not in chosen["ENGINE"] and "hostaddr" not in chosen.get("OPTIONS", {}))
        hosts, ports = str(chosen["HOST"]).split(","), str(chosen["PORT"]).split(",")
        _require(len(hosts) == len(ports) and all([*hosts, *ports]))
    if "sqlite" in database["ENGINE"]:
        raise ImproperlyConfigured("REPLICA_URL takes effect with PostgreSQL in DATABASE_URL only.")
    return _with_ours(chosen, {**_postgresql(threads), "ENGINE": "config.replica"})


def _database(given: str) -> Backend:
    parts = urlsplit(given)
    if parts.scheme == "sqlite":
        _require(len(parts.path) > 1 and not (parts.netloc or parts.query or parts.fragment))
    else:
        known = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
        _require(parts.scheme in POSTGRESQL and parse_qs(parts.query).keys() <= known)
    chosen: Backend = Env.db_url_config(given)
    file = Path(chosen["NAME"])
    _require(parts.scheme != "sqlite" or (file.parent.is_dir() and not file.is_dir()))
    _require(chosen["NAME"])
    return chosen


def _with_ours(chosen: Backend, ours: Backend) -> Backend:
    # Options in the address, such as sslmode, override ours.
    return {**chosen, **ours, "OPTIONS": {**ours["OPTIONS"], **chosen.get("OPTIONS", {})}}


def usual_workers(database: Backend) -> int:
    """Returns the default number of worker processes.

    One per core, because a process runs Python on one core only. At least two, so that the service
    survives one that hangs. At most four: each may open THREADS + 1 connections, and PostgreSQL
    accepts 100 by default. SQLite has one writer at a time, so two are enough.
    """
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    return max(2, min(cores, 2 if "sqlite" in database["ENGINE"] else 4))


def cache() -> Backend:
    """Returns Django's settings for the cache in ``CACHE_URL``."""
    takes = "dbcache://table or rediscache://:password@host:6379/0"
    with setting("CACHE_URL", "dbcache://cache", takes) as given:
        scheme, _, rest = given.partition("://")
        if scheme == "dbcache":
            return {
                "BACKEND": "config.caches.DatabaseCache",
                "LOCATION": _matching("[a-z_][a-z0-9_]{0,50}", rest),
                "OPTIONS": {"MAX_ENTRIES": MAX_CACHE_ENTRIES},
            }
        _require(scheme == "rediscache")
        return {
            "BACKEND": "config.caches.RedisCache",
            "LOCATION": _redis(f"redis://{rest}"),
            "OPTIONS": {
                # A Redis that hangs counts as down. The contract's `unavailable` allows two
                # seconds.
                "socket_timeout": 1,
                "socket_connect_timeout": 1,
            },
        }


def limits_url() -> str:
    """Returns the Redis in which all workers count; empty if each worker counts separately."""
    with setting("LIMITS_URL", "", "redis://:password@host:6379/1, or nothing") as given:
        return given and _redis(given)


def email() -> dict[str, object]:
    """Returns Django's email settings for ``EMAIL_URL``, by name."""
    takes = "smtp+tls://name:password@host:587, consolemail:// or filemail:////folder"
    with setting("EMAIL_URL", "consolemail://", takes) as given:
        parts = urlsplit(given)
        _require("://" in given and not (parts.query or parts.fragment))
        if parts.scheme in SMTP:
            _require(parts.hostname and parts.port != 0 and parts.path in {"", "/"})
        else:
            _require(parts.scheme in OTHER_MAIL)
            _require(parts.scheme != "filemail" or len(parts.path) > 1)
        chosen: dict[str, object] = Env.email_url_config(given)
        return chosen if parts.scheme != "consolemail" else {"EMAIL_BACKEND": CONSOLE_MAIL}


def telegram() -> tuple[str, str]:
    """Returns the name and the token of the Telegram bot; both are empty if there is none."""
    bot = text("TELEGRAM_BOT", "", BOT_NAME, "a bot's name such as SignalsBot, or nothing")
    token = text("TELEGRAM_BOT_TOKEN", "", BOT_TOKEN, "the token of a bot, or nothing")
    if bool(bot) != bool(token):
        given, missing = ("", "_TOKEN") if bot else ("_TOKEN", "")
        raise ImproperlyConfigured(
            f"TELEGRAM_BOT{given} takes effect with TELEGRAM_BOT{missing} only. Set both or none."
        )
    return bot, token


def _redis(given: str) -> str:
    parts = urlsplit(given)
    _require(parts.scheme in {"redis", "rediss"} and parts.hostname and parts.port != 0)
    _require(not (parts.query or parts.fragment) and re.fullmatch(r"(/[0-9]{0,4})?", parts.path))
    return given


def _sqlite() -> Backend:
    return {
        "CONN_MAX_AGE": None,  # reopening the file takes longer than most requests
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;",
        },
    }


def _postgresql(threads: int) -> Backend:
    # The database ends a stalled holder of the log's lock, and those who wait for it give up. Both
    # happen within the two seconds that the contract's `unavailable` allows.
    session = {
        "lock_timeout": "1500ms",
        "idle_in_transaction_session_timeout": "1500ms",
        "statement_timeout": "10s",
        # PostgreSQL compiles statements that it expects to be long. Ours are short: compiling one
        # took 300 ms, and running it 1 ms.
        "jit": "off",
        # Reads follow an index and stop early. With the default of 4, meant for disks that turn,
        # PostgreSQL rather collected and sorted all events of a bot, of which it expects too few.
        "random_page_cost": "1.1",
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
