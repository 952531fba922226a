"""Every refusal: one class, one code, one status, one title and one sentence (contract, section 5).

    Refused
    ├── 400  Malformed · HostInvalid
    ├── 401  Unauthenticated
    │        ├── CredentialsMissing · TokenInvalid
    │        └── SignatureMissing · SignatureInvalid · TimestampInvalid · FloorSecretRefused
    ├── 403  ScopeMissing · NotAllowed · SignInRequired · CsrfFailed
    │        SecondFactorRequired · ReauthenticationRequired · HttpsRequired
    ├── 404  NotFound        405  MethodNotAllowed  406  NotAcceptable
    ├── 411  LengthRequired  413  BodyTooLarge      415  UnsupportedMediaType
    ├── 409  NonceUsed · MadeAlready
    ├── 422  Unlawful
    │        ├── ExchangeSecret · TickerOnly · ModeRefused · NotElected · Invalid
    │        ├── SignalTooOld
    │        ├── PairMismatch · DirectionMismatch · NoElection · NoCard · DeskNotReady
    │        └── CursorLost
    └── 429  RateLimited   500  Internal               503  Unavailable

The refusals are in the lowest app because every app raises them. ``config.problems`` turns them
into responses. The modules are imported in the order in which documents list the refusals.
"""

from events.http.refusals.base import *
from events.http.refusals.client_errors import *
from events.http.refusals.law import *
from events.http.refusals.server_errors import *
