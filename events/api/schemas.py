"""The feed in the OpenAPI document (contract, section 4, events)."""

from drf_spectacular.utils import OpenApiParameter, OpenApiResponse

from events.actors import ActorType
from events.api.serializers import FeedParameters
from events.http.json_schema import BOOLEAN, DATE_TIME, OBJECT, POSITION, STRING, one_of, pattern
from events.http.refusals import CursorLost, Invalid, NotAcceptable
from events.http.schemas import Field, Schema, operation
from events.kinds import Kind
from events.live.frames import MEDIA_TYPE


class ActorRecord(Schema):
    """The actor: who caused an event."""

    type = Field(one_of(ActorType.values))
    id = Field(
        pattern("(usr|stf|tok|sec)_[0-9A-Za-z]+"),
        "The userId of the desk, or the id of the staff member, token or secret; null for system.",
        allow_null=True,
    )


class EventRecord(Schema):
    """An event. The platform sees some members of ``signal`` and ``data`` that desks do not see."""

    id = Field(pattern("evt_[1-9][0-9]*"), "evt_ followed by the position.")
    position = Field(POSITION, "The position in the log: consecutive integers without gaps.")
    kind = Field(one_of(Kind.values))
    at = Field(DATE_TIME)
    actor = ActorRecord(
        allow_null=True,
        help_text="Null if the caller was not authenticated. A desk sees only its own user, tokens "
        "and bots' secrets here, and null instead of any other actor.",
    )
    userId = Field(
        {"type": "string", "pattern": "^usr_"},
        "The desk that the event is addressed to.",
        allow_null=True,
    )
    signal = Field(OBJECT, "The signal that the event is about.", allow_null=True)
    data = Field(OBJECT, "Details. The members depend on the kind.")  # type: ignore[assignment]


class EventPage(Schema):
    """A page of the log."""

    events = EventRecord(many=True)
    next = Field(
        STRING, "Opaque. Send it as after to continue behind the last position that was examined."
    )
    more = Field(BOOLEAN, "Whether there are more events than fit on this page.")


FEED = {
    "events": [
        {
            "id": "evt_7",
            "position": 7,
            "kind": "desk.connected",
            "at": "2026-11-20T09:30:00.000Z",
            "actor": {"type": "user", "id": "usr_7Jq2nT0vYc5RkXw9LbZsA1"},
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
    "The ordered log of all events that the caller may see. A platform token sees all of it. A "
    "desk token sees events addressed to its desk, to all desks, and to a card while the desk's "
    "election on it was standing. A reader that sends `next` as `after` sees every visible event "
    "exactly once. Start at the tail with `order=desc&limit=1`. An unknown id in a filter returns "
    "an empty list. If no waiting seat is free, `wait` has no effect: pause before you send the "
    "next request. If the token ends during the wait, the response is 401.\n\n"
    "With `Accept: text/event-stream` the response is a stream: each new event as it happens, as a "
    "server-sent event. It takes `after`, `kind`, `userId`, `botId` and `signal`, and goes on from "
    "`Last-Event-ID`. A server of streams answers nothing else: 406.",
    tag="Events",
    response=EventPage,
    example=FEED,
    parameters=[
        FeedParameters,
        OpenApiParameter(
            "Last-Event-ID",
            str,
            OpenApiParameter.HEADER,
            description="Streams only: the `id` of the last frame. It wins over `after`.",
        ),
    ],
    forms={MEDIA_TYPE: OpenApiResponse(str, "The stream. Its `data` are events, as in the list.")},
    refusals=[NotAcceptable, Invalid, CursorLost],
)
