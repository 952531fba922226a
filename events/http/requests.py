"""What a request says of itself, and what the service notes about it while it handles it.

The client's address comes from trusted sources only.
"""

import ipaddress
import re
from dataclasses import dataclass

from django.conf import settings
from django.http import HttpRequest

from events.http.rate_limits import Budget
from events.json_schema import JsonObject

_NAME = "service_state"


@dataclass(slots=True)
class RequestState:
    """``id`` is set by the first middleware, ``outcome`` by the view. Before that both are None."""

    id: str | None = None
    # The JSON object in the body. None until it is parsed.
    json_body: JsonObject | None = None
    # The most restrictive of the rate limits that counted the request.
    budget: Budget | None = None
    # The code of the refusal, or the outcome of the signal.
    outcome: str | None = None
    # The primary key of the signed-in user. None unless something loaded the user.
    user_pk: int | None = None


def state_of(request: HttpRequest) -> RequestState:
    """The state of this request. Repeated calls return the same object."""
    state: RequestState | None = vars(request).get(_NAME)
    if state is None:
        state = vars(request)[_NAME] = RequestState()
    return state


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


# Some clients leave out the zero before the point.
_WEIGHT = re.compile(r"0?\.\d{1,3}|0\.?|1(\.0{0,3})?", re.ASCII)
# From the most specific range to the least: the first one that a client names gives the weight.
JSON_RANGES = ("application/json", "application/*", "*/*")


def media_weights(accept: str) -> dict[str, float]:
    """The weight of each media range of an ``Accept``, or each encoding of an ``Accept-Encoding``.

    A malformed weight makes the header say nothing.
    """
    found = {}
    for part in accept.lower().split(","):
        name, *parameters = (text.strip() for text in part.split(";"))
        named = (parameter.partition("=") for parameter in parameters)
        weight = next((value.strip() for key, _, value in named if key.strip() == "q"), "1")
        if not _WEIGHT.fullmatch(weight):
            return {}
        found[name] = float(weight)
    return found


def json_weight(weights: dict[str, float]) -> float:
    """The weight of JSON among ``media_weights``; 0 if the client does not accept it."""
    return next((weights[name] for name in JSON_RANGES if name in weights), 0.0)
