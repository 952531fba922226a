"""Opens a stream: admits the reader, and brings it from its cursor to where the hub is.

The reader joins the hub at a position, with the topics that it sees there. The hub still has the
last events, so nothing is missed and nothing comes twice. A reader from before them first reads the
log with the code of the list, up to the position that the hub has applied.
"""

from collections.abc import Sequence
from dataclasses import replace

from events.feed import Page, Query, Span, Visibility, Window, read_page
from events.live.frames import event_frame, first_frame, position_frame
from events.live.hub import hub
from events.live.readers import Reader, Topic
from events.models import Head

PAGE_SIZE = 100  # events


class Opening:
    """A stream that was admitted.

    A door writes ``first``, and then the bytes of ``read`` until it returns None. From then on the
    hub delivers to ``reader``. In the end the door must call ``hub.dismiss(reader)``.
    """

    def __init__(self, reader: Reader, query: Query, visibility: Visibility, head: Head) -> None:
        """``query.after`` is where the reader has read to; None begins at the head."""
        self.reader = reader
        self._epoch = head.epoch
        self._position = head.position if query.after is None else query.after
        self._query = replace(query, limit=PAGE_SIZE)
        self._visibility = _Remembering(visibility)
        self._topics: tuple[Topic, ...] | None = None  # at the position; None: not known yet
        self.first = first_frame(self._epoch, self._position)

    def read(self) -> bytes | None:
        """The frames that follow; None once the hub delivers, or the stream ended.

        What the hub still has takes one statement, for the topics. A page of the log takes a few.
        Nothing is read after what the hub has applied, so a token that was revoked at a position
        does not read beyond it.
        """
        applied = hub.position
        if not hub.knows(self.reader):
            return None
        if hub.reaches(self._position):
            topics = self._topics or self._visibility.topics_at(self._position)
            if missed := hub.attach(self.reader, self._position, topics):
                self._position, self._topics = missed.position, missed.topics
                return None if missed.is_all else missed.frames(self.reader.view.version)
        page = read_page(replace(self._query, after=self._position, last=applied), self._visibility)
        self._position, self._topics = page.examined, None
        return self._frames(page)

    def _frames(self, page: Page) -> bytes:
        version = self.reader.view.version
        frames = [event_frame(event, self._epoch, version) for event in page.events]
        if not page.events or page.events[-1].position < page.examined:
            frames.append(position_frame(self._epoch, page.examined))
        return b"".join(frames)


class _Remembering:
    """A visibility that remembers what it found, to tell the topics at the end of the page."""

    def __init__(self, visibility: Visibility) -> None:
        self._visibility = visibility
        self._found: tuple[Window, Sequence[Span]] | None = None

    def __call__(self, window: Window) -> Sequence[Span]:
        """The spans of the window, and those that open with its last position."""
        window = window._replace(high=window.high + 1)
        spans = self._visibility(window)
        self._found = window, spans
        return spans

    def topics_at(self, position: int) -> tuple[Topic, ...]:
        """The topics of the spans that stand after this position."""
        if self._found is None or not self._found[0].low <= position < self._found[0].high:
            return topics_at(self._visibility, position)
        return _standing(self._found[1], position)


def topics_at(visibility: Visibility, position: int) -> tuple[Topic, ...]:
    """The topics of the spans that stand after this position. One statement."""
    return _standing(visibility(Window(position, position + 1, descending=False)), position)


def _standing(spans: Sequence[Span], position: int) -> tuple[Topic, ...]:
    return tuple({span.topic: None for span in spans if span.opened <= position < span.closed})
