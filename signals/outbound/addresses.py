"""Which URLs and addresses the service may send to: nothing inside its own network.

``check_url`` reads a URL once. What it returns, and not the text, is what the transport uses, so
that no second parser can read another host. ``is_open`` decides about an address, after a name was
resolved. Both refuse what they do not know.
"""

import re
from collections.abc import Sequence
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import NamedTuple

import idna
from django.conf import settings

from events.http.refusals import FieldCode

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

MAX_URL_LENGTH = 2048
PORTS = {"https": 443, "http": 80}
OPEN_PORTS = (443, 8443)

# Visible ASCII only. A backslash is refused, because some parsers read it as a slash.
URL_FORM = re.compile(
    r"(?P<scheme>[a-z]+)://(?P<authority>[^/?#\\]*)(?P<target>[/?][!$-\[\]-~]*)?", re.I
)
PORT_FORM = re.compile(r"(?P<host>\[[^\]]*\]|[^:\[\]]*)(:(?P<port>[1-9][0-9]{0,4}))?")
HOST_FORM = re.compile(r"[a-z0-9.-]*[a-z0-9]")  # without a trailing dot
# A last label that looks like a number makes the whole host an IPv4 address, in some spelling.
NUMBER_FORM = re.compile(r"([0-9]+|0x[0-9a-f]*)")

# Unicast addresses of the internet. Python's ``is_global`` knows most of those in them that lead
# elsewhere; releases of Python differ about the networks below, or call them public: protocols,
# multicast, Teredo and 6to4 (which lead to any address of IPv4), and documentation.
PUBLIC_IPV6 = IPv6Network("2000::/3")
AZURE = "168.63.129.16/32"  # there, the host of the machine: its settings and keys
NOT_PUBLIC: list[Network] = [
    ip_network(network)
    for network in (
        *("192.0.0.0/24", "192.88.99.0/24", "224.0.0.0/4"),
        AZURE,
        *("2001::/23", "2002::/16", "3fff::/20"),
    )
]
LOOPBACK: list[Network] = [ip_network("127.0.0.0/8"), ip_network("::1/128")]
# DELIVERY_ALLOW never opens these: unspecified, link-local, multicast and broadcast addresses, and
# IPv6 addresses that lead to an address of IPv4. An operator names the address of IPv4 itself.
NEVER: list[Network] = [
    ip_network(network)
    for network in (
        "0.0.0.0/8",
        "169.254.0.0/16",
        "224.0.0.0/4",
        "255.255.255.255/32",
        AZURE,
        "::/128",
        "::/96",
        "::ffff:0:0/96",
        "::ffff:0:0:0/96",
        "64:ff9b::/96",
        "64:ff9b:1::/48",
        "2001::/32",
        "2002::/16",
        "fe80::/10",
        "ff00::/8",
    )
]


class ForbiddenURL(ValueError):
    """The service does not send to this URL. ``sentence`` says why, and never repeats the URL.

    ``code`` is ``form``, ``scheme``, ``credentials``, ``host``, ``port`` or ``address``.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code, self.sentence = code, text

    @property
    def field_code(self) -> FieldCode:
        """What is wrong with the field that holds the URL."""
        return FieldCode.FORBIDDEN if self.code in ("port", "address") else FieldCode.FORM


class Target(NamedTuple):
    """A checked URL. ``host`` is a name in ASCII or an address without brackets.

    Only the host may be shown or logged: the rest of a URL can be a secret.
    """

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL in the one form in which it is stored."""
        return f"{self.scheme}://{self.authority}{self.path}"

    @property
    def is_usual(self) -> bool:
        """Whether scheme and port are those of a public endpoint."""
        return self.scheme == "https" and self.port in OPEN_PORTS


def check_url(text: str) -> Target:
    """Reads and checks a URL without resolving its name. Raises ``ForbiddenURL``."""
    match = URL_FORM.fullmatch(text) if len(text) <= MAX_URL_LENGTH else None
    if match is None:
        raise ForbiddenURL("form", "Enter an address such as https://hooks.example/signals.")
    authority = match["authority"]
    if "@" in authority:
        raise ForbiddenURL("credentials", "Leave out the user name and the password.")
    scheme = match["scheme"].lower()
    if scheme not in PORTS:
        raise ForbiddenURL("scheme", "The address must begin with https://.")
    parts = PORT_FORM.fullmatch(authority)
    if parts is None:
        raise ForbiddenURL("host", "The address has no valid host and port.")
    path = match["target"] or "/"
    target = Target(
        scheme,
        _host(parts["host"]),
        int(parts["port"] or PORTS[scheme]),
        path if path.startswith("/") else f"/{path}",
    )
    _check_target(target)
    return target


def _check_target(target: Target) -> None:
    address = as_address(target.host)
    if address is not None and not is_open(address, usual=target.is_usual):
        raise ForbiddenURL("address", "The service does not send to this address.")
    if target.port > 65_535:
        raise ForbiddenURL("port", "The port must be 443 or 8443.")
    if target.is_usual or settings.DELIVERY_ALLOW:
        return
    if target.scheme != "https":
        raise ForbiddenURL("scheme", "The address must begin with https://.")
    raise ForbiddenURL("port", "The port must be 443 or 8443.")


def as_address(host: str) -> Address | None:
    """The address that a checked host is, or None if it is a name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


def is_open(address: Address, *, usual: bool) -> bool:
    """Whether the service may connect to this address.

    ``usual`` is whether it would do so with https, at a usual port. Anything else needs
    ``DELIVERY_ALLOW``.
    """
    return (usual and _is_public(address)) or _is_allowed(address)


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv6Address) and (
        address.scope_id is not None or address not in PUBLIC_IPV6
    ):
        return False
    return address.is_global and not _is_in(NOT_PUBLIC, address)


def _is_allowed(address: Address) -> bool:
    """Whether ``DELIVERY_ALLOW`` opens the address. Loopback never, while HTTPS is required."""
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        return False
    is_loopback = _is_in(LOOPBACK, address)
    refused = settings.REQUIRE_HTTPS if is_loopback else _is_in(NEVER, address)
    return not refused and _is_in(settings.DELIVERY_ALLOW, address)


def _is_in(networks: Sequence[Network], address: Address) -> bool:
    return any(address in network for network in networks)


def _host(text: str) -> str:
    """The host in its one form. Raises ``ForbiddenURL`` for every odd spelling of an address."""
    if text.startswith("["):
        try:
            address = IPv6Address(text[1:-1])
        except ValueError:
            raise ForbiddenURL("host", "The address in brackets is not an IPv6 address.") from None
        if address.scope_id is not None:
            raise ForbiddenURL("host", "The service does not send to an address with a zone.")
        return str(address)
    try:
        name = idna.encode(text, uts46=True).decode("ascii").lower()
    except UnicodeError:
        raise ForbiddenURL("host", "The host is not a valid name.") from None
    if not HOST_FORM.fullmatch(name):
        raise ForbiddenURL("host", "The host is not a valid name.")
    if NUMBER_FORM.fullmatch(name.rpartition(".")[2]):
        try:
            return str(IPv4Address(name))
        except ValueError:
            raise ForbiddenURL("host", "Write an IPv4 address as four decimal numbers.") from None
    return name
