"""What the service sends of itself, for the OpenAPI document: webhooks' messages, and streams.

OpenAPI 3.1 has a section for webhooks. It has none for the frames of a stream: JSON Schema's
``contentSchema`` describes what the text of a stream is, once it is read.
"""

from typing import Annotated, Literal, TypedDict

from events.feed import EventRecord, KindName
from events.http.cursors import log_cursor
from events.json_schema import (
    STRING,
    Example,
    JsonObject,
    JsonSchema,
    Refer,
    example_of,
    one_of,
    pattern,
)
from events.kinds import Kind
from events.live.frames import MEDIA_TYPE, RETRY_FROM, RETRY_TO, EndReason
from signals.webhooks.messages import TEST, ChallengeAnswer, ChallengeMessage, EventMessage

# --- Webhooks -------------------------------------------------------------------------------------

SIGNATURE = "v1,[A-Za-z0-9+/]{43}="
VERIFY = (
    "In the form of Standard Webhooks: verify the signature before you trust the body, and refuse "
    "a timestamp that is more than five minutes off."
)


def webhooks(refer: Refer) -> JsonObject:
    """The section ``webhooks``: the operations of an endpoint that takes our messages."""
    event = _operation(
        "receiveEvent",
        "Receive an event",
        f"{VERIFY} Events come in order, one at a time, each at least once; a repeated event "
        "has the same `webhook-id`. Only an event that its owner sends again can arrive out of "
        "order.",
        id_pattern="evt_[0-9]+_[0-9a-f]{8}",
        message=EventMessage,
        refer=refer,
        taken={"description": "It is taken. The next event follows."},
        failed="It failed, also with a redirect or without an answer in 10 seconds. It is sent "
        "again after 5 s, 30 s, 2 min, 10 min, 30 min, 1 h, then every 3 h, or later if "
        "`Retry-After` says so. After 75 hours the webhook is disabled.",
    )
    test = _operation(
        "receiveTest",
        "Answer a test",
        f"{VERIFY} A URL gets events once it has answered a test with the proof that it knows the "
        "secret: the HMAC-SHA256 of the challenge, in hex, with the key of the signatures.",
        id_pattern=r"test_sub_[0-9A-Za-z]+_[0-9]+",
        message=ChallengeMessage,
        refer=refer,
        taken={
            "description": "The proof, within the first KiB. Other members are ignored.",
            "content": {"application/json": {"schema": refer(ChallengeAnswer)}},
        },
        failed="The test failed. An active webhook stays active.",
    )
    return {"event": {"post": event}, TEST: {"post": test}}


def _operation(
    name: str,
    summary: str,
    description: str,
    *,
    id_pattern: str,
    message: type,
    refer: Refer,
    taken: JsonObject,
    failed: str,
) -> JsonObject:
    """The operation that takes a message. ``taken`` is the response 2XX, ``failed`` any other."""
    headers = {
        "webhook-id": (pattern(id_pattern), "The same on every attempt."),
        "webhook-timestamp": (pattern("[0-9]{10}"), "The Unix time of the attempt."),
        "webhook-signature": (
            pattern(f"{SIGNATURE}( {SIGNATURE})*"),
            "`v1,` and base64 of HMAC-SHA256 over id, timestamp and raw body, joined by full "
            "stops. The key is what follows `whsec_` in the secret, decoded. While two secrets "
            "sign, there are two, separated by a space.",
        ),
        "traceparent": (
            pattern("00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}"),
            "The attempt's place in the message's own trace (W3C Trace Context). The trace's id is "
            "the beginning of the SHA-256 of `webhook-id`, in hex.",
        ),
    }
    return {
        "operationId": name,
        "summary": summary,
        "description": description,
        "tags": ["Webhooks"],
        "parameters": [
            {
                "name": header,
                "in": "header",
                "required": True,
                "description": text,
                "schema": schema,
            }
            for header, (schema, text) in headers.items()
        ],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": refer(message),
                    "examples": {"Message": {"value": example_of(message)}},
                }
            },
        },
        "responses": {
            "2XX": taken,
            "410": {"description": "Nothing more is to be sent: the webhook is disabled."},
            "default": {"description": failed},
        },
    }


# --- Streams --------------------------------------------------------------------------------------

CURSORS = [log_cursor("4f1c2a90", position) for position in (7, 8, 9)]
Cursor = Annotated[
    str, "A cursor of the feed: send the last one as Last-Event-ID.", Example(CURSORS[0])
]


def _json_text(name: str) -> JsonSchema:
    """The schema of a text that is the JSON of a component."""
    content = {"$ref": f"#/components/schemas/{name}"}
    return JsonSchema(contentMediaType="application/json", contentSchema=content)


class FirstFrame(TypedDict):
    """The first frame: when to open the stream again if it is cut, and where the reader is."""

    retry: Annotated[int, JsonSchema(minimum=RETRY_FROM, maximum=RETRY_TO), "In milliseconds."]
    id: Cursor


class EventFrame(TypedDict):
    """A new event."""

    id: Cursor
    event: Annotated[KindName, "The kind. Ignore those that you do not know."]
    data: Annotated[str, _json_text(EventRecord.__name__), "The event, as in the list."]


class PositionFrame(TypedDict):
    """The heartbeat, at least every 15 seconds: how far the log was examined."""

    id: Cursor


class StreamEnd(TypedDict):
    """Why the service ended the stream."""

    reason: Annotated[
        str,
        one_of(reason for reason in EndReason if reason is not EndReason.SIGNED_OUT),
        "`token_ended`: the token was revoked or has expired. `restarting`: open the stream again. "
        "`cursor_lost`: begin as with that refusal.",
    ]


class EndFrame(TypedDict):
    """The last frame of a stream that the service ends. One without it was cut: it resumes."""

    event: Literal["end"]
    data: Annotated[str, _json_text(StreamEnd.__name__)]


def stream(refer: Refer) -> JsonObject:
    """The schema of a stream: a text that is a list of frames."""
    refer(StreamEnd)
    frames = [refer(each) for each in (FirstFrame, EventFrame, PositionFrame, EndFrame)]
    return {
        **STRING,
        "description": "Server-sent events: lines `name: value`, and an empty line after each "
        "frame. The first frame has `retry`. Each event is one frame, in the order of the log. A "
        "frame with an `id` alone is the heartbeat.",
        "contentMediaType": MEDIA_TYPE,
        "contentSchema": {"type": "array", "items": {"anyOf": frames}},
    }


STREAM_EXAMPLE = (
    f"retry: 4123\nid: {CURSORS[0]}\n\n"
    f"id: {CURSORS[1]}\nevent: {Kind.CARD_RETIRED}\ndata: {{…}}\n\n"
    f"id: {CURSORS[2]}\n\n"
    f'event: end\ndata: {{"reason":"{EndReason.RESTARTING}"}}\n\n'
)
