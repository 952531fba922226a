"""Operations of the API, described at their views, for the OpenAPI document.

A view's annotation names the type of its answer: ``-> ApiResponse[DeskRecord]``. Its docstring is
the summary and the description. ``events.json_schema`` describes the types.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypedDict, TypeVar, get_args, get_type_hints

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import Direction, OpenApiExample, OpenApiResponse, extend_schema
from rest_framework import serializers

from events.http.refusals import Invalid, Malformed, Refused, UnsupportedMediaType
from events.json_schema import JsonObject, Refer, example_of, object_schema

NextPage = Annotated[str | None, "The after of the next page. Null on the last page."]

ViewMethod = TypeVar("ViewMethod", bound=Callable[..., Any])

# The extension that holds the refusal codes of an operation. config.openapi resolves it.
REFUSALS = "x-refusals"
JSON = "application/json"
JSON_BODY = (Malformed, UnsupportedMediaType)


class PaperOnly(TypedDict):
    """The first members of every response about desks and signals."""

    paper: Literal[True]
    liveWrites: Literal[False]


class Body(serializers.Serializer[Any]):
    """A component of the document that is only described: its name and its schema."""

    def __init__(self, name: str, schema: Callable[[Refer], JsonObject]) -> None:
        super().__init__()
        self.name, self.schema = name, schema

    @classmethod
    def of(cls, described: type) -> "Body":
        """The body that a ``TypedDict`` describes."""
        return cls(described.__name__, lambda refer: object_schema(described, refer))


class ApiSchema(AutoSchema):
    """drf-spectacular's schema. Bodies are required for POST and PATCH, optional for DELETE."""

    def _get_request_body(self, *direction: Direction) -> Any:
        method, self.method = self.method, "POST"  # the library describes no body for DELETE
        try:
            body = super()._get_request_body(*direction)  # type: ignore[no-untyped-call]
        finally:
            self.method = method
        return {**body, "required": method in ("POST", "PATCH")} if body else None

    def get_tags(self) -> list[str]:
        """The view's ``tag``: the group of its operations in the document."""
        view: Any = self.view
        return [view.tag]

    def _is_list_view(self, *serializer: object) -> bool:
        """No response is a bare array: the pages of a list are objects."""
        return False


def endpoint(
    name: str,
    *,
    answer: type | None = None,
    status: int = 200,
    example: bool = True,
    body: type[serializers.Serializer[Any]] | serializers.Serializer[Any] | None = None,
    bodies: Mapping[str, object] | Sequence[OpenApiExample] = (),
    parameters: Sequence[Any] = (),
    refusals: Iterable[type[Refused]] = (),
    problems: Mapping[int, type] | None = None,
    forms: Mapping[str, OpenApiResponse] | None = None,
    note: str = "",
) -> Callable[[ViewMethod], ViewMethod]:
    """Describes a view's method in the OpenAPI document, as the operation ``name``.

    ``answer`` is the type of the response, if the annotation does not name it. ``body`` is a
    serializer, and ``bodies`` are its examples by title. ``refusals`` are those that only this
    operation raises: ``Invalid`` follows from a serializer, ``NotFound`` from an id in the path,
    others from the authentication.
    ``problems`` maps a status to the type of its additional members, and ``forms`` the other media
    types of the response to what they are. ``note`` begins the description.
    """

    def describe(method: ViewMethod) -> ViewMethod:
        summary, _, text = (inspect.getdoc(method) or "").partition("\n\n")
        text = "\n\n".join(" ".join(each.split()) for each in text.split("\n\n"))
        described = answer or get_args(get_type_hints(method, include_extras=True)["return"])[0]
        is_empty = described is type(None)
        implied: list[type[Refused]] = [Invalid] if parameters or body else []
        response = OpenApiResponse(
            None if is_empty else Body.of(described),
            description="Nothing." if is_empty else str(inspect.getdoc(described)),
            examples=[OpenApiExample("Answer", example_of(described), response_only=True)]
            if example and not is_empty
            else [],
        )
        operation: ViewMethod = extend_schema(
            operation_id=name,
            summary=summary.rstrip("."),
            description=f"{note} {text}".strip(),
            parameters=list(parameters),
            request={JSON: body} if body else None,
            responses={
                (status, JSON): response,
                **{(status, media_type): form for media_type, form in (forms or {}).items()},
                **{code: Body.of(members) for code, members in (problems or {}).items()},
            },
            examples=_requests(bodies),
            extensions={REFUSALS: [refusal.code for refusal in (*refusals, *implied)]},
        )(method)
        return operation

    return describe


def _requests(bodies: Mapping[str, object] | Sequence[OpenApiExample]) -> list[OpenApiExample]:
    if not isinstance(bodies, Mapping):
        return list(bodies)
    return [OpenApiExample(title, body, request_only=True) for title, body in bodies.items()]
