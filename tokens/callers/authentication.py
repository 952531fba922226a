"""Authentication by Bearer token, by signature or by session (contract, section 3).

``request.auth`` is the credential that authorises the request: a ``Token`` or a ``SigningSecret``.
For a session it is None and ``request.user`` is the user. Each class raises its own refusal, so
every view has an authenticated caller.

The contract (section 5) fixes the order of the checks: the form of the credentials, the timestamp,
the Bearer token; on the hook also the form of the body, its source and the signature.
"""

import logging
import time
from typing import Any

from django.conf import settings
from django.http import QueryDict
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication, CSRFCheck
from rest_framework.request import Request

from desks.models import User
from events.http.bodies import json_body, raw_body
from events.http.refusals import (
    CredentialsMissing,
    CsrfFailed,
    FloorSecretRefused,
    Refused,
    SignatureInvalid,
    SignatureMissing,
    SignInRequired,
    TimestampInvalid,
    TokenInvalid,
)
from tokens.callers.credentials import CredentialReader, live_secrets_of
from tokens.callers.headers import SignedHeaders, read_bearer, read_signed_headers
from tokens.callers.throttles import count_failure
from tokens.choices import Source
from tokens.crypto import formats, keys, signing
from tokens.models import SigningSecret, Token
from tokens.models.sealed import NO_TEXT

logger = logging.getLogger(__name__)

MAX_LIVE = 2  # live secrets of one owner
DUMMY_SECRET = formats.new(formats.SIGNING_SECRET)


class BearerAuthentication(BaseAuthentication):
    """Accepts only ``Authorization: Bearer <token>``."""

    def __init__(self, reader: CredentialReader | None = None) -> None:
        self.reader = reader or CredentialReader()

    def authenticate(self, request: Request) -> tuple[None, Token]:
        value = read_bearer(request)
        if value is None:
            raise CredentialsMissing
        return None, active_token(request, value, self.reader)

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class SignerAuthentication(BearerAuthentication):
    """Accepts a Bearer token, a signature, or both; with both, the signature authorises."""

    # The rows of cached secrets, none of which made the signature.
    _tried: list[tuple[str, bytes]] | None = None

    def authenticate(self, request: Request) -> tuple[None, Token | SigningSecret]:  # type: ignore[override]
        value, signed = read_bearer(request), read_signed_headers(request)
        if value is None and signed is None:
            raise CredentialsMissing
        if signed:
            _check_clock(signed.timestamp)
        try:
            return None, self._credential(request, value, signed)
        except Refused:
            if not self.reader.read_again():
                raise
        return None, self._credential(request, value, signed)

    def _credential(
        self, request: Request, value: str | None, signed: SignedHeaders | None
    ) -> Token | SigningSecret:
        token = active_token(request, value, self.reader) if value else None
        body = json_body(request, any_type=True)
        if signed:
            return self._signer(request, signed, body)
        if token is None or body.get("source") == Source.TRADINGVIEW:
            raise SignatureMissing
        return token

    def _signer(
        self, request: Request, signed: SignedHeaders, body: dict[str, Any]
    ) -> SigningSecret:
        """The secret that signed the body.

        Raises ``FloorSecretRefused`` if the Floor secret signed for source nox, or
        ``SignatureInvalid``.
        """
        source = body.get("source")
        secrets = self.reader.secrets(source, body.get("botId"))
        rows = [(secret.public_id, bytes(secret.ciphertext)) for secret in secrets]
        # Trying the same secrets twice would show that the bot that is named has recently signed.
        signer = None if rows == self._tried else _find_signer(secrets, request, signed)
        if signer is not None:
            return signer
        if self.reader.used_cache:
            self._tried = rows
            raise SignatureInvalid  # not counted: it is judged again
        if source == Source.NOX and _find_signer(_of_floor(), request, signed):
            raise count_failure(request, FloorSecretRefused())
        raise count_failure(request, SignatureInvalid())


class SessionOrBearerAuthentication(BaseAuthentication):
    """Accepts a Bearer token, or a session (with a CSRF check) if there is no ``Authorization``.

    No token may call the methods in ``session_only``.
    """

    def __init__(self, session_only: tuple[str, ...] = ("POST",)) -> None:
        self.session_only = session_only

    def authenticate(self, request: Request) -> tuple[User | None, Token | None]:
        value = read_bearer(request)
        if value is not None:
            return None, active_token(request, value, CredentialReader())
        user = request._request.user
        if not isinstance(user, User):
            raise SignInRequired if request.method in self.session_only else CredentialsMissing
        _check_csrf(request)
        return user, None

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


def active_token(request: Request, value: str, reader: CredentialReader) -> Token:
    """The active token with this value.

    Raises ``TokenInvalid``, which is the same for an unknown, a revoked and an expired token.
    """
    token = reader.token(value)
    if token is None:
        raise count_failure(request, TokenInvalid())
    return token


def _check_clock(timestamp: int) -> None:
    now = int(time.time())
    if abs(now - timestamp) > settings.TIMESTAMP_TOLERANCE:
        raise TimestampInvalid(serverTime=now)


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
    """The secret's text; the dummy's text if there is none, or it cannot be decrypted.

    The text of a secret that has ended by the log's time may be erased. A server whose clock is
    behind still finds its row.
    """
    if secret is None or secret.key_id == NO_TEXT:
        return DUMMY_SECRET
    try:
        return secret.decrypt()
    except keys.KeyLostError:
        logger.error("Cannot decrypt secret %s: restore its key or its row.", secret.public_id)
        return DUMMY_SECRET


def _of_floor() -> list[SigningSecret]:
    return live_secrets_of(Source.FLOOR, timezone.now())


def read_again(request: Request) -> bool:
    """Authenticates again, from the database. Returns False if that was done already.

    Raises ``Unauthenticated``.
    """
    authenticators: Any = request.authenticators
    if not authenticators[0].reader.read_again():
        return False
    _, request.auth = authenticators[0].authenticate(request)
    return True


def _check_csrf(request: Request) -> None:
    request._request.POST = QueryDict()  # read the CSRF token from the header, never from the body
    check = CSRFCheck(lambda _: None)  # type: ignore[arg-type]
    check.process_request(request._request)
    if check.process_view(request._request, None, (), {}):  # type: ignore[arg-type]
        raise CsrfFailed
