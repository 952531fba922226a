"""Adds refusals and headers to every operation of the OpenAPI document.

drf-spectacular generates the document from the views. ``finish`` adds what follows from the
authentication and from the refusals that a view declares, so that no view repeats them.
"""

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Annotated, Any, NotRequired, TypedDict

from config import security_headers
from config.openapi import messages_and_streams
from config.problems import MEDIA_TYPE, usual_members
from events.http import refusals
from events.http.refusals import FieldError, Refused
from events.http.schemas import JSON, REFUSALS
from events.json_schema import (
    COUNT,
    STRING,
    JsonObject,
    JsonSchema,
    example_of,
    object_schema,
    one_of,
    pattern,
)
from events.live.frames import MEDIA_TYPE as STREAM
from signals.intake.models import SentPairAndDirection, SpentNonce
from signals.law.refusals import DeskNotReady, NonceUsed

REQUEST_ID = "5f0c4a7be2d14e0b9d7a3c1f88e6b2a0"
CHALLENGES = [
    refusal.usual_headers["WWW-Authenticate"]
    for refusal in (refusals.Unauthenticated, refusals.TokenInvalid)
]

FORM_OF_REQUEST_ID = pattern("[A-Za-z0-9_-]{1,64}")
REQUEST_ID_HEADER: JsonObject = {
    "description": "The caller's, if it is 1 to 64 of A-Za-z0-9_- and holds no credential, "
    "else a new one.",
    "schema": FORM_OF_REQUEST_ID,
}
HEADERS: JsonObject = {
    "X-Request-Id": {**REQUEST_ID_HEADER, "required": True},
    "X-Request-Id-If-Read": REQUEST_ID_HEADER,
    "NoStore": {"schema": {"const": "no-store"}, "required": True},
    "NoCache": {"schema": {"const": "public, no-cache"}, "required": True},
    "ETag": {
        "description": "For If-None-Match. Weak: the same whether compressed or not.",
        "schema": STRING,
        "required": True,
    },
    "WWW-Authenticate": {
        "description": "Of RFC 6750, with an error if a token was sent and is not valid.",
        "schema": {"enum": CHALLENGES},
        "required": True,
    },
    "InsufficientScope": {
        "description": "Of RFC 6750, with scope_missing only: the scope that the call asks for.",
        "schema": pattern(f'{refusals.CHALLENGE}, error="insufficient_scope", scope="[a-z]+"'),
    },
    "Accept-Encoding": {
        "description": "If the body was encoded.",
        "schema": {"const": refusals.EncodedBody.usual_headers["Accept-Encoding"]},
    },
    "Allow": {"description": "The methods of this path.", "schema": STRING, "required": True},
    "Retry-After": {"description": "Seconds.", "schema": COUNT, "required": True},
    "RateLimit-Policy": {
        "description": "The limit with the least left: so many in so many seconds.",
        "schema": {"type": "string", "pattern": '^"[a-z_]+";q=[0-9]+;w=[0-9]+$'},
    },
    "RateLimit": {
        "description": "What is left of it, and the seconds until there is more.",
        "schema": {"type": "string", "pattern": '^"[a-z_]+";r=[0-9]+;t=[0-9]+$'},
    },
}
ALWAYS = {"X-Request-Id": "X-Request-Id", "Cache-Control": "NoStore"}
COUNTED = {**ALWAYS, "RateLimit-Policy": "RateLimit-Policy", "RateLimit": "RateLimit"}
PUBLIC = {**ALWAYS, "Cache-Control": "NoCache", "ETag": "ETag"}
OF_STATUS = {
    400: {"X-Request-Id": "X-Request-Id-If-Read"},
    401: {"WWW-Authenticate": "WWW-Authenticate"},
    403: {"WWW-Authenticate": "InsufficientScope"},
    405: {"Allow": "Allow"},
    415: {"Accept-Encoding": "Accept-Encoding"},
    429: {"Retry-After": "Retry-After"},
    503: {"Retry-After": "Retry-After"},
}

EVERYWHERE = (
    refusals.Malformed,
    refusals.HostInvalid,
    refusals.HttpsRequired,
    refusals.MethodNotAllowed,
    refusals.LengthRequired,
    refusals.BodyTooLarge,
    refusals.UnsupportedMediaType,
    refusals.Internal,
    refusals.Unavailable,
)
# The refusals of each authentication scheme, and those of a required scope.
OF_SCHEME: dict[str, tuple[type[Refused], ...]] = {
    "bearer": (refusals.CredentialsMissing, refusals.TokenInvalid, refusals.RateLimited),
    "signature": (
        refusals.SignatureMissing,
        refusals.SignatureInvalid,
        refusals.TimestampInvalid,
        refusals.FloorSecretRefused,
    ),
    "session": (refusals.TokenInvalid, refusals.RateLimited, refusals.SecondFactorRequired),
    "csrf": (refusals.CsrfFailed, refusals.ReauthenticationRequired),
}
OF_SCOPE = (refusals.NotAllowed, refusals.ScopeMissing)

# The answer to the first signal is described where signals are.
EXAMPLES: dict[type[Refused], Mapping[str, Any]] = {NonceUsed: example_of(SpentNonce)}
# The groups of operations, in the order of the document.
TAGS = {
    "Signals": "Sent by bots, an engine or Nox: push, check, deploy, and learn what became of one.",
    "Desks": "What an engine pulls: every desk, with its connection and election.",
    "Events": "The log of all that happened, as a list, by waiting, or as a stream.",
    "Tokens": "Credentials of programs. A desk token reads its own desk, a platform token all.",
    "Subscriptions": "Webhooks, as their owner manages them: URL, kinds, secret and tests.",
    "Webhooks": "The messages that the service sends to the URL of a webhook.",
    "Catalog": "What there is, and how one begins.",
}
# Responses to invalid HTTP requests, on every path. A 400 may also be a refusal.
UNREAD: JsonObject = {"text/plain": {"schema": STRING}}
NOT_HTTP: JsonObject = {
    f"NotHttp{status}": {
        "description": f"{reason}: {security_headers.DETAIL}",
        "content": UNREAD,
    }
    for status, reason in security_headers.REASONS.items()
    if status != 400
}


class Problem(TypedDict):
    """Why a request was refused. Nothing was changed, except that after `unavailable` what it asked
    for may have happened.
    """

    type: Annotated[str, JsonSchema(format="uri"), "A page that explains it."]
    title: str
    status: int
    detail: Annotated[str, "What was wrong, and what to do."]
    code: str  # ``finish`` lists them
    requestId: Annotated[str, FORM_OF_REQUEST_ID]
    errors: NotRequired[list[FieldError]]
    sent: NotRequired[SentPairAndDirection]
    elected: NotRequired[SentPairAndDirection]
    serverTime: NotRequired[Annotated[int, "Unix time in seconds."]]
    reason: NotRequired[Annotated[str, one_of(DeskNotReady.REASONS), "Why it is not ready."]]


def finish(result: JsonObject) -> JsonObject:
    """Adds refusals and headers to the document."""
    result["tags"] = [{"name": name, "description": text} for name, text in TAGS.items()]
    result["paths"] = dict(sorted(result["paths"].items(), key=_place))
    components = result["components"]

    def refer(described: type) -> JsonObject:
        if described.__name__ not in components["schemas"]:
            components["schemas"][described.__name__] = object_schema(described, refer)
        return {"$ref": f"#/components/schemas/{described.__name__}"}

    refer(Problem)
    codes = one_of(refusal.code for refusal in Refused.registry())
    components["schemas"]["Problem"]["properties"]["code"] = codes
    result["webhooks"] = messages_and_streams.webhooks(refer)
    components["schemas"]["Stream"] = messages_and_streams.stream(refer)
    components["headers"] = HEADERS
    components["responses"] = NOT_HTTP | {
        refusal.code: _refused([refusal]) for refusal in EVERYWHERE
    }
    components["examples"] = {refusal.code: _example(refusal) for refusal in Refused.registry()}
    for path in result["paths"].values():
        for operation in path.values():
            _finish_operation(operation)
    return result


def _place(path: tuple[str, JsonObject]) -> int:
    """Returns the place of a path in the document: that of its operations' tag."""
    operation = next(iter(path[1].values()))
    return list(TAGS).index(operation["tags"][0])


def _finish_operation(operation: JsonObject) -> None:
    for parameter in _in_path(operation):
        parameter["description"] = parameter["schema"].pop("description")
    responses = operation["responses"]
    headers = COUNTED if operation.get("security") else PUBLIC
    for response in responses.values():
        response["headers"] = response.get("headers", {}) | _headers(headers)
        if streamed := response.get("content", {}).get(STREAM):
            streamed["schema"] = {"$ref": "#/components/schemas/Stream"}
            streamed["example"] = messages_and_streams.STREAM_EXAMPLE
    if headers is PUBLIC:
        responses["304"] = {"description": "As the ETag names it.", "headers": _headers(headers)}
    for name in NOT_HTTP:
        responses[name.removeprefix("NotHttp")] = {"$ref": f"#/components/responses/{name}"}
    codes = set(operation.pop(REFUSALS)) | {refusal.code for refusal in _derived(operation)}
    raised = [refusal for refusal in Refused.registry() if refusal.code in codes]
    for status in sorted({refusal.status for refusal in raised}):
        of_status = [refusal for refusal in raised if refusal.status == status]
        responses[str(status)] = _answer(of_status, responses.get(str(status)))
    operation["responses"] = dict(sorted(responses.items()))


def _in_path(operation: JsonObject) -> list[JsonObject]:
    return [each for each in operation.get("parameters", ()) if each["in"] == "path"]


def _derived(operation: JsonObject) -> Iterator[type[Refused]]:
    """Yields the refusals that follow from an operation's authentication."""
    yield from EVERYWHERE
    if _in_path(operation):
        yield refusals.NotFound
    for requirement in operation.get("security", []):
        for scheme, scopes in requirement.items():
            yield from OF_SCHEME.get(scheme, ())
            yield from OF_SCOPE if scopes else ()


def _answer(of_status: list[type[Refused]], declared: JsonObject | None) -> JsonObject:
    """Returns the response of one status: inline, or a reference if all operations share it."""
    if len(of_status) == 1 and of_status[0] in EVERYWHERE:
        return {"$ref": f"#/components/responses/{of_status[0].code}"}
    return _refused(of_status, declared)


def _refused(of_status: list[type[Refused]], declared: JsonObject | None = None) -> JsonObject:
    """Returns the response of one status: its codes, and the members that the view declares."""
    status = of_status[0].status
    always = set.intersection(*(set(_members(refusal)) for refusal in of_status))
    more = [declared["content"][JSON]["schema"]] if declared else []
    # Beside allOf, not in it: then clients that are generated have one class for all problems.
    schema = {
        "allOf": [{"$ref": "#/components/schemas/Problem"}, *more],
        "properties": {
            "status": {"type": "integer", "enum": [status]},
            "code": {"type": "string", "enum": [refusal.code for refusal in of_status]},
        },
        "required": sorted(always),
    }
    return {
        "description": f"{HTTPStatus(status).phrase}: "
        + "; ".join(f"`{refusal.code}` ({refusal.title})" for refusal in of_status),
        "headers": _headers({**COUNTED, **OF_STATUS.get(status, {})}),
        "content": {
            MEDIA_TYPE: {
                "schema": schema,
                "examples": {
                    refusal.code: {"$ref": f"#/components/examples/{refusal.code}"}
                    for refusal in of_status
                },
            },
            **(UNREAD if status == 400 else {}),
        },
    }


def _headers(names: dict[str, str]) -> JsonObject:
    return {name: {"$ref": f"#/components/headers/{kept}"} for name, kept in names.items()}


def _example(refusal: type[Refused]) -> JsonObject:
    return {
        "summary": refusal.title,
        "value": {**usual_members(refusal, REQUEST_ID), **_members(refusal)},
    }


def _members(refusal: type[Refused]) -> Mapping[str, Any]:
    return EXAMPLES.get(refusal, refusal.example)
