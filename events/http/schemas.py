"""The base classes of what every app's ``api/schemas.py`` describes for the OpenAPI document.

A ``Schema`` is a serializer that only describes JSON. Tests compare the schemas with responses.
"""

import copy
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiExample, OpenApiResponse, extend_schema
from rest_framework import serializers

from events.http.refusals import Malformed, Refused, UnsupportedMediaType

ViewMethod = TypeVar("ViewMethod", bound=Callable[..., Any])

# The extension that holds the refusal codes of an operation. config.openapi resolves it.
REFUSALS = "x-refusals"
JSON = "application/json"
JSON_BODY = (Malformed, UnsupportedMediaType)


class Field(serializers.Field[Any, Any, Any, Any]):
    """A member described by a JSON schema. Takes ``allow_null`` and the other usual arguments."""

    def __init__(self, schema: dict[str, Any], help_text: str = "", **options: Any) -> None:
        self.schema = schema
        super().__init__(help_text=help_text, **options)


class Schema(serializers.Serializer[Any]):
    """The schema of a JSON object in a response or a request body.

    Members that are described alike may be one field: ``key = message = Field(STRING)``.
    """

    def get_fields(self) -> dict[str, Any]:
        return {name: copy.deepcopy(field) for name, field in self._declared_fields.items()}


class Paper(Schema):
    """The first members of every response about desks and signals."""

    paper = Field({"const": True})
    liveWrites = Field({"const": False})


class ApiSchema(AutoSchema):
    """drf-spectacular's schema. Bodies are required for POST and PATCH, optional for DELETE."""

    def _get_request_body(self, *direction: Any) -> Any:
        method, self.method = self.method, "POST"  # the library describes no body for DELETE
        try:
            body = super()._get_request_body(*direction)  # type: ignore[no-untyped-call]
        finally:
            self.method = method
        return {**body, "required": method in ("POST", "PATCH")} if body else None

    def _is_list_view(self, *serializer: Any) -> bool:
        """No response is a bare array: the pages of a list are objects."""
        return False


def operation(
    name: str,
    summary: str,
    description: str,
    *,
    tag: str,
    response: type[serializers.Serializer[Any]],
    status: int = 200,
    example: Any = None,
    body: Any = None,
    bodies: Sequence[OpenApiExample] = (),
    parameters: Sequence[Any] = (),
    refusals: Collection[type[Refused]] = (),
    problems: dict[int, type[Schema]] | None = None,
    forms: dict[str, OpenApiResponse] | None = None,
) -> Callable[[ViewMethod], ViewMethod]:
    """Describes a view's method in the OpenAPI document.

    ``refusals`` are the refusals that only this operation raises: ``config.openapi.responses`` adds
    those of authentication and those of all operations. ``problems`` maps a status to the schema of
    its additional members. ``bodies`` are examples of request bodies. ``forms`` maps the other
    media types of the response to what they are.
    """
    examples = [OpenApiExample("Answer", example, response_only=True)] if example else []
    return extend_schema(
        operation_id=name,
        summary=summary,
        description=description,
        tags=[tag],
        parameters=list(parameters),
        request={JSON: body} if body else None,
        responses={
            (status, JSON): OpenApiResponse(
                response, description=str(response.__doc__), examples=examples
            ),
            **{(status, media_type): form for media_type, form in (forms or {}).items()},
            **(problems or {}),
        },
        examples=list(bodies),
        extensions={REFUSALS: [refusal.code for refusal in refusals]},
    )
