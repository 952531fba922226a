"""Every refusal: one class, one code, one status, one title and one sentence (contract, section 5).

The refusals are in the lowest app because every app raises them; those that only a signal can get
are in ``signals.law.refusals``. ``Refused.registry`` lists all of them for the documents.
``config.problems`` turns them into responses.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, TypedDict, TypeVar

from events.choices import ExplainedEnum
from events.json_schema import one_of
from events.unavailable_reasons import Wait

Row = TypeVar("Row")


class FieldCode(ExplainedEnum):
    """What can be wrong with a field: every ``code`` of ``errors``, with its one meaning."""

    REQUIRED = "required", "It is missing, null or empty, and must not be."
    UNKNOWN = "unknown", "The request has no field of this name."
    REPEATED = "repeated", "It was sent more than once, and counts once."
    TYPE = "type", "It has another type: text in place of a number, for example."
    CHOICE = "choice", "It is none of the values that the field takes."
    FORM = "form", "It has the right type, but is not written as the field must be."
    CHARACTERS = "characters", "It contains characters that the field does not take."
    LENGTH = "length", "It is a text or a list that is too short or too long."
    RANGE = "range", "It is a number or a time that is too small, too large or too exact."
    CURSOR = "cursor", "It is no cursor of this list."
    CONTRADICTION = "contradiction", "It contradicts another field, the path or the query."
    FORBIDDEN = "forbidden", "It is well formed, but the caller, or anybody, may not use it."
    TAKEN = "taken", "It exists already, and may exist once only."


class FieldError(TypedDict):
    """What was wrong with one field. The value is not in it."""

    field: Annotated[str, "Its name. An item of a list counts as the list."]
    code: Annotated[
        str, one_of(FieldCode), " ".join(f"`{code}`: {code.meaning}" for code in FieldCode)
    ]
    detail: Annotated[str, "What the field must be."]


class Refused(Exception):
    """The service refuses the request. Except for ``Unavailable``, it has not changed anything.

    ``detail`` replaces the class's sentence if more is known. ``members`` are the other members of
    the problem body: ``errors``, ``sent``, ``elected``, ``first``, ``serverTime`` …
    """

    code: ClassVar[str]
    status: ClassVar[int]
    title: ClassVar[str]
    detail: str
    # What a page says to a person, where this ``detail`` is for programs only.
    on_page: ClassVar[str | None] = None
    # Its additional members, as an example for the OpenAPI document.
    example: ClassVar[Mapping[str, Any]] = {}
    usual_headers: ClassVar[Mapping[str, str]] = {}
    # The members of a signal that are wrong, as far as the code says it.
    wrong_members: ClassVar[tuple[str, ...]] = ()
    do_not_call_in_templates = True  # a template shows the class

    def __init__(self, detail: str | None = None, **members: object) -> None:
        self.sentence = detail or self.on_page or type(self).detail
        self.detail = detail or type(self).detail
        self.members: dict[str, Any] = members
        self.headers = dict(self.usual_headers)
        super().__init__(f"{self.code}: {self.detail}")

    @classmethod
    def registry(cls) -> list[type["Refused"]]:
        """Every refusal that has a code, by status and then in the order of definition."""
        found = [cls] if "code" in vars(cls) else []
        for refusal in cls.__subclasses__():
            found += refusal.registry()
        return sorted(found, key=lambda refusal: refusal.status)

    @classmethod
    def of(cls, code: str | None) -> type["Refused"] | None:
        """The refusal with this code; None if there is none."""
        return next((refusal for refusal in cls.registry() if refusal.code == code), None)


# --- 400 ---------------------------------------------------------------------------------------


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


CHALLENGE = 'Bearer realm="signals"'  # RFC 6750, section 3


class Unauthenticated(Refused):
    """The request is not authenticated."""

    status = 401
    usual_headers = {"WWW-Authenticate": CHALLENGE}


class CredentialsMissing(Unauthenticated):
    code, title = "credentials_missing", "Credentials missing"
    detail = "Send Authorization: Bearer <token>. The hook also accepts a signature."


class TokenInvalid(Unauthenticated):
    code, title = "token_invalid", "Token revoked, expired or unknown"
    detail = "Check that you sent the whole token. If it was revoked or expired, mint a new one."
    usual_headers = {"WWW-Authenticate": f'{CHALLENGE}, error="invalid_token"'}


class SchemeUnknown(TokenInvalid):
    """``Authorization`` has another scheme: no token was sent."""

    detail = "Send Authorization: Bearer <token>. No other scheme is known here."
    usual_headers = Unauthenticated.usual_headers


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
    wrong_members = ("source", "botId")


class TimestampInvalid(Unauthenticated):
    code, title = "timestamp_invalid", "Timestamp out of range"
    detail = "Send the current Unix time in 10 digits. Compare your clock with serverTime."
    example = {"serverTime": 1763630000}


class FloorSecretRefused(Unauthenticated):
    code, title = "floor_secret_refused", "Floor secret no longer accepted for source nox"
    detail = "A Nox secret exists. Sign source nox with the Nox secret."


# --- 403 ---------------------------------------------------------------------------------------


class ScopeMissing(Refused):
    code, status, title = "scope_missing", 403, "Token lacks the required scope"
    detail = "Use a token that has the scope of this endpoint."

    def __init__(self, scope: str) -> None:
        super().__init__(f"This call asks for the scope {scope}. Use a token that has it.")
        error = f'error="insufficient_scope", scope="{scope}"'
        self.headers["WWW-Authenticate"] = f"{CHALLENGE}, {error}"


class NotAllowed(Refused):
    code, status, title = "not_allowed", 403, "Not allowed for this kind of caller"
    detail = "Use the kind of token that this endpoint accepts."
    on_page = "Your account may not open this page."


class SignInRequired(Refused):
    code, status, title = "sign_in_required", 403, "Sign-in required"
    detail = "Sign in at /accounts/login/ and send the session cookie. No token may do this."


class CsrfFailed(Refused):
    code, status, title = "csrf_failed", 403, "CSRF check failed"
    detail = "Reload the page and try again. Scripts send the csrf cookie's value as X-CSRFToken."
    on_page = "Reload the page and try again. Your browser must accept cookies of this site."


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
    on_page = "There is no such page, or you have no access to it. Check its address."


def found_or_404(row: Row | None, noun: str) -> Row:
    """Returns the row. Raises ``NotFound`` if there is none, or none that the caller may see."""
    if row is None:
        raise NotFound(f"The {noun} does not exist, or you have no access to it.")
    return row


class MethodNotAllowed(Refused):
    code, status, title = "method_not_allowed", 405, "Method not allowed"
    detail = "Use one of the methods in the Allow header."
    on_page = "Go back, and use the link or the button that leads here."

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
    code, status, title = "unsupported_media_type", 415, "Content type or encoding not supported"
    detail = "Send Content-Type: application/json, and the body without Content-Encoding."


class EncodedBody(UnsupportedMediaType):
    detail = "Send the body as it is, without Content-Encoding. The service decodes no body."
    usual_headers = {"Accept-Encoding": "identity"}


# --- 409 ---------------------------------------------------------------------------------------


class MadeAlready(Refused):
    code, status, title = "made_already", 409, "Made already"
    detail = (
        "This form was sent before, and what it made was shown then. Nothing new was made. If you "
        "did not store the value, open the form again and make a new one."
    )


class IdempotencyKeyReused(Refused):
    code, status, title = "idempotency_key_reused", 409, "Idempotency-Key used for something else"
    detail = (
        "What was made with this Idempotency-Key differs from this request, or was changed since. "
        "Nothing was made. Use a new key for something new."
    )


# --- 422 ---------------------------------------------------------------------------------------


class Unlawful(Refused):
    """The request is well-formed, but the law forbids it."""

    status = 422


class ExchangeSecret(Unlawful):
    code, title = "exchange_secret", "The body contains what looks like a secret"
    detail = (
        "Remove every key, secret, passphrase and token from the body. Revoke what you sent and "
        "replace it. The service never needs an exchange secret, and it stored nothing of the body."
    )


class Invalid(Unlawful):
    code, title = "invalid", "Invalid request"
    detail = "Correct each field that errors lists."
    example = {"errors": [{"field": "limit", "code": "range", "detail": "Send at least 1."}]}

    @classmethod
    def field(cls, name: str, code: FieldCode, detail: str) -> "Invalid":
        """The refusal for an error in one field."""
        return cls(errors=[FieldError(field=name, code=code, detail=detail)])


class CursorLost(Unlawful):
    code, title = "cursor_lost", "Unknown cursor"
    detail = (
        "The log no longer contains the position of this cursor. Pull all desks again. Read the "
        "feed again from the beginning, or from the tail with order=desc&limit=1, and compare the "
        "result with the events you have."
    )
    on_page = "The log does not have this place any more. Open the list again."


# --- 429, 500 and 503 --------------------------------------------------------------------------


class RateLimited(Refused):
    code, status, title = "rate_limited", 429, "Too many requests"
    detail = "Wait for the number of seconds in the Retry-After header, then try again."
    on_page = "You sent more requests than the service allows."

    def __init__(self, retry_after: int, budget: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self.headers |= {"Retry-After": str(retry_after), **(budget or {})}


class Internal(Refused):
    code, status, title = "internal", 500, "Internal error"
    detail = (
        "Nothing was changed. Send the request again. If it fails again, contact us and quote the "
        "requestId."
    )


NO_TIME_ENDS_IT = "Trying again does not help before, and we cannot say when that will be."


class Unavailable(Refused):
    code, status, title = "unavailable", 503, "Temporarily unavailable"
    detail = (
        "Send the same request again after the number of seconds in Retry-After. Keep the nonce of "
        "a signal: it may have been recorded."
    )
    on_page = "If you sent a form, look whether it took effect before you send it again."

    def __init__(self, wait: Wait, detail: str | None = None, retry_after: int = 1) -> None:
        super().__init__(detail or f"{wait.meaning} {self.detail}")
        on_page = NO_TIME_ENDS_IT if wait is Wait.NEW_EPOCH else self.on_page
        self.sentence = detail or f"{wait.meaning} {on_page}"
        self.wait = wait
        self.headers["Retry-After"] = str(retry_after)
