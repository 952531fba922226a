"""What every answer of the schema document has: refusals as problems, and headers.

The library makes a document from the views; ``finish`` adds what follows from who may call, and
from the refusals that a view names, so that no view repeats either.
"""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from django.conf import settings

from config import worker
from config.problems import MEDIA_TYPE
from events.api.schemas import COUNT, JSON, REFUSALS, TEXT
from events.refusals import (
    BodyTooLarge,
    CredentialsMissing,
    CsrfFailed,
    DirectionMismatch,
    FloorSecretRefused,
    HostInvalid,
    HttpsRequired,
    Internal,
    Invalid,
    LengthRequired,
    MethodNotAllowed,
    NonceUsed,
    NotAllowed,
    PairMismatch,
    RateLimited,
    ReauthenticationRequired,
    Refused,
    ScopeMissing,
    SecondFactorRequired,
    SignatureInvalid,
    SignatureMissing,
    TimestampInvalid,
    TokenInvalid,
    Unavailable,
)
from signals.api.operations import ACCEPTED, ELECTED

Document = dict[str, Any]

EVERYWHERE = (
    HostInvalid,
    HttpsRequired,
    MethodNotAllowed,
    LengthRequired,
    BodyTooLarge,
    Internal,
    Unavailable,
)
# What a way of saying who calls is refused with, and what a scope that is asked adds to it.
OF_SCHEME: dict[str, tuple[type[Refused], ...]] = {
    "bearer": (CredentialsMissing, TokenInvalid, RateLimited),
    "signature": (SignatureMissing, SignatureInvalid, TimestampInvalid, FloorSecretRefused),
    "session": (SecondFactorRequired,),
    "csrf": (CsrfFailed, ReauthenticationRequired),
}
OF_SCOPE = (NotAllowed, ScopeMissing)

# What a refusal says beside its code and sentences.
SENT = {"sent": {**ELECTED, "pair": "ETH/USDT"}, "elected": ELECTED}
MEMBERS: dict[type[Refused], Document] = {
    Invalid: {"errors": [{"field": "limit", "code": "min_value", "detail": "Send 1 or more."}]},
    TimestampInvalid: {"serverTime": 1763630000},
    PairMismatch: SENT,
    DirectionMismatch: {**SENT, "sent": {**ELECTED, "direction": "short"}},
    NonceUsed: {
        "first": {name: value for name, value in ACCEPTED.items() if name != "ignored"},
        "identical": True,
    },
}
REQUEST_ID = "5f0c4a7be2d14e0b9d7a3c1f88e6b2a0"

HEADERS: Document = {
    "X-Request-Id": {
        "description": "The caller's, if it is 1 to 64 of A-Za-z0-9_-, else a new one.",
        "schema": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
        "required": True,
    },
    "NoStore": {"schema": {"const": "no-store"}, "required": True},
    "NoCache": {"schema": {"const": "public, no-cache"}, "required": True},
    "ETag": {"description": "For If-None-Match.", "schema": TEXT, "required": True},
    "WWW-Authenticate": {"schema": {"const": "Bearer"}, "required": True},
    "Allow": {"description": "The methods of this path.", "schema": TEXT, "required": True},
    "Retry-After": {"description": "Seconds.", "schema": COUNT, "required": True},
    "RateLimit-Policy": {
        "description": "The limit that the caller counts for: so many in so many seconds.",
        "schema": {"type": "string", "pattern": '^"[a-z]+";q=[0-9]+;w=[0-9]+$'},
    },
    "RateLimit": {
        "description": "What is left of it, and the seconds until there is more.",
        "schema": {"type": "string", "pattern": '^"[a-z]+";r=[0-9]+;t=[0-9]+$'},
    },
}
ALWAYS = {"X-Request-Id": "X-Request-Id", "Cache-Control": "NoStore"}
COUNTED = {**ALWAYS, "RateLimit-Policy": "RateLimit-Policy", "RateLimit": "RateLimit"}
PUBLIC = {**ALWAYS, "Cache-Control": "NoCache", "ETag": "ETag"}
OF_STATUS = {
    401: {"WWW-Authenticate": "WWW-Authenticate"},
    405: {"Allow": "Allow"},
    429: {"Retry-After": "Retry-After"},
    503: {"Retry-After": "Retry-After"},
}


def _name(reason: str) -> str:
    return reason.replace(" ", "")


# What the server refuses before it is a request it answers by itself, whatever it was meant for.
UNREAD = {
    _name(reason): {
        "description": f"{reason}: {worker.SENTENCE}",
        "content": {"text/plain": {"schema": TEXT}},
    }
    for _, reason in worker.STATUSES.values()
}


def finish(result: Document) -> Document:
    """Adds refusals and headers to the document, and takes the library's own notes out of it."""
    components = result["components"]
    components["schemas"]["Problem"] = _problem()
    components["headers"] = HEADERS
    components["responses"] = UNREAD | {refusal.code: _refused([refusal]) for refusal in EVERYWHERE}
    components["examples"] = {refusal.code: _example(refusal) for refusal in Refused.registry()}
    for path in result["paths"].values():
        for operation in path.values():
            _finish_operation(operation)
    finished: Document = _without_notes(result)
    return finished


def _finish_operation(operation: Document) -> None:
    responses = operation["responses"]
    headers = COUNTED if operation.get("security") else PUBLIC
    for response in responses.values():
        response["headers"] = _headers(headers)
    if headers is PUBLIC:
        responses["304"] = {"description": "As the ETag names it.", "headers": _headers(headers)}
    for status, reason in worker.STATUSES.values():
        responses[str(status)] = {"$ref": f"#/components/responses/{_name(reason)}"}
    codes = set(operation.pop(REFUSALS)) | {refusal.code for refusal in _derived(operation)}
    refusals = [refusal for refusal in Refused.registry() if refusal.code in codes]
    for status in sorted({refusal.status for refusal in refusals}):
        of_status = [refusal for refusal in refusals if refusal.status == status]
        responses[str(status)] = _answer(of_status, responses.get(str(status)))
    operation["responses"] = dict(sorted(responses.items()))


def _derived(operation: Document) -> Iterator[type[Refused]]:
    """The refusals that follow from where and by whom an operation is called."""
    yield from EVERYWHERE
    for requirement in operation.get("security", []):
        for scheme, scopes in requirement.items():
            yield from OF_SCHEME.get(scheme, ())
            yield from OF_SCOPE if scopes else ()


def _answer(refusals: list[type[Refused]], declared: Document | None) -> Document:
    """The answer with one status: in place, or where all operations have it the one they share."""
    if len(refusals) == 1 and refusals[0] in EVERYWHERE:
        return {"$ref": f"#/components/responses/{refusals[0].code}"}
    return _refused(refusals, declared)


def _refused(refusals: list[type[Refused]], declared: Document | None = None) -> Document:
    """Which codes an answer with one status has, and what more the view said it tells."""
    status = refusals[0].status
    always = set.intersection(*(set(MEMBERS.get(refusal, {})) for refusal in refusals))
    codes = {
        "properties": {
            "status": {"const": status},
            "code": {"enum": [refusal.code for refusal in refusals]},
        },
        "required": sorted(always),
    }
    more = [declared["content"][JSON]["schema"]] if declared else []
    return {
        "description": f"{HTTPStatus(status).phrase}: "
        + "; ".join(f"`{refusal.code}` ({refusal.title})" for refusal in refusals),
        "headers": _headers({**COUNTED, **OF_STATUS.get(status, {})}),
        "content": {
            MEDIA_TYPE: {
                "schema": {"allOf": [{"$ref": "#/components/schemas/Problem"}, *more, codes]},
                "examples": {
                    refusal.code: {"$ref": f"#/components/examples/{refusal.code}"}
                    for refusal in refusals
                },
            }
        },
    }


def _headers(names: dict[str, str]) -> Document:
    return {name: {"$ref": f"#/components/headers/{kept}"} for name, kept in names.items()}


def _example(refusal: type[Refused]) -> Document:
    return {
        "summary": refusal.title,
        "value": {
            "type": f"{settings.BASE_URL}/problems/{refusal.code}",
            "title": refusal.title,
            "status": refusal.status,
            "detail": refusal.detail,
            "code": refusal.code,
            "requestId": REQUEST_ID,
            **MEMBERS.get(refusal, {}),
        },
    }


def _problem() -> Document:
    """RFC 9457, with the members of the contract's section 5."""
    pair_and_direction = {"$ref": "#/components/schemas/SentPairAndDirection"}
    fault = {"type": "object", "properties": dict.fromkeys(("field", "code", "detail"), TEXT)}
    properties = {
        "type": {"type": "string", "format": "uri", "description": "A page that explains it."},
        "title": TEXT,
        "status": {"type": "integer"},
        "detail": {**TEXT, "description": "What was wrong, and what to do."},
        "code": {"type": "string", "enum": [refusal.code for refusal in Refused.registry()]},
        "requestId": HEADERS["X-Request-Id"]["schema"],
        "errors": {"type": "array", "items": {**fault, "required": ["field", "code", "detail"]}},
        "sent": pair_and_direction,
        "elected": pair_and_direction,
        "serverTime": {"type": "integer", "description": "Unix time in seconds."},
    }
    usual = ["type", "title", "status", "detail", "code", "requestId"]
    return {
        "type": "object",
        "description": "Why a request was refused. Nothing that it asked for has happened.",
        "properties": properties,
        "required": usual,
    }


def _without_notes(value: Any) -> Any:
    """The same without the marks by which the library would tell enumerations apart."""
    if isinstance(value, dict):
        return {
            name: _without_notes(inner) for name, inner in value.items() if name != "x-spec-enum-id"
        }
    return [_without_notes(inner) for inner in value] if isinstance(value, list) else value
