"""Authentication by Bearer token, by signature or by session (contract, section 3).

``request.auth`` is the credential that authorises the request: a ``Token`` or a ``SigningSecret``.
For a session it is None and ``request.user`` is the user. Each class raises its own refusal, so
every view has an authenticated caller.

The contract (section 5) fixes the order of the checks: the form of the credentials, the timestamp,
the Bearer token; on the hook also the form of the body, its source and the signature.
"""

import logging
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.http import QueryDict
from django.http.request import HttpHeaders
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication, CSRFCheck
from rest_framework.request import Request

from desks.models import User
from events.http import limits
from events.http.bodies import json_body, raw_body
from events.http.client_addresses import rate_limit_address
from events.http.refusals import (
    CredentialsMissing,
    CsrfFailed,
    FloorSecretRefused,
    SignatureInvalid,
    SignatureMissing,
    SignInRequired,
    TimestampInvalid,
    TokenInvalid,
    Unauthenticated,
)
from events.writer_queue import try_write_lock
from tokens.callers import statements
from tokens.choices import Source
from tokens.crypto import formats, keys, signing
from tokens.models import SigningSecret, Token

logger = logging.getLogger(__name__)

BEARER = "bearer"
# The names in META. Reading request.headers would convert every header first.
AUTHORIZATION = HttpHeaders.to_wsgi_name("Authorization")
TIMESTAMP = HttpHeaders.to_wsgi_name(signing.TIMESTAMP_HEADER)
SIGNATURE = HttpHeaders.to_wsgi_name(signing.SIGNATURE_HEADER)
LAST_USED_INTERVAL = timedelta(minutes=1)
MAX_LIVE = 2  # live secrets of one owner
DUMMY_SECRET = formats.new(formats.SIGNING_SECRET)


@dataclass(frozen=True, slots=True)
class SignedHeaders:
    """The parsed signing headers."""

    timestamp: int
    signatures: list[str]


class BearerAuthentication(BaseAuthentication):
    """Accepts only ``Authorization: Bearer <token>``."""

    def authenticate(self, request: Request) -> tuple[None, Token]:
        value = read_bearer(request)
        if value is None:
            raise CredentialsMissing
        return None, active_token(request, value)

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class SignerAuthentication(BaseAuthentication):
    """Accepts a Bearer token, a signature, or both; with both, the signature authorises."""

    def __init__(self, *, notes_use: bool = True) -> None:
        self._notes_use = notes_use

    def authenticate(self, request: Request) -> tuple[None, Token | SigningSecret]:
        value, signed = read_bearer(request), read_signed_headers(request)
        if value is None and signed is None:
            raise CredentialsMissing
        if signed:
            _check_clock(signed.timestamp)
        token = active_token(request, value, notes_use=self._notes_use) if value else None
        body = json_body(request, any_type=True)
        if signed:
            return None, _signer(request, signed, body)
        if token is None or body.get("source") == Source.TRADINGVIEW:
            raise SignatureMissing
        return None, token

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class SessionOrBearerAuthentication(BaseAuthentication):
    """Accepts a Bearer token, or a session (with a CSRF check) if there is no ``Authorization``."""

    def authenticate(self, request: Request) -> tuple[User | None, Token | None]:
        value = read_bearer(request)
        if value is not None:
            return None, active_token(request, value)
        user = request._request.user
        if not isinstance(user, User):
            raise SignInRequired if request.method == "POST" else CredentialsMissing
        _check_csrf(request)
        return user, None

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


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


def active_token(request: Request, value: str, *, notes_use: bool = True) -> Token:
    """The active token with this value.

    Raises ``TokenInvalid``, which is the same for an unknown, a revoked and an expired token.
    """
    now, digests = timezone.now(), keys.all_digests(value)
    match = statements.find_active_token(digests, now, now - LAST_USED_INTERVAL)
    if match is None:
        raise count_failure(request, TokenInvalid())
    token, recently_used = match
    if notes_use and not recently_used:
        _update_last_used(token, now, *keys.new_digest(value))
    return token


def _update_last_used(token: Token, now: datetime, digest: str, key_id: str) -> None:
    """Stores the time of use, and the digest under the first key, at most once a minute.

    During a rolling restart, servers may list their keys in different orders. Each would replace
    the other's digest at every request if the digest were updated more often.
    """
    with try_write_lock() as free:
        if free:
            use = {"last_used_at": now, "digest": digest, "key_id": key_id}
            Token.objects.filter(pk=token.pk).update(**use)


def _check_clock(timestamp: int) -> None:
    now = int(time.time())
    if abs(now - timestamp) > settings.TIMESTAMP_TOLERANCE:
        raise TimestampInvalid(serverTime=now)


def _signer(request: Request, signed: SignedHeaders, body: dict[str, Any]) -> SigningSecret:
    """The secret that signed the body.

    Raises ``FloorSecretRefused`` if the Floor secret signed for source nox, or
    ``SignatureInvalid``.
    """
    source = body.get("source")
    secret = _find_signer(_candidates(source, body.get("botId")), request, signed)
    if secret is not None:
        return secret
    if source == Source.NOX and _find_signer(_live(Source.FLOOR), request, signed):
        raise count_failure(request, FloorSecretRefused())
    raise count_failure(request, SignatureInvalid())


def _find_signer(
    secrets: list[SigningSecret], request: Request, signed: SignedHeaders
) -> SigningSecret | None:
    """The secret that made one of the signatures, or None.

    Dummy secrets pad the list, so the time does not depend on how many secrets there are.
    """
    dummies = [None] * (MAX_LIVE - len(secrets))
    matches = [
        secret
        for secret in (*secrets, *dummies)
        if signing.verifies([_text(secret)], signed.timestamp, signed.signatures, raw_body(request))
    ]
    return matches[0] if matches else None


def _text(secret: SigningSecret | None) -> str:
    """The secret's text; the dummy's text if there is no secret or it cannot be decrypted."""
    if secret is None:
        return DUMMY_SECRET
    try:
        return secret.decrypt()
    except keys.KeyLostError:
        logger.error("Cannot decrypt secret %s: restore its key or its row.", secret.public_id)
        return DUMMY_SECRET


def _candidates(source: Any, bot_id: Any) -> list[SigningSecret]:
    """The live secrets that may sign for this source and bot."""
    if source == Source.TRADINGVIEW and isinstance(bot_id, str):
        return statements.live_secrets(bot_id, timezone.now())
    if source == Source.NOX and not SigningSecret.objects.of(Source.NOX).exists():
        return _live(Source.FLOOR)
    return _live(source) if source in (Source.FLOOR, Source.NOX) else []


def _live(source: Source) -> list[SigningSecret]:
    return list(SigningSecret.objects.live(timezone.now()).of(source))


def _check_csrf(request: Request) -> None:
    request._request.POST = QueryDict()  # read the CSRF token from the header, never from the body
    check = CSRFCheck(lambda _: None)  # type: ignore[arg-type]
    check.process_request(request._request)
    if check.process_view(request._request, None, (), {}):  # type: ignore[arg-type]
        raise CsrfFailed


def count_failure(request: Request, refusal: Unauthenticated) -> Unauthenticated:
    """Counts a failed credential against the client's address and returns the refusal.

    See the contract, section 7.
    """
    limits.consume("failures", rate_limit_address(request._request))
    return refusal
