"""The headers that present a credential: their form, without the database (contract, section 3)."""

import time
from dataclasses import dataclass

from django.http.request import HttpHeaders
from rest_framework.request import Request

from events.http.refusals import SignatureInvalid, SignatureMissing, TimestampInvalid, TokenInvalid
from tokens.callers.throttles import count_failure
from tokens.crypto import formats, signing

BEARER = "bearer"
# The names in META. Reading request.headers would convert every header first.
AUTHORIZATION = HttpHeaders.to_wsgi_name("Authorization")
TIMESTAMP = HttpHeaders.to_wsgi_name(signing.TIMESTAMP_HEADER)
SIGNATURE = HttpHeaders.to_wsgi_name(signing.SIGNATURE_HEADER)


@dataclass(frozen=True, slots=True)
class SignedHeaders:
    """The parsed signing headers."""

    timestamp: int
    signatures: list[str]


def read_bearer(request: Request) -> str | None:
    """The Bearer token, with its checksum verified; None if there is no ``Authorization``.

    Raises ``TokenInvalid`` for any other header.
    """
    header: str | None = request._request.META.get(AUTHORIZATION)
    if header is None:
        return None
    scheme, _, value = header.partition(" ")
    whole = formats.is_credential(value, formats.DESK_TOKEN, formats.PLATFORM_TOKEN)
    if scheme.lower() != BEARER or not whole:
        raise count_failure(request, TokenInvalid())
    return value


def read_signed_headers(request: Request) -> SignedHeaders | None:
    """The parsed signing headers; None if both are missing.

    Raises ``SignatureMissing``, ``TimestampInvalid`` or ``SignatureInvalid``.
    """
    timestamp = request._request.META.get(TIMESTAMP)
    signature = request._request.META.get(SIGNATURE)
    if timestamp is None and signature is None:
        return None
    if timestamp is None or signature is None:
        raise SignatureMissing
    moment, signatures = signing.read_timestamp(timestamp), signing.read_signatures(signature)
    if moment is None:
        raise TimestampInvalid(serverTime=int(time.time()))
    if not signatures:
        raise count_failure(request, SignatureInvalid())
    return SignedHeaders(moment, signatures)
