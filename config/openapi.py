"""What the schema's library has to be told of us: our fields, events, and ways to say who calls.

It finds the extensions by their being there; ``config.answers`` finishes what it makes.
"""

# mypy: disable-error-code="no-untyped-call"
# The library has no types for what it calls.

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

from config import answers
from desks.api import schemas as desks
from events.api.schemas import Shape
from events.kinds import Kind
from signals.api import schemas as signals
from tokens import formats, signing
from tokens.api import schemas as tokens

Document = dict[str, Any]


class Generator(SchemaGenerator):
    """Makes the schema document."""

    def get_schema(self, *args: Any, **kwargs: Any) -> Document:
        return answers.finish(super().get_schema(*args, **kwargs))

    def create_view(self, callback: Any, method: str, request: Any = None) -> Any:
        """A view that knows its method: the hook's tells by it who may call."""
        view = super().create_view(callback, method, request)
        view.request = HttpRequest()
        view.request.method = method
        return view


METHODS = ("GET", "POST", "DELETE")


def in_order(endpoints: list[tuple[str, str, str, Any]]) -> list[tuple[str, str, str, Any]]:
    """Paths as the URL map has them, and the methods of each always in the same order.

    The framework takes the methods from a set, whose order is another in each process; every
    process must answer with the same bytes and the same ETag.
    """
    paths = list(dict.fromkeys(path for path, *_ in endpoints))
    return sorted(endpoints, key=lambda one: (paths.index(one[0]), METHODS.index(one[2])))


@functools.cache
def document() -> Document:
    """The schema document: made once a process, since nothing in it changes while one runs."""
    return Generator().get_schema(request=None, public=True)


# What the events of a kind say.
EVENT_DATA: dict[type[Shape], tuple[Kind, ...]] = {
    desks.VenueData: (Kind.DESK_CREATED, Kind.DESK_CONNECTED, Kind.DESK_DISCONNECTED),
    desks.CardData: (Kind.CARD_PUBLISHED, Kind.CARD_RETIRED),
    desks.ElectionData: (Kind.ELECTION_MADE,),
    desks.WithdrawalData: (Kind.ELECTION_WITHDRAWN,),
    desks.AutomationData: (Kind.AUTOMATION_CREATED, Kind.AUTOMATION_REMOVED),
    tokens.TokenData: (Kind.TOKEN_MINTED, Kind.TOKEN_REVOKED),
    tokens.SecretData: (Kind.SECRET_GENERATED, Kind.SECRET_ENDED),
    signals.SignalData: (Kind.SIGNAL_FILLED, Kind.SIGNAL_DRY_RUN, Kind.SIGNAL_RECORDED),
    signals.RefusalData: (Kind.SIGNAL_REFUSED,),
}


class DescribedField(OpenApiSerializerFieldExtension):
    """A field that brings its own schema."""

    target_class = "events.api.schemas.Field"

    def map_serializer_field(self, auto_schema: AutoSchema, direction: Any) -> Document:
        schema = dict(self.target.schema)
        if self.target.allow_null and "const" in schema:
            schema["enum"] = [schema.pop("const")]
        if self.target.allow_null and "enum" in schema:
            schema["enum"] = [*schema["enum"], None]
        return schema


class StrictBody(OpenApiSerializerExtension):
    """A body in which everything unknown is refused."""

    target_class = "events.api.parameters.Strict"
    match_subclasses = True

    def map_serializer(self, auto_schema: AutoSchema, direction: Any) -> Document:
        schema = auto_schema._map_serializer(self.target, direction, bypass_extensions=True)
        return {**schema, "additionalProperties": False}


class EventContent(OpenApiSerializerExtension):
    """The log knows nothing of what its events mean; here the apps' shapes come together."""

    target_class = "events.api.schemas.EventRecord"

    def map_serializer(self, auto_schema: AutoSchema, direction: Any) -> Document:
        schema = auto_schema._map_serializer(self.target, direction, bypass_extensions=True)
        shapes: list[type[Shape]] = [signals.SignalRecord, signals.SignalOfDesk, *EVENT_DATA]
        refs = {shape: auto_schema.resolve_serializer(shape, direction).ref for shape in shapes}
        schema["properties"]["signal"] = {
            "anyOf": [refs[signals.SignalRecord], refs[signals.SignalOfDesk], {"type": "null"}]
        }
        schema["properties"]["data"] = {"anyOf": [refs[shape] for shape in EVENT_DATA]}
        schema["allOf"] = [_data_of(kinds, refs[shape]) for shape, kinds in EVENT_DATA.items()]
        return dict(schema)


def _data_of(kinds: Iterable[Kind], ref: Document) -> Document:
    """Events of these kinds have data of this shape."""
    return {
        "if": {"properties": {"kind": {"enum": [kind.value for kind in kinds]}}},
        "then": {"properties": {"data": ref}},
    }


class BearerScheme(OpenApiAuthenticationExtension):
    """A token, and the scope that the view asks of it."""

    target_class = "tokens.authentication.BearerAuthentication"
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
    """A token, or a signature and the time that it signs."""

    target_class = "tokens.authentication.SignerAuthentication"
    name = ["signature", "timestamp"]  # type: ignore[assignment]

    def get_security_requirement(self, auto_schema: AutoSchema) -> list[dict[str, list[Any]]]:
        signed: dict[str, list[Any]] = {"signature": [], "timestamp": []}
        return [*super().get_security_requirement(auto_schema), signed]

    def get_security_definition(self, auto_schema: AutoSchema) -> Any:
        signature = (
            f"`{signing.VERSION}=` and the lower-case hex of HMAC-SHA256 over the timestamp, a "
            "full stop and the raw body, with the bytes of the signing secret's text as key. "
            f"Up to {signing.MOST_SIGNATURES}, separated by commas; one valid one is enough."
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
    """A session, and for changes its CSRF token; or a token, which mints none."""

    target_class = "tokens.authentication.SessionOrBearerAuthentication"
    name = ["session", "csrf"]  # type: ignore[assignment]

    def get_security_requirement(self, auto_schema: AutoSchema) -> list[dict[str, list[Any]]]:
        if auto_schema.method == "GET":
            return [*super().get_security_requirement(auto_schema), {"session": []}]
        by_session: dict[str, list[Any]] = {"session": [], "csrf": []}
        if auto_schema.method == "POST":
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
