"""Every refusal: one class, one code, one status, one title and one sentence (contract, section 5).

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

The refusals are in the lowest app because every app raises them. ``config.problems`` turns them
into responses. The modules are imported in the order in which documents list the refusals.
"""

from events.http.refusals.base import FieldError, Refused
from events.http.refusals.client_errors import (
    BodyTooLarge,
    CredentialsMissing,
    CsrfFailed,
    FloorSecretRefused,
    HostInvalid,
    HttpsRequired,
    LengthRequired,
    Malformed,
    MethodNotAllowed,
    NonceUsed,
    NotAllowed,
    NotFound,
    ReauthenticationRequired,
    ScopeMissing,
    SecondFactorRequired,
    SignatureInvalid,
    SignatureMissing,
    SignInRequired,
    TimestampInvalid,
    TokenInvalid,
    Unauthenticated,
    UnsupportedMediaType,
)
from events.http.refusals.law import (
    CursorLost,
    DeskNotReady,
    DirectionMismatch,
    ExchangeSecret,
    Invalid,
    ModeRefused,
    NoCard,
    NoElection,
    NotElected,
    PairMismatch,
    TickerOnly,
    Unlawful,
)
from events.http.refusals.server_errors import Internal, RateLimited, Unavailable

__all__ = [
    "BodyTooLarge",
    "CredentialsMissing",
    "CsrfFailed",
    "CursorLost",
    "DeskNotReady",
    "DirectionMismatch",
    "ExchangeSecret",
    "FieldError",
    "FloorSecretRefused",
    "HostInvalid",
    "HttpsRequired",
    "Internal",
    "Invalid",
    "LengthRequired",
    "Malformed",
    "MethodNotAllowed",
    "ModeRefused",
    "NoCard",
    "NoElection",
    "NonceUsed",
    "NotAllowed",
    "NotElected",
    "NotFound",
    "PairMismatch",
    "RateLimited",
    "ReauthenticationRequired",
    "Refused",
    "ScopeMissing",
    "SecondFactorRequired",
    "SignInRequired",
    "SignatureInvalid",
    "SignatureMissing",
    "TickerOnly",
    "TimestampInvalid",
    "TokenInvalid",
    "Unauthenticated",
    "Unavailable",
    "Unlawful",
    "UnsupportedMediaType",
]
