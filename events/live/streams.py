"""The response that is a stream, for every view that answers with one."""

from typing import Any, Protocol

from django.http import HttpRequest, HttpResponseBase, StreamingHttpResponse

from events.feed import Query, Visibility
from events.http.refusals import CursorLost
from events.http.requests import state_of
from events.live.frames import MEDIA_TYPE
from events.live.hub import hub
from events.live.opening import Opening
from events.live.readers import Reader, View
from events.live.threads import ThreadDoor
from events.models import Head

HEADERS = {"X-Accel-Buffering": "no"}  # tells nginx to pass each frame on at once


class Door(Protocol):
    """Who holds the connections of streams: gunicorn's threads, or the live server."""

    def new_reader(self, request: HttpRequest, view: View) -> Reader:
        """A reader for this request. Raises ``Unavailable`` if there is no place for it."""

    def leave(self, reader: Reader) -> None:
        """Frees the place of a reader whose stream did not begin."""

    def body(self, opening: Opening) -> Any:
        """The content of the response: an iterable of bytes, whose ``close`` ends the stream."""


class StreamResponse(StreamingHttpResponse):
    """A stream that begins. A door that writes it by itself takes ``opening``."""

    def __init__(self, door: Door, opening: Opening) -> None:
        super().__init__(door.body(opening), content_type=MEDIA_TYPE, headers=HEADERS)
        self.opening = opening


def open_stream(
    request: HttpRequest, view: View, query: Query, visibility: Visibility, head: Head
) -> HttpResponseBase:
    """A stream of what ``query`` asks for and ``view`` may see, after ``query.after``.

    ``query.after`` None begins at ``head``. Raises ``RateLimited`` beyond ``LIMIT_STREAMS``,
    ``Unavailable`` if the process has no place for another reader, and ``CursorLost`` if ``head``
    is of another log.
    """
    if request.method == "HEAD":
        return StreamingHttpResponse((), content_type=MEDIA_TYPE, headers=HEADERS)
    door: Door = state_of(request).door or ThreadDoor()
    reader = door.new_reader(request, view)
    try:
        hub.admit(reader)
        if hub.epoch != head.epoch:  # the log was replaced after the cursor was read
            raise CursorLost
        return StreamResponse(door, Opening(reader, query, visibility, head))
    except BaseException:
        hub.dismiss(reader)
        door.leave(reader)
        raise
