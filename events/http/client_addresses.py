"""The IP address of a client, from trusted sources only."""

import ipaddress

from django.conf import settings
from django.http import HttpRequest

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# A customer of an internet provider has a /64 network or more. Its addresses count as one client.
IPV6_PREFIX_LENGTH = 64
# A client of the Unix socket runs on this machine.
UNIX_SOCKET_ADDRESS = ipaddress.IPv4Address("127.0.0.1")


def client_address(request: HttpRequest) -> str:
    """The client's IP address, as the outermost trusted proxy saw it.

    X-Forwarded-For is ignored without a trusted proxy, because any client can send it. If the
    header contains no valid address, this returns the address of the connection: the proxy's.
    """
    return str(_client(request))


def rate_limit_address(request: HttpRequest) -> str:
    """The key for rate limits: the IPv4 address, or the /64 network of the IPv6 address."""
    address = _client(request)
    if address.version == 4:
        return str(address)
    return str(ipaddress.IPv6Network((address, IPV6_PREFIX_LENGTH), strict=False))


def _client(request: HttpRequest) -> Address:
    proxies = settings.TRUSTED_PROXIES
    hops = request.META.get("HTTP_X_FORWARDED_FOR", "").split(",")
    forwarded = _parse(hops[-proxies]) if proxies and len(hops) >= proxies else None
    return forwarded or _parse(request.META.get("REMOTE_ADDR", "")) or UNIX_SOCKET_ADDRESS


def _parse(text: str) -> Address | None:
    """The address in ``192.0.2.1``, ``192.0.2.1:55``, ``::1`` or ``[::1]:55``; otherwise None.

    An IPv4-mapped IPv6 address becomes an IPv4 address.
    """
    host = text.strip()
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
