"""Who sends a signal: a Bearer token, a signature, or both (contract, section 3).

The contract (section 5) fixes the order of the checks: the form of the credentials, the timestamp,
the Bearer token, the form of the body, its source and the signature.
"""

import logging
import time

from django.conf import settings
from django.utils import timezone
from rest_framework.request import Request

from events.http.bodies import json_body, raw_body
from events.http.refusals import (
    CredentialsMissing,
    FloorSecretRefused,
    SignatureInvalid,
    SignatureMissing,
    TimestampInvalid,
)
from events.json_schema import JsonObject
from tokens.callers.authentication import BearerAuthentication, live_secrets, read_bearer
from tokens.callers.throttling import count_failure
from tokens.choices import Source
from tokens.crypto import formats, signing
from tokens.crypto.keys import KeyLostError
from tokens.models import SigningSecret, Token
from tokens.models.secret import NO_TEXT

logger = logging.getLogger(__name__)

MAX_LIVE = 2  # live secrets of one owner
DUMMY_SECRET = formats.new(formats.SIGNING_SECRET)


class SignerAuthentication(BearerAuthentication):
    """Accepts a Bearer token, a signature, or both; with both, the signature authorises."""

    def authenticate(self, request: Request) -> tuple[None, Token | SigningSecret]:  # type: ignore[override]
        value, signed = read_bearer(request), read_signed_headers(request)
        if value is None and signed is None:
            raise CredentialsMissing
        if signed:
            _check_clock(signed[0])
        token = self.reader.token(request, value, authorises=not signed) if value else None
        body = json_body(request, any_type=True)
        if signed:
            return None, self._signer(request, signed, body)
        if token is None or body.get("source") == Source.TRADINGVIEW:
            raise SignatureMissing
        return None, token

    def _signer(
        self, request: Request, signed: tuple[int, list[str]], body: JsonObject
    ) -> SigningSecret:
        """The secret that signed the body.

        Raises ``FloorSecretRefused`` if the Floor secret signed for source nox, or
        ``SignatureInvalid``.
        """
        source = body.get("source")
        secrets = self.reader.secrets(source, body.get("botId"))
        rows = [(secret.public_id, bytes(secret.ciphertext)) for secret in secrets]
        # Trying the same secrets twice would show that the bot that is named has recently signed.
        signer = None if rows == self.reader.tried else _find_signer(secrets, request, signed)
        if signer is not None:
            return signer
        if self.reader.used_cache:
            self.reader.tried = rows
            raise SignatureInvalid  # not counted: the request is judged again
        if source == Source.NOX:
            of_floor = live_secrets((Source.FLOOR, None), timezone.now())
            if _find_signer(of_floor, request, signed):
                raise count_failure(request, FloorSecretRefused())
        raise count_failure(request, SignatureInvalid())


def read_signed_headers(request: Request) -> tuple[int, list[str]] | None:
    """The Unix time and the signatures of the signing headers; None if both are missing.

    Raises ``SignatureMissing``, ``TimestampInvalid`` or ``SignatureInvalid``.
    """
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
        raise count_failure(request, SignatureInvalid())
    return moment, signatures


def _check_clock(timestamp: int) -> None:
    now = int(time.time())
    if abs(now - timestamp) > settings.TIMESTAMP_TOLERANCE:
        raise TimestampInvalid(serverTime=now)


def _find_signer(
    secrets: list[SigningSecret], request: Request, signed: tuple[int, list[str]]
) -> SigningSecret | None:
    """The secret that made one of the signatures, or None.

    Dummy secrets pad the list, so the time does not depend on how many secrets there are.
    """
    dummies = [None] * (MAX_LIVE - len(secrets))
    matches = [
        secret
        for secret in (*secrets, *dummies)
        if signing.verifies([_text(secret)], *signed, raw_body(request))
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
    except KeyLostError:
        logger.error("Cannot decrypt secret %s: restore its key or its row.", secret.public_id)
        return DUMMY_SECRET
