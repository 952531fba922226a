"""The bytes of a stream: server-sent events (contract, section 4, streams).

``id`` is a cursor of the feed, and ``data`` is the event as the list shows it. A frame without data
only moves the reader's cursor.
"""

import json
import secrets
from enum import Enum, StrEnum

from events.feed import serialize_event
from events.http.cursors import log_cursor
from events.http.strict_json import ENCODER
from events.models import Event

MEDIA_TYPE = "text/event-stream"
# Milliseconds until a client opens its stream again. The spread keeps those whose streams ended
# together from coming back together.
RETRY_FROM, RETRY_TO = 2000, 6000


class Version(Enum):
    """Which form of an event a reader gets."""

    PLATFORM = "platform"  # the event as the platform sees it
    DESK = "desk"  # the event as a desk sees it
    HINT = "hint"  # only that there is news at this position


class EndReason(StrEnum):
    """Why the service ended a stream."""

    TOKEN_ENDED = "token_ended"  # noqa: S105 - revoked, or expired
    SIGNED_OUT = "signed_out"
    RESTARTING = "restarting"
    CURSOR_LOST = "cursor_lost"


def event_frame(event: Event, epoch: str, version: Version) -> bytes:
    """An event in one of its versions."""
    if version is Version.HINT:
        kind, data = "news", json.dumps({"position": event.position})
    else:
        record = serialize_event(event, platform=version is Version.PLATFORM)
        kind, data = event.kind, ENCODER.encode(record)
    cursor = log_cursor(epoch, event.position, event.identity)
    return f"id: {cursor}\nevent: {kind}\ndata: {data}\n\n".encode()


def position_frame(cursor: str) -> bytes:
    """Moves the reader's cursor to a position that was examined. It is also the heartbeat."""
    return f"id: {cursor}\n\n".encode()


def first_frame(cursor: str) -> bytes:
    """What every stream begins with: when to open it again, and where the reader is."""
    retry = RETRY_FROM + secrets.randbelow(RETRY_TO - RETRY_FROM)
    return f"retry: {retry}\n".encode() + position_frame(cursor)


def end_frame(reason: EndReason) -> bytes:
    """The last frame of a stream that the service ends."""
    return f'event: end\ndata: {{"reason":"{reason}"}}\n\n'.encode()
