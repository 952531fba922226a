"""Every way in which the service says no: one class, one code, one sentence (contract, section 5).

    Refused
    ├── 400  Malformed · HostInvalid
    ├── 401  Unauthenticated
    │        ├── CredentialsMissing · TokenInvalid
    │        └── SignatureMissing · SignatureInvalid · TimestampInvalid · FloorSecretRefused
    ├── 403  ScopeMissing · NotAllowed · SignInRequired · CsrfFailed
    │        SecondFactorRequired · ReauthenticationRequired · HttpsRequired
    ├── 404  NotFound      405  MethodNotAllowed       411  LengthRequired
    ├── 413  BodyTooLarge  415  UnsupportedMediaType   409  NonceUsed
    ├── 422  Unlawful
    │        ├── ExchangeSecret · TickerOnly · ModeRefused · NotElected · Invalid
    │        ├── PairMismatch · DirectionMismatch · NoElection · NoCard · DeskNotReady
    │        └── CursorLost
    └── 429  RateLimited   500  Internal               503  Unavailable

They stand in the lowest app because every app refuses. What each one looks like as an answer is
written in ``config.problems``; this file knows nothing of HTTP but the number.
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, TypedDict


class FieldError(TypedDict):
    """One thing that is wrong with one field: its name, a short code, and a sentence."""

    field: str
    code: str
    detail: str


class Refused(Exception):
    """The service turns a request down; nothing that it asked for has happened.

    ``detail`` replaces the class's own sentence where more can be said. ``members`` are the further
    members of the problem body: ``errors``, ``sent``, ``elected``, ``first``, ``serverTime`` …
    """

    code: ClassVar[str]
    status: ClassVar[int]
    title: ClassVar[str]
    detail: str

    def __init__(self, detail: str | None = None, **members: Any) -> None:
        self.detail = detail or type(self).detail
        self.members = members
        self.headers: dict[str, str] = {}
        super().__init__(f"{self.code}: {self.detail}")

    @classmethod
    def registry(cls) -> Iterator[type["Refused"]]:
        """Every refusal that has a code, in the order in which this file defines them."""
        for refusal in cls.__subclasses__():
            if "code" in vars(refusal):
                yield refusal
            yield from refusal.registry()


# --- 400 ---------------------------------------------------------------------------------------


class Malformed(Refused):
    code, status, title = "malformed", 400, "The body is not one plain JSON object"
    detail = (
        "Send one JSON object in UTF-8, with each key once, finite numbers, at most 16 levels, "
        "and no NUL or lone surrogate in any string."
    )


class HostInvalid(Refused):
    code, status, title = "host_invalid", 400, "This host name is not served here"
    detail = "Send the request to the service's own address, and its name in the Host header."


# --- 401 ---------------------------------------------------------------------------------------


class Unauthenticated(Refused):
    """What was presented does not say who is calling."""

    status = 401

    def __init__(self, detail: str | None = None, **members: Any) -> None:
        super().__init__(detail, **members)
        self.headers["WWW-Authenticate"] = "Bearer"


class CredentialsMissing(Unauthenticated):
    code, title = "credentials_missing", "Nothing says who is calling"
    detail = "Send Authorization: Bearer <token>; on the hook a signature is taken as well."


class TokenInvalid(Unauthenticated):
    code, title = "token_invalid", "The token is not in force"
    detail = "Check the token's text and that it is neither revoked nor expired, or mint a new one."


class SignatureMissing(Unauthenticated):
    code, title = "signature_missing", "The signature is missing"
    detail = "Send both X-SVC-Timestamp and X-SVC-Signature; tradingview is always signed."


class SignatureInvalid(Unauthenticated):
    code, title = "signature_invalid", "The signature does not verify"
    detail = (
        "Sign the timestamp, a full stop and the raw body with the secret of this source "
        "(HMAC-SHA256, v1= and lower-case hex), and check the source or botId that the body names."
    )


class TimestampInvalid(Unauthenticated):
    code, title = "timestamp_invalid", "The timestamp is not of now"
    detail = "Send the Unix time of sending in 10 digits, and check the clock against serverTime."


class FloorSecretRefused(Unauthenticated):
    code, title = "floor_secret_refused", "The Floor secret no longer signs source nox"
    detail = "A Nox secret exists: sign source nox with it."


# --- 403 ---------------------------------------------------------------------------------------


class ScopeMissing(Refused):
    code, status, title = "scope_missing", 403, "The token lacks the scope"
    detail = "Use a token with the scope that this call asks for."


class NotAllowed(Refused):
    code, status, title = "not_allowed", 403, "This kind of caller may not do this"
    detail = "Use the kind of token that this call is for."


class SignInRequired(Refused):
    code, status, title = "sign_in_required", 403, "Sign in first"
    detail = "Sign in at /accounts/login/ and send the session; tokens cannot mint tokens."


class CsrfFailed(Refused):
    code, status, title = "csrf_failed", 403, "The request may not be yours"
    detail = "Reload the page and send it again; scripts send the csrf cookie as X-CSRFToken."


class SecondFactorRequired(Refused):
    code, status, title = "second_factor_required", 403, "A second factor is needed"
    detail = "Staff sign in with a second factor: add one under /accounts/2fa/, then sign in again."


class ReauthenticationRequired(Refused):
    code, status, title = "reauthentication_required", 403, "Confirm that it is you"
    detail = "Confirm your password or second factor at /accounts/reauthenticate/, then try again."


class HttpsRequired(Refused):
    code, status, title = "https_required", 403, "HTTPS is required"
    detail = "Send the request over HTTPS, and replace any credential that went over plain HTTP."


# --- 404 to 415 --------------------------------------------------------------------------------


class NotFound(Refused):
    code, status, title = "not_found", 404, "Not found"
    detail = "There is no such path, desk or token, or it is not yours to see."


class MethodNotAllowed(Refused):
    code, status, title = "method_not_allowed", 405, "This path does not take this method"
    detail = "Use one of the methods that the Allow header names."

    def __init__(self, allowed: list[str]) -> None:
        super().__init__()
        self.headers["Allow"] = ", ".join(allowed)


class LengthRequired(Refused):
    code, status, title = "length_required", 411, "The body's length is missing"
    detail = "Send Content-Length instead of a chunked body."


class BodyTooLarge(Refused):
    code, status, title = "body_too_large", 413, "The body is too large"
    detail = "Send at most 64 KiB."


class UnsupportedMediaType(Refused):
    code, status, title = "unsupported_media_type", 415, "The body is not declared as JSON"
    detail = "Send Content-Type: application/json."


# --- 409 ---------------------------------------------------------------------------------------


class NonceUsed(Refused):
    code, status, title = "nonce_used", 409, "This nonce is spent"
    detail = "Nothing was done again: first is what the nonce was accepted for."


# --- 422 ---------------------------------------------------------------------------------------


class Unlawful(Refused):
    """The request is understood, and the law turns it down."""

    status = 422


class ExchangeSecret(Unlawful):
    code, title = "exchange_secret", "It carries what looks like a secret"
    detail = (
        "Take every key, secret, passphrase and token out of the body, and replace whatever was "
        "sent: nothing here ever needs one. Nothing of it was kept."
    )


class TickerOnly(Unlawful):
    code, title = "ticker_only", "A ticker is not an election"
    detail = "Repeat the elected pair, as BASE/QUOTE, and the direction: a ticker is never mapped."


class ModeRefused(Unlawful):
    code, title = "mode_refused", "Every signal is paper"
    detail = "Use mode paper; the modes armed and live are refused."


class NotElected(Unlawful):
    code, title = "not_elected", "The signal does not say that it is elected"
    detail = "Send elected as JSON true, for a pair and direction that the customer has elected."


class Invalid(Unlawful):
    code, title = "invalid", "Something in the request is not as the contract says"
    detail = "Mend what errors names."

    @classmethod
    def field(cls, name: str, code: str, detail: str) -> "Invalid":
        """The refusal of one field."""
        return cls(errors=[FieldError(field=name, code=code, detail=detail)])


class PairMismatch(Unlawful):
    code, title = "pair_mismatch", "The pair differs from the election"
    detail = "Repeat the elected pair exactly."


class DirectionMismatch(Unlawful):
    code, title = "direction_mismatch", "The direction differs from the election"
    detail = "Repeat the elected direction exactly."


class NoElection(Unlawful):
    code, title = "no_election", "The automation has no election"
    detail = "Its owner chooses a pair and a direction on the bot's page first."


class NoCard(Unlawful):
    code, title = "no_card", "No card is published"
    detail = "Wait until a card is published: the contract page shows it."


class DeskNotReady(Unlawful):
    code, title = "desk_not_ready", "The desk is not ready"
    detail = "Its owner connects it and enrols in the published card first."


class CursorLost(Unlawful):
    code, title = "cursor_lost", "The log cannot honour this cursor"
    detail = (
        "The log does not hold what this cursor stands on. Read again from the beginning, or from "
        "the tail with order=desc&limit=1, and check what you hold against it."
    )


# --- 429 and 5xx -------------------------------------------------------------------------------


class RateLimited(Refused):
    code, status, title = "rate_limited", 429, "Too many requests"
    detail = "Wait for as many seconds as Retry-After says."

    def __init__(self, retry_after: int, budget: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self.headers |= {"Retry-After": str(retry_after), **(budget or {})}


class Internal(Refused):
    code, status, title = "internal", 500, "A fault of ours"
    detail = "Nothing was done. Send it again; if it stays, tell us the requestId."


class Unavailable(Refused):
    code, status, title = "unavailable", 503, "Not available at the moment"
    detail = "Nothing was done. Send the same request again after Retry-After seconds."

    def __init__(self, detail: str | None = None, retry_after: int = 1) -> None:
        super().__init__(detail)
        self.headers["Retry-After"] = str(retry_after)
