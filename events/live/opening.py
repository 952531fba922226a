"""Opens a stream: admits the reader, and brings it from its cursor to where the hub is.

The reader joins the hub at a position, with the topics that it sees there. The hub still has the
last events, so nothing is missed and nothing comes twice. A reader from before them first reads the
log with the code of the list, up to the position that the hub has applied.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple, Self, cast

from django.db import connection
from django.http import HttpRequest, HttpResponseBase, StreamingHttpResponse

from events import replica
from events.feed import Page, Query, Visibility, Window, read_end, read_page
from events.http.cursors import log_cursor
from events.http.refusals import FieldCode, Invalid
from events.live.frames import MEDIA_TYPE, event_frame, first_frame, position_frame
from events.live.hub import hub
from events.live.streams import Reader, ReaderSpec, Topic
from events.live.waiting_readers import ThreadReader
from events.unavailable_reasons import Wait
from events.writer_queue import WaitEnded

HEADERS = {"X-Accel-Buffering": "no"}  # tells nginx to pass each frame on at once
LAST_EVENT_ID = "Last-Event-ID"
PAGE_SIZE = 100  # events
# The live server puts a function under this name into a request's META: it makes the reader of a
# spec. Without it, the thread that answers the request writes the stream.
READER_OF = "live.reader_of"


def is_live(request: HttpRequest) -> bool:
    """Whether the live server answers this request."""
    return READER_OF in request.META


class Start(NamedTuple):
    """Where a stream begins: behind this position of the log, which has this cursor."""

    epoch: str
    position: int
    cursor: str

    @classmethod
    def of(cls, headers: Mapping[str, str], after: str | None) -> Self:
        """Behind ``Last-Event-ID``, or else behind ``after``, or else now.

        Raises as ``replica.find``.
        """
        if last := headers.get(LAST_EVENT_ID):
            try:
                return cls.behind(last)
            except Invalid:
                detail = "Send the id of an event of this stream, unchanged."
                raise Invalid.field(LAST_EVENT_ID, FieldCode.CURSOR, detail) from None
        return cls.now() if after is None else cls.behind(after)

    @classmethod
    def behind(cls, cursor: str) -> Self:
        """Raises as ``replica.find``."""
        head, position = replica.find(cursor)
        return cls(head.epoch, position, cursor)

    @classmethod
    def now(cls) -> Self:
        """Behind the last event."""
        head, event = read_end()
        return cls(head.epoch, head.position, log_cursor(head.epoch, head.position, event))


def open_stream(
    request: HttpRequest, spec: ReaderSpec, query: Query, visibility: Visibility, start: Start
) -> HttpResponseBase:
    """A stream of what ``query`` asks for and ``spec`` may see, from ``start`` on.

    Raises ``RateLimited`` beyond ``LIMIT_STREAMS`` or the slots of one owner, ``Unavailable`` if
    the process has no place for another reader, and ``WaitEnded`` if the hub follows another log
    than that of ``start``.
    """
    if request.method == "HEAD":
        return StreamingHttpResponse((), content_type=MEDIA_TYPE, headers=HEADERS)
    reader: Reader
    if is_live(request):
        reader = request.META[READER_OF](spec)
    else:
        reader = ThreadReader(spec, request.META.get("gunicorn.socket"))
    stream = Stream(reader, query, visibility, start)
    try:
        if hub.admit(reader) != start.epoch:
            # The log was replaced a moment ago. The hub may not have looked at it yet, so this does
            # not say that the cursor is lost. If it is, the client is told when it comes back.
            raise WaitEnded(Wait.REPLACED_LOG)
        # A live server answers with the first page: if that cannot be read, the request is refused.
        return StreamResponse(stream, stream.read() if is_live(request) else None)
    except BaseException:
        stream.close()
        raise


class Stream:
    """What is written to a reader: ``first``, then what ``read`` returns until that is None.

    From then on the hub delivers to ``reader``. In the end ``close`` must be called.
    """

    def __init__(self, reader: Reader, query: Query, visibility: Visibility, start: Start) -> None:
        self.reader = reader
        self._epoch = start.epoch
        self._position = start.position  # to which the reader has read
        self._query = replace(query, limit=PAGE_SIZE)
        self._visibility = visibility
        self._topics: tuple[Topic, ...] | None = None  # at the position; None: not known yet
        self.first = first_frame(start.cursor)

    def read(self) -> bytes | None:
        """The frames that follow; None once the hub delivers, or the stream ended.

        What the hub still has takes one statement, for the topics. A page of the log takes a few.
        Nothing is read after what the hub has applied, so a token that was revoked at a position
        does not read beyond it.
        """
        applied = hub.position
        if not hub.knows(self.reader):
            return None
        replica.require(self._position, self._epoch)
        if hub.reaches(self._position):
            topics = self._topics or topics_at(self._visibility, self._position)
            if missed := hub.attach(self.reader, self._position, topics):
                self._position, self._topics = missed.position, missed.topics
                return None if missed.is_all else missed.frames(self.reader.spec.version)
        page = read_page(replace(self._query, after=self._position, last=applied), self._visibility)
        if page.head.epoch != self._epoch:  # the log was replaced, and the hub ends the reader
            return None
        self._position, self._topics = page.examined, None
        return self._frames(page)

    def __iter__(self) -> Iterator[bytes]:
        """The bytes, for a thread of gunicorn. It has written each part when it asks for more."""
        reader = cast(ThreadReader, self.reader)
        yield self.first
        while page := self.read():
            yield page
        connection.close()
        while frames := reader.take():
            yield frames

    def close(self) -> None:
        """Forgets the reader. It can be called at any time, once."""
        hub.dismiss(self.reader)
        self.reader.close()

    def _frames(self, page: Page) -> bytes:
        version = self.reader.spec.version
        frames = [event_frame(event, self._epoch, version) for event in page.events]
        if not page.events or page.events[-1].position < page.examined:
            frames.append(position_frame(page.next))
        return b"".join(frames)


class StreamResponse(StreamingHttpResponse):
    """A stream that begins. The live server writes ``stream`` by itself, with ``page`` first.

    ``page`` is None if the reader has nothing to catch up with.
    """

    def __init__(self, stream: Stream, page: bytes | None) -> None:
        self.stream, self.page = stream, page
        super().__init__(stream, content_type=MEDIA_TYPE, headers=HEADERS)


def topics_at(visibility: Visibility, position: int) -> tuple[Topic, ...]:
    """The topics of the spans that stand after this position. One statement."""
    spans = visibility(Window(position, position + 1, descending=False))
    return tuple({span.topic: None for span in spans if span.opened <= position < span.closed})
