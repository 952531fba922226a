"""Where a request comes from, as far as it can be believed."""

from django.conf import settings
from django.http import HttpRequest


def client_address(request: HttpRequest) -> str:
    """The address of the client: the one that the outermost trusted proxy saw.

    With no trusted proxy the forwarding header is anybody's word, and is not looked at.
    """
    proxies = settings.TRUSTED_PROXIES
    hops = request.headers.get("X-Forwarded-For", "").split(",")
    if proxies and len(hops) >= proxies and hops[-proxies].strip():
        return hops[-proxies].strip()
    return str(request.META.get("REMOTE_ADDR", ""))
