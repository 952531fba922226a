"""The OpenAPI document, generated from the views.

drf-spectacular finds the extensions when this module is imported. ``config.openapi.responses`` adds
the refusals and headers.
"""

# mypy: disable-error-code="no-untyped-call"
# drf-spectacular's functions have no types.

import functools
from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from drf_spectacular.extensions import (
    OpenApiAuthenticationExtension,
    OpenApiSerializerExtension,
)
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import Direction, extend_schema
from rest_framework.request import Request

from config.openapi import responses
from events.feed import EventRecord
from events.http.api_view import ApiResponse, ApiView
from events.http.schemas import Body
from events.http.web_pages import View
from events.json_schema import JsonObject, schema_of
from events.kinds import DATA, Kind
from signals.intake.api import PUBLIC
from signals.intake.models import SignalOfDesk, SignalRecord
from tokens.crypto import formats, signing


class Generator(SchemaGenerator):
    """Generates the OpenAPI document."""

    def get_schema(self, request: Request | None = None, public: bool = False) -> JsonObject:
        return responses.finish(super().get_schema(request, public))

    def create_view(self, callback: View, method: str, request: Request | None = None) -> ApiView:
        """Returns a view with its method set. The hook's authentication depends on it."""
        view: ApiView = super().create_view(callback, method, request)
        sent = HttpRequest()
        sent.method = method
        view.request = Request(sent)
        return view


METHODS = ("GET", "POST", "PATCH", "DELETE")


def in_order(endpoints: list[tuple[str, str, str, Any]]) -> list[tuple[str, str, str, Any]]:
    """Sorts paths as in the URL map, and the methods of each in a fixed order.

    drf-spectacular reads the methods from a set, whose order differs between processes. Every
    process must return the same bytes and the same ETag.
    """
    paths = list(dict.fromkeys(path for path, *_ in endpoints))
    return sorted(endpoints, key=lambda one: (paths.index(one[0]), METHODS.index(one[2])))


@functools.cache
def document() -> JsonObject:
    """Returns the OpenAPI document. Each process generates it once."""
    return Generator().get_schema(request=None, public=True)


class SchemaView(ApiView):
    """GET /api/schema: the whole API as OpenAPI 3.1. Public."""

    authentication_classes = []
    permission_classes = []

    @extend_schema(exclude=True)
    def get(self, request: Request) -> ApiResponse[JsonObject]:
        return ApiResponse(document(), headers=PUBLIC)


# --- Extensions for our bodies, events and authentication ----------------------------------------


class StrictBody(OpenApiSerializerExtension):
    """A body that accepts no unknown members."""

    target_class = "events.http.parameters.StrictSerializer"
    match_subclasses = True

    def map_serializer(self, auto_schema: AutoSchema, direction: Direction) -> JsonObject:
        schema = auto_schema._map_serializer(self.target, direction, bypass_extensions=True)
        return {**schema, "additionalProperties": False}


class TypedBody(OpenApiSerializerExtension):
    """A body without a serializer. That of an event has the data that the apps describe."""

    target_class = "events.http.schemas.Body"

    def get_name(self, auto_schema: AutoSchema, direction: Direction) -> str:
        name: str = self.target.name
        return name

    def map_serializer(self, auto_schema: AutoSchema, direction: Direction) -> JsonObject:
        def refer(described: type) -> JsonObject:
            reference: JsonObject = auto_schema.resolve_serializer(
                Body.of(described), direction
            ).ref
            return reference

        schema: JsonObject = self.target.schema(refer)
        if self.target.name == EventRecord.__name__:
            schema["properties"]["signal"] = schema_of(SignalRecord | SignalOfDesk | None, refer)
            schema["properties"]["data"] = {"anyOf": [refer(data) for data in kinds_of_data()]}
            schema["allOf"] = [
                _data_of(kinds, refer(data)) for data, kinds in kinds_of_data().items()
            ]
        return schema


def kinds_of_data() -> dict[type, list[Kind]]:
    """Returns each type of ``data``, with the kinds of event that have it."""
    kinds: dict[type, list[Kind]] = {}
    for kind in Kind:
        kinds.setdefault(DATA[kind], []).append(kind)
    return kinds


def _data_of(kinds: Iterable[Kind], ref: JsonObject) -> JsonObject:
    """Returns the rule that events of these kinds have data of this schema."""
    return {
        "if": {"properties": {"kind": {"enum": [kind.value for kind in kinds]}}},
        "then": {"properties": {"data": ref}},
    }


class BearerScheme(OpenApiAuthenticationExtension):
    """A token, and the scope that the view requires."""

    target_class = "tokens.callers.authentication.BearerAuthentication"
    name = "bearer"

    def get_security_requirement(self, auto_schema: AutoSchema) -> list[dict[str, list[Any]]]:
        view: Any = auto_schema.view
        scope = view.required_scopes.get(auto_schema.method)
        return [{"bearer": [scope] if scope else []}]

    def get_security_definition(self, auto_schema: AutoSchema) -> JsonObject:
        return {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": f"{formats.DESK_TOKEN}… or {formats.PLATFORM_TOKEN}…",
            "description": (
                f"A desk token (`{formats.DESK_TOKEN}`) reads its own desk. A platform token "
                f"(`{formats.PLATFORM_TOKEN}`) has the scopes `read` or `write` or both. The "
                f"prefix is followed by {formats.RANDOM_CHARACTERS} random base62 characters and "
                f"a checksum of {formats.CHECKSUM_CHARACTERS}."
            ),
        }


class SignerScheme(BearerScheme):
    """A token, or a signature and its timestamp."""

    target_class = "signals.intake.authentication.SignerAuthentication"
    name = ["signature", "timestamp"]  # type: ignore[assignment]

    def get_security_requirement(self, auto_schema: AutoSchema) -> list[dict[str, list[Any]]]:
        signed: dict[str, list[Any]] = {"signature": [], "timestamp": []}
        return [*super().get_security_requirement(auto_schema), signed]

    def get_security_definition(self, auto_schema: AutoSchema) -> Any:
        signature = (
            f"`{signing.VERSION}=` and the lower-case hex of HMAC-SHA256 over the timestamp, a "
            "full stop and the raw body, with the bytes of the signing secret's text as key. "
            f"Up to {signing.MAX_SIGNATURES}, separated by commas; one valid one is enough. "
            "Those of another scheme, such as `v2=`, are passed over."
        )
        timestamp = (
            "The Unix time of sending, exactly 10 digits, at most "
            f"{settings.TIMESTAMP_TOLERANCE} seconds old or ahead."
        )
        return [
            _key("header", signing.SIGNATURE_HEADER, signature),
            _key("header", signing.TIMESTAMP_HEADER, timestamp),
        ]


class SessionScheme(BearerScheme):
    """A session, with a CSRF token for changes; or a token, where one may call."""

    target_class = "tokens.callers.authentication.SessionOrBearerAuthentication"
    name = ["session", "csrf"]  # type: ignore[assignment]

    def get_security_requirement(self, auto_schema: AutoSchema) -> list[dict[str, list[Any]]]:
        if auto_schema.method == "GET":
            return [*super().get_security_requirement(auto_schema), {"session": []}]
        by_session: dict[str, list[Any]] = {"session": [], "csrf": []}
        if auto_schema.method in self.target.session_only:
            return [by_session]
        return [*super().get_security_requirement(auto_schema), by_session]

    def get_security_definition(self, auto_schema: AutoSchema) -> Any:
        session = "Whoever signed in at `/accounts/login/`. Not where `Authorization` is present."
        csrf = f"The cookie `{settings.CSRF_COOKIE_NAME}`, beside a session that changes something."
        return [
            _key("cookie", settings.SESSION_COOKIE_NAME, session),
            _key("header", "X-CSRFToken", csrf),
        ]


def _key(location: str, name: str, description: str) -> JsonObject:
    return {"type": "apiKey", "in": location, "name": name, "description": description}
