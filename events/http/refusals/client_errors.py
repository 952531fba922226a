"""Refusals for malformed, unauthenticated, forbidden and misdirected requests: 400 to 415."""

from collections.abc import Iterable
from typing import Any

from events.http.refusals.base import Refused


class Malformed(Refused):
    code, status, title = "malformed", 400, "Malformed JSON body"
    detail = (
        "Send one JSON object in UTF-8. Use each key once, only finite numbers, at most 16 levels "
        "of nesting, and no NUL or lone surrogate in a string."
    )


class HostInvalid(Refused):
    code, status, title = "host_invalid", 400, "Unknown host"
    detail = "Send the request to the service's own address, with that host in the Host header."


# --- 401 ---------------------------------------------------------------------------------------


class Unauthenticated(Refused):
    """The request is not authenticated."""

    status = 401

    def __init__(self, detail: str | None = None, **members: Any) -> None:
        super().__init__(detail, **members)
        self.headers["WWW-Authenticate"] = "Bearer"


class CredentialsMissing(Unauthenticated):
    code, title = "credentials_missing", "Credentials missing"
    detail = "Send Authorization: Bearer <token>. The hook also accepts a signature."


class TokenInvalid(Unauthenticated):
    code, title = "token_invalid", "Token revoked, expired or unknown"
    detail = "Check that you sent the whole token. If it was revoked or expired, mint a new one."


class SignatureMissing(Unauthenticated):
    code, title = "signature_missing", "Signature missing"
    detail = (
        "Send both X-SVC-Timestamp and X-SVC-Signature. Source tradingview always needs a "
        "signature."
    )


class SignatureInvalid(Unauthenticated):
    code, title = "signature_invalid", "Signature does not match"
    detail = (
        "Sign the timestamp, a full stop and the raw body with the secret of this source "
        "(HMAC-SHA256, v1= and lower-case hex). Check the source and the botId in the body."
    )


class TimestampInvalid(Unauthenticated):
    code, title = "timestamp_invalid", "Timestamp out of range"
    detail = "Send the current Unix time in 10 digits. Compare your clock with serverTime."


class FloorSecretRefused(Unauthenticated):
    code, title = "floor_secret_refused", "Floor secret no longer accepted for source nox"
    detail = "A Nox secret exists. Sign source nox with the Nox secret."


# --- 403 ---------------------------------------------------------------------------------------


class ScopeMissing(Refused):
    code, status, title = "scope_missing", 403, "Token lacks the required scope"
    detail = "Use a token that has the scope of this endpoint."


class NotAllowed(Refused):
    code, status, title = "not_allowed", 403, "Not allowed for this kind of caller"
    detail = "Use the kind of token that this endpoint accepts."


class SignInRequired(Refused):
    code, status, title = "sign_in_required", 403, "Sign-in required"
    detail = "Sign in at /accounts/login/ and send the session cookie. No token may do this."


class CsrfFailed(Refused):
    code, status, title = "csrf_failed", 403, "CSRF check failed"
    detail = "Reload the page and try again. Scripts send the csrf cookie's value as X-CSRFToken."


class SecondFactorRequired(Refused):
    code, status, title = "second_factor_required", 403, "Second factor required"
    detail = "Staff need a second factor. Add one at /accounts/2fa/, or sign in with yours."


class ReauthenticationRequired(Refused):
    code, status, title = "reauthentication_required", 403, "Confirm your identity"
    detail = (
        "You last authenticated more than 15 minutes ago. Confirm your password or second factor "
        "at /accounts/reauthenticate/, then try again."
    )


class HttpsRequired(Refused):
    code, status, title = "https_required", 403, "HTTPS required"
    detail = "Send the request over HTTPS. Replace any credential that you sent over plain HTTP."


# --- 404 to 415 --------------------------------------------------------------------------------


class NotFound(Refused):
    code, status, title = "not_found", 404, "Not found"
    detail = "The path, desk, signal, token or webhook does not exist, or you have no access to it."


class MethodNotAllowed(Refused):
    code, status, title = "method_not_allowed", 405, "Method not allowed"
    detail = "Use one of the methods in the Allow header."

    def __init__(self, allowed: Iterable[str]) -> None:
        super().__init__()
        self.headers["Allow"] = ", ".join(allowed)


class NotAcceptable(Refused):
    code, status, title = "not_acceptable", 406, "Only streams are served here"
    detail = (
        "Send Accept: text/event-stream. This server opens streams only: read lists from the "
        "address of the API."
    )


class LengthRequired(Refused):
    code, status, title = "length_required", 411, "Content-Length missing"
    detail = "Send a Content-Length header instead of a chunked body."


class BodyTooLarge(Refused):
    code, status, title = "body_too_large", 413, "Body too large"
    detail = "Send a body of at most 64 KiB."


class UnsupportedMediaType(Refused):
    code, status, title = "unsupported_media_type", 415, "Content type is not JSON"
    detail = "Send Content-Type: application/json."


# --- 409 ---------------------------------------------------------------------------------------


class NonceUsed(Refused):
    code, status, title = "nonce_used", 409, "Nonce already used"
    detail = (
        "The signal was not processed again. The member first holds the answer to the signal that "
        "used this nonce. Send a new signal with a new nonce."
    )


class MadeAlready(Refused):
    code, status, title = "made_already", 409, "Made already"
    detail = (
        "This form was sent before, and what it made was shown then. Nothing new was made. If you "
        "did not store the value, open the form again and make a new one."
    )
