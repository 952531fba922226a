"""Reads and checks settings from the environment (contract, section 8).

An invalid setting stops the process with one sentence. It never falls back to a default.
"""

import ipaddress
import os
import re
from collections.abc import Iterable
from email.utils import parseaddr
from pathlib import Path
from urllib.parse import urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured

ROOT = Path(__file__).resolve().parent.parent
KEY_BYTES = 32
MIN_SECRET_KEY_LENGTH = 32  # characters
LEVELS = ("debug", "info", "warning", "error")
ON, OFF = ("on", "true", "yes", "1"), ("off", "false", "no", "0")
LARGEST_NUMBER = 1_000_000
HIGHEST_PORT = 65_535
LIMIT = re.compile(r"[1-9][0-9]{0,8}/(second|minute|hour|day)|off", re.ASCII)
HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,252})", re.ASCII)
HOST_AND_PORT = re.compile(r"[a-z0-9]([a-z0-9.-]{0,252}[a-z0-9])?(:[1-9][0-9]{0,4})?", re.ASCII)
TOKEN = re.compile(rf"[!-~]{{{MIN_SECRET_KEY_LENGTH},}}", re.ASCII)
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
MAILBOX = re.compile(r"[^\s@]+@[^\s@]+")


def text(name: str, *, default: str) -> str:
    """Returns the setting's text. A setting that is set but empty does not take the default."""
    return os.environ.get(name, default)


def read_file() -> None:
    """Reads ``ENV_FILE`` or ``.env``. Variables of the environment win."""
    path = text("ENV_FILE", default=str(ROOT / ".env"))
    if "ENV_FILE" not in os.environ and not Path(path).exists():
        return
    try:
        with open(path, encoding="utf-8") as file:
            environ.Env.read_env(file)
    except (OSError, ValueError):
        raise ImproperlyConfigured("ENV_FILE takes the path of a file that can be read.") from None


read_file()


def flag(name: str, *, default: bool) -> bool:
    """Reads a switch. A misspelt value is refused: read as off, it could disable a protection."""
    given = text(name, default="on" if default else "off").lower()
    if given not in ON + OFF:
        raise ImproperlyConfigured(f"{name} takes on or off.")
    return given in ON


def number(name: str, *, default: int, least: int, most: int = LARGEST_NUMBER) -> int:
    """Reads a whole number from ``least`` to ``most``."""
    given = text(name, default=str(default))
    plain = given.isascii() and given.isdigit() and len(given) <= len(str(most))
    if not plain or not least <= int(given) <= most:
        raise ImproperlyConfigured(f"{name} takes a whole number from {least} to {most}.")
    return int(given)


def level(name: str, *, default: str) -> str:
    """Reads the lowest level that is logged."""
    given = text(name, default=default)
    if given not in LEVELS:
        raise ImproperlyConfigured(f"{name} takes one of {', '.join(LEVELS)}.")
    return given


def metrics_token() -> str:
    """Reads the token for ``/metrics``; empty if the metrics are off."""
    given = text("METRICS_TOKEN", default="")
    if given and not TOKEN.fullmatch(given):
        raise ImproperlyConfigured(
            f"METRICS_TOKEN takes {MIN_SECRET_KEY_LENGTH} random characters or more, or nothing."
        )
    return given


def limit(name: str, default: str) -> str:
    """Reads a limit: ``120/minute``, or ``off``."""
    given = text(name, default=default)
    if not LIMIT.fullmatch(given):
        raise ImproperlyConfigured(f"{name} takes a limit such as {default}, or off.")
    return given


def number_or_off(name: str, *, default: int) -> int | None:
    """Reads a whole number of at least 1; None for ``off``."""
    if text(name, default=str(default)) == "off":
        return None
    return number(name, default=default, least=1)


def secret_keys(*, debug: bool) -> list[str]:
    """Reads the keys of sessions and links. The first signs, and all verify."""
    stand_in = "for development only" * 3
    found = _required("SECRET_KEY", debug=debug, stand_in=stand_in).split(",")
    if any(len(key) < MIN_SECRET_KEY_LENGTH for key in found):
        raise ImproperlyConfigured(
            f"SECRET_KEY takes keys of {MIN_SECRET_KEY_LENGTH} random characters or more, "
            "separated by commas (openssl rand -hex 32)."
        )
    if stand_in in found and not debug:
        raise ImproperlyConfigured("SECRET_KEY holds a stand-in, not a random key.")
    return found


def _required(name: str, *, debug: bool, stand_in: str) -> str:
    """Returns a required setting. With ``DEBUG``, a public placeholder is used if it is not set."""
    given = text(name, default=stand_in if debug else "")
    if not given or (given == stand_in and not debug):
        raise ImproperlyConfigured(f"{name} is not set. See .env.example for its meaning.")
    return given


def keys(name: str, *, debug: bool) -> list[bytes]:
    """Reads keys of 32 bytes in hex, separated by commas. The first is used for new data."""
    given = _required(name, debug=debug, stand_in="00" * KEY_BYTES)
    try:
        found = [bytes.fromhex(part) for part in given.split(",")]
    except ValueError:
        found = []
    if not found or any(len(key) != KEY_BYTES for key in found):
        raise ImproperlyConfigured(
            f"{name} takes keys of 32 bytes in hex, separated by commas (openssl rand -hex 32)."
        )
    if not debug and any(len(set(key)) == 1 for key in found):
        raise ImproperlyConfigured(f"{name} holds a stand-in, not a random key.")
    return found


def base_url(default: str) -> str:
    """Reads the public address: scheme, host and optionally a port."""
    given = text("BASE_URL", default=default)
    try:
        parts = urlsplit(given)
        whole = parts.scheme in {"http", "https"} and parts.port != 0 and _is_host(parts.hostname)
        alone = not (parts.path or parts.query or parts.fragment or "@" in parts.netloc)
    except ValueError:
        whole = alone = False
    if not whole or not alone or given[-1] in "?#:":
        raise ImproperlyConfigured("BASE_URL takes an address such as https://signals.example.")
    return given


def host_of(address: str) -> str:
    """Returns the host name or IP address of an address."""
    return urlsplit(address).hostname or ""


def allowed_hosts(default: str) -> list[str]:
    """Reads the accepted values of the Host header, as Django expects them."""
    names = text("ALLOWED_HOSTS", default=default).split(",")
    if not all(name == "*" or _is_host(name.removeprefix(".").strip("[]")) for name in names):
        raise ImproperlyConfigured(
            "ALLOWED_HOSTS takes names such as signals.example, separated by commas, without ports."
        )
    return names


def from_email(default: str) -> str:
    """Reads the sender of emails: an address, or a name and an address in angle brackets."""
    if "FROM_EMAIL" not in os.environ:
        return default
    given = text("FROM_EMAIL", default=default)
    if not given.isprintable() or not MAILBOX.fullmatch(parseaddr(given)[1]):
        raise ImproperlyConfigured("FROM_EMAIL takes an address such as signals@signals.example.")
    return given


def host() -> str:
    """Reads the address on which both servers listen. IPv6 without brackets."""
    given = text("HOST", default="127.0.0.1").strip("[]")
    if not _is_host(given):
        raise ImproperlyConfigured("HOST takes an address to listen at, such as 127.0.0.1.")
    return given


def bind(host: str, port: int) -> str:
    """Returns an address in gunicorn's format."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def networks(name: str) -> list[Network]:
    """Reads networks, separated by commas; none by default."""
    given = text(name, default="")
    try:
        return [ipaddress.ip_network(part) for part in given.split(",") if given]
    except ValueError:
        raise ImproperlyConfigured(
            f"{name} takes networks such as 10.1.0.0/16, separated by commas, or nothing."
        ) from None


def hosts(name: str) -> list[str]:
    """Reads hosts, each with a port if that is not 443, separated by commas; none by default."""
    given = text(name, default="")
    found = given.split(",") if given else []
    if not all(HOST_AND_PORT.fullmatch(host) and ".." not in host for host in found):
        raise ImproperlyConfigured(
            f"{name} takes hosts such as ntfy.example or ntfy.example:8443, in lower case, "
            "separated by commas, or nothing."
        )
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
    """Returns whether the text is a host name or an IP address. IPv6 without brackets."""
    if host and ":" in host:
        try:
            return bool(ipaddress.IPv6Address(host))
        except ValueError:
            return False
    return bool(host and HOST_NAME.fullmatch(host) and ".." not in host)
