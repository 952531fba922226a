"""How the API describes itself: what every app's shapes are made of, and the feed's own.

A shape is a serializer that only describes: nothing is written through it. The tests hold it to
what the service answers.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiExample, OpenApiResponse, extend_schema
from rest_framework import serializers

from events.api.serializers import FeedParameters
from events.kinds import Kind
from events.refusals import CursorLost, Invalid, Malformed, Refused, UnsupportedMediaType

View = TypeVar("View", bound=Callable[..., Any])

# Where an operation keeps the codes of its own refusals until config.openapi writes them out.
REFUSALS = "x-refusals"
JSON = "application/json"
JSON_BODY = (Malformed, UnsupportedMediaType)

MOMENT = {"type": "string", "format": "date-time", "pattern": r"\.[0-9]{3}Z$"}
POSITION = {"type": "integer", "format": "int64", "minimum": 1}
COUNT = {"type": "integer", "minimum": 0}
TEXT = {"type": "string"}
FLAG = {"type": "boolean"}
OBJECT = {"type": "object"}


class Field(serializers.Field[Any, Any, Any, Any]):
    """A member that is described by a JSON schema. ``allow_null`` and the rest are as always."""

    def __init__(self, schema: dict[str, Any], help_text: str = "", **more: Any) -> None:
        self.schema = schema
        super().__init__(help_text=help_text, **more)


class Shape(serializers.Serializer[Any]):
    """What an answer or a body looks like."""


class Paper(Shape):
    """What every answer about desks and signals says first."""

    paper = Field({"const": True})
    liveWrites = Field({"const": False})


class Describer(AutoSchema):
    """The library's description, with the body that a POST must have and a DELETE may have."""

    def _get_request_body(self, *direction: Any) -> Any:
        method, self.method = self.method, "POST"  # the only one of ours whose body it takes
        try:
            body = super()._get_request_body(*direction)  # type: ignore[no-untyped-call]
        finally:
            self.method = method
        return {**body, "required": method == "POST"} if body else None

    def _is_list_view(self, *serializer: Any) -> bool:
        """No answer is a bare array: a list comes in pages, which are objects."""
        return False


def pattern(form: str, **more: Any) -> dict[str, Any]:
    """The schema of text that has this form from end to end."""
    return {"type": "string", "pattern": f"^{form}$", **more}


def one_of(choices: Sequence[str]) -> dict[str, Any]:
    """The schema of text that is one of these."""
    return {"type": "string", "enum": [str(choice) for choice in choices]}


def operation(
    name: str,
    summary: str,
    description: str,
    *,
    tag: str,
    answer: type[Shape],
    status: int = 200,
    example: Any = None,
    body: Any = None,
    bodies: Sequence[OpenApiExample] = (),
    parameters: Sequence[Any] = (),
    refusals: Sequence[type[Refused]] = (),
    problems: dict[int, type[Shape]] | None = None,
) -> Callable[[View], View]:
    """Describes a view's method. A new keyword of the schema document is added here.

    ``refusals`` are those of its own code; those of its authentication, and those that anything is
    refused with, are known to ``config.openapi``. ``problems`` are members that the refusals with
    a status have beside the usual ones; ``bodies`` are examples of what is sent.
    """
    answers = [OpenApiExample("Answer", example, response_only=True)] if example else []
    return extend_schema(
        operation_id=name,
        summary=summary,
        description=description,
        tags=[tag],
        parameters=list(parameters),
        request={JSON: body} if body else None,
        responses={
            status: OpenApiResponse(answer, description=str(answer.__doc__), examples=answers),
            **(problems or {}),
        },
        examples=list(bodies),
        extensions={REFUSALS: [refusal.code for refusal in refusals]},
    )


class EventRecord(Shape):
    """Something that happened.

    ``signal`` and ``data`` are what the reader is shown; some of it the platform only.
    """

    id = Field(pattern("evt_[1-9][0-9]*"), "evt_ and the position.")
    position = Field(POSITION, "Its place in the one order of everything: none is missing.")
    kind = Field(one_of(Kind.values))
    at = Field(MOMENT)
    userId = Field(
        {"type": "string", "pattern": "^usr_"}, "The desk that it is addressed to.", allow_null=True
    )
    signal = Field(OBJECT, "The signal that it is about.", allow_null=True)
    data = Field(OBJECT, "What there is to say, by its kind.")  # type: ignore[assignment]


class EventPage(Shape):
    """A page of the log."""

    events = EventRecord(many=True)
    next = Field(TEXT, "Opaque. As after it resumes behind the last position that was examined.")
    more = Field(FLAG, "Whether there was more than this page holds.")


FEED = {
    "events": [
        {
            "id": "evt_7",
            "position": 7,
            "kind": "desk.connected",
            "at": "2026-11-20T09:30:00.000Z",
            "userId": "usr_7Jq2nT0vYc5RkXw9LbZsA1",
            "signal": None,
            "data": {"venue": "Kraken"},
        }
    ],
    "next": "NGYxYzJhOTAuNw",
    "more": False,
}

list_events = operation(
    "listEvents",
    "Follow the log",
    "The one ordered log of everything that happened, as far as the caller sees it: a platform "
    "token all of it, a desk token what is addressed to its desk, to a card while its election on "
    "it stood, or to all. Whoever goes on with `next` as `after` sees every event of their view "
    "exactly once. Start at the tail with `order=desc&limit=1`. An unknown id in a filter gives "
    "an empty list.",
    tag="Events",
    answer=EventPage,
    example=FEED,
    parameters=[FeedParameters],
    refusals=[Invalid, CursorLost],
)
