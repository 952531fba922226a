"""Generates the OpenAPI document: extensions for our fields, events and authentication.

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
    OpenApiSerializerFieldExtension,
)
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema

from config.openapi import responses
from desks.api import schemas as desks
from events.http.schemas import Schema
from events.kinds import Kind
from signals.intake.api import records as signals
from signals.webhooks.openapi import SubscriptionData
from tokens.api import schemas as tokens
from tokens.crypto import formats, signing

Document = dict[str, Any]


class Generator(SchemaGenerator):
    """Generates the OpenAPI document."""

    def get_schema(self, *args: Any, **kwargs: Any) -> Document:
        return responses.finish(super().get_schema(*args, **kwargs))

    def create_view(self, callback: Any, method: str, request: Any = None) -> Any:
        """Returns a view with its method set. The hook's authentication depends on it."""
        view = super().create_view(callback, method, request)
        view.request = HttpRequest()
        view.request.method = method
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
def document() -> Document:
    """Returns the OpenAPI document. Each process generates it once."""
    return Generator().get_schema(request=None, public=True)


def _of(prefix: str) -> tuple[Kind, ...]:
    """Returns the kinds of event whose names begin so."""
    return tuple(kind for kind in Kind if kind.startswith(prefix))


# The schema of ``data``, and the kinds of event that use it.
EVENT_DATA: dict[type[Schema], tuple[Kind, ...]] = {
    desks.VenueData: _of("desk."),
    desks.CardData: _of("card."),
    desks.ElectionData: (Kind.ELECTION_MADE,),
    desks.WithdrawalData: (Kind.ELECTION_WITHDRAWN,),
    desks.AutomationData: (Kind.AUTOMATION_CREATED, Kind.AUTOMATION_REMOVED),
    desks.ChangeData: (Kind.AUTOMATION_CHANGED,),
    desks.SilenceData: (Kind.AUTOMATION_QUIET, Kind.AUTOMATION_HEARD),
    tokens.TokenData: _of("token."),
    tokens.SecretData: _of("secret."),
    signals.SignalData: (Kind.SIGNAL_FILLED, Kind.SIGNAL_DRY_RUN, Kind.SIGNAL_RECORDED),
    signals.RefusalData: (Kind.SIGNAL_REFUSED,),
    SubscriptionData: _of("subscription."),
}


class DescribedField(OpenApiSerializerFieldExtension):
    """A field with its own schema."""

    target_class = "events.http.schemas.Field"

    def map_serializer_field(self, auto_schema: AutoSchema, direction: Any) -> Document:
        schema = dict(self.target.schema)
        if self.target.allow_null and "const" in schema:
            schema["enum"] = [schema.pop("const")]
        if self.target.allow_null and "enum" in schema:
            schema["enum"] = [*schema["enum"], None]
        return schema


class StrictBody(OpenApiSerializerExtension):
    """A body that accepts no unknown members."""

    target_class = "events.http.parameters.StrictSerializer"
    match_subclasses = True

    def map_serializer(self, auto_schema: AutoSchema, direction: Any) -> Document:
        schema = auto_schema._map_serializer(self.target, direction, bypass_extensions=True)
        return {**schema, "additionalProperties": False}


class EventContent(OpenApiSerializerExtension):
    """Combines the apps' schemas of event data, which the log does not know."""

    target_class = "events.api.schemas.EventRecord"

    def map_serializer(self, auto_schema: AutoSchema, direction: Any) -> Document:
        schema = auto_schema._map_serializer(self.target, direction, bypass_extensions=True)
        shapes: list[type[Schema]] = [signals.SignalRecord, signals.SignalOfDesk, *EVENT_DATA]
        refs = {shape: auto_schema.resolve_serializer(shape, direction).ref for shape in shapes}
        schema["properties"]["signal"] = {
            "anyOf": [refs[signals.SignalRecord], refs[signals.SignalOfDesk], {"type": "null"}]
        }
        schema["properties"]["data"] = {"anyOf": [refs[shape] for shape in EVENT_DATA]}
        schema["allOf"] = [_data_of(kinds, refs[shape]) for shape, kinds in EVENT_DATA.items()]
        return dict(schema)


def _data_of(kinds: Iterable[Kind], ref: Document) -> Document:
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

    def get_security_definition(self, auto_schema: AutoSchema) -> Document:
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

    target_class = "tokens.callers.authentication.SignerAuthentication"
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


def _key(location: str, name: str, description: str) -> Document:
    return {"type": "apiKey", "in": location, "name": name, "description": description}
