"""Who is calling: by Bearer token, by signature, or by session (contract, section 3).

``request.auth`` is the credential that authorises: a ``Token`` or a ``SigningSecret``; for a
session it is null and ``request.user`` is the person. Each class refuses by itself, so a view that
is reached has a caller. The order of the checks is the contract's (section 5): form, timestamp,
Bearer in force, and on the hook the body's form, its source, the signature.
"""

import logging
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.http import QueryDict
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication, CSRFCheck
from rest_framework.request import Request

from desks import limits
from desks.models import User
from events.api.bodies import json_body, raw_body
from events.queue import unless_busy
from events.refusals import (
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
from tokens import formats, keys, signing, statements
from tokens.addresses import client_address
from tokens.models import SigningSecret, Source, Token

logger = logging.getLogger(__name__)

BEARER = "bearer"
USE_IS_NOTED_EVERY = timedelta(minutes=1)
MOST_LIVE = 2  # secrets of one owner that verify at one time
NOBODYS_SECRET = formats.new(formats.SIGNING_SECRET)


@dataclass(frozen=True, slots=True)
class SignedHeaders:
    """The two signing headers, well formed."""

    timestamp: int
    signatures: list[str]


class BearerAuthentication(BaseAuthentication):
    """``Authorization: Bearer <token>``, and nothing else."""

    def authenticate(self, request: Request) -> tuple[None, Token]:
        value = read_bearer(request)
        if value is None:
            raise CredentialsMissing
        return None, token_in_force(request, value)

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class SignerAuthentication(BaseAuthentication):
    """The hook's callers: a Bearer token, a signature, or both (then the signature authorises)."""

    def authenticate(self, request: Request) -> tuple[None, Token | SigningSecret]:
        value, signed = read_bearer(request), read_signed_headers(request)
        if value is None and signed is None:
            raise CredentialsMissing
        if signed:
            _check_clock(signed.timestamp)
        token = token_in_force(request, value) if value else None
        body = json_body(request, any_type=True)
        if signed:
            return None, _signer(request, signed, body)
        if token is None or body.get("source") == Source.TRADINGVIEW:
            raise SignatureMissing
        return None, token

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class SessionOrBearerAuthentication(BaseAuthentication):
    """A token where ``Authorization`` is present, else the session, with its CSRF check."""

    def authenticate(self, request: Request) -> tuple[User | None, Token | None]:
        value = read_bearer(request)
        if value is not None:
            return None, token_in_force(request, value)
        user = request._request.user
        if not isinstance(user, User):
            raise SignInRequired if request.method == "POST" else CredentialsMissing
        _check_csrf(request)
        return user, None

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


def read_bearer(request: Request) -> str | None:
    """The token that the header carries, its checksum right; null where there is no header."""
    header = request.headers.get("Authorization")
    if header is None:
        return None
    scheme, _, value = header.partition(" ")
    whole = formats.is_whole(value, formats.DESK_TOKEN, formats.PLATFORM_TOKEN)
    if scheme.lower() != BEARER or not whole:
        raise _counted(request, TokenInvalid())
    return value


def read_signed_headers(request: Request) -> SignedHeaders | None:
    """The signing headers, checked for their form; null where both are missing."""
    timestamp = request.headers.get(signing.TIMESTAMP_HEADER)
    signature = request.headers.get(signing.SIGNATURE_HEADER)
    if timestamp is None and signature is None:
        return None
    if timestamp is None or signature is None:
        raise SignatureMissing
    moment, signatures = signing.read_timestamp(timestamp), signing.read_signatures(signature)
    if moment is None:
        raise TimestampInvalid(serverTime=int(time.time()))
    if not signatures:
        raise _counted(request, SignatureInvalid())
    return SignedHeaders(moment, signatures)


def token_in_force(request: Request, value: str) -> Token:
    """The token with this value; raises ``TokenInvalid``, the same for every way of not being."""
    now, digests = timezone.now(), keys.every_digest(value)
    found = statements.token_in_force(digests, now, now - USE_IS_NOTED_EVERY)
    if found is None:
        raise _counted(request, TokenInvalid())
    token, use_is_noted = found
    if not use_is_noted or token.key_id != keys.newest_id():
        _note_use(token, now, *keys.new_digest(value))
    return token


def _note_use(token: Token, now: datetime, digest: str, key_id: str) -> None:
    """At most once a minute: when it was used, and its digest under the newest key."""
    with unless_busy() as free:
        if free:
            use = {"last_used_at": now, "digest": digest, "key_id": key_id}
            Token.objects.filter(pk=token.pk).update(**use)


def _check_clock(timestamp: int) -> None:
    now = int(time.time())
    if abs(now - timestamp) > settings.TIMESTAMP_TOLERANCE:
        raise TimestampInvalid(serverTime=now)


def _signer(request: Request, signed: SignedHeaders, body: dict[str, Any]) -> SigningSecret:
    """The secret that signed the body; raises ``SignatureInvalid`` or ``FloorSecretRefused``."""
    source = body.get("source")
    secret = _who_signed(_candidates(source, body.get("botId")), request, signed)
    if secret is not None:
        return secret
    if source == Source.NOX and _who_signed(_live(Source.FLOOR), request, signed):
        raise _counted(request, FloorSecretRefused())
    raise _counted(request, SignatureInvalid())


def _who_signed(
    secrets: list[SigningSecret], request: Request, signed: SignedHeaders
) -> SigningSecret | None:
    """The secret that made one of the signatures; the work is the same however many there are."""
    stand_ins = [None] * (MOST_LIVE - len(secrets))
    found = [
        secret
        for secret in (*secrets, *stand_ins)
        if signing.verifies([_text(secret)], signed.timestamp, signed.signatures, raw_body(request))
    ]
    return found[0] if found else None


def _text(secret: SigningSecret | None) -> str:
    """The text to verify with: one that nobody holds, where there is no secret or it is lost."""
    if secret is None:
        return NOBODYS_SECRET
    try:
        return secret.text()
    except keys.KeyLostError:
        logger.error("The secret %s does not open: restore its key or its row.", secret.public_id)
        return NOBODYS_SECRET


def _candidates(source: Any, bot_id: Any) -> list[SigningSecret]:
    """The live secrets that may sign for what the body names; none for what it does not."""
    if source == Source.TRADINGVIEW and isinstance(bot_id, str):
        return statements.live_secrets(bot_id, timezone.now())
    if source == Source.NOX and not SigningSecret.objects.of(Source.NOX).exists():
        return _live(Source.FLOOR)
    return _live(source) if source in (Source.FLOOR, Source.NOX) else []


def _live(source: Source) -> list[SigningSecret]:
    return list(SigningSecret.objects.live(timezone.now()).of(source))


def _check_csrf(request: Request) -> None:
    request._request.POST = QueryDict()  # only the header counts: no form is looked for in the body
    check = CSRFCheck(lambda _: None)  # type: ignore[arg-type]
    check.process_request(request._request)
    if check.process_view(request._request, None, (), {}):  # type: ignore[arg-type]
        raise CsrfFailed


def _counted(request: Request, refusal: Unauthenticated) -> Unauthenticated:
    """The refusal of a failed credential, counted for its address (contract, section 7)."""
    limits.spend("failures", client_address(request._request))
    return refusal
