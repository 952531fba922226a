"""Follows the feed from a cursor that is saved in a file, by a stream if the service offers one."""

import json
import os
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import httpx2

from .connection import MAX_WAIT, Connection, Query, backoff
from .data import Event, Page

FEED = "/api/v1/events"
END = "end"  # the kind of a stream's last message
RESTARTING = "restarting"  # the reason of an end after which the stream can be opened again
SAVING_INTERVAL = 1.0  # seconds between two writes of the file
MIN_STREAM_PAUSE, MAX_STREAM_PAUSE = 15.0, 600.0  # seconds without a stream after it was refused
RECONNECT_PAUSE = 4.0  # seconds, if the stream named none


class SavedCursor:
    """A cursor of the feed, and the file that it is saved in. None if none was saved yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.value: str | None = path.read_text().strip() if path.exists() else None
        self._saved, self._saved_at = self.value, time.monotonic() - SAVING_INTERVAL

    def move(self, value: str) -> None:
        """Moves the cursor. Saves it if it was not saved within the last second."""
        self.value = value
        if time.monotonic() - self._saved_at >= SAVING_INTERVAL:
            self.save()

    def save(self) -> None:
        """Replaces the file atomically, so that a crash leaves the old cursor or the new one."""
        if self.value is None or self.value == self._saved:
            return
        fresh = self._path.with_name(f"{self._path.name}.new")
        with open(fresh, "w") as file:
            file.write(self.value)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path)
        self._saved, self._saved_at = self.value, time.monotonic()


class Follower:
    """Reads the feed from a saved cursor on. ``query`` are its filters."""

    def __init__(self, connection: Connection, cursor: SavedCursor, query: Query) -> None:
        self._connection, self._cursor, self._query = connection, cursor, query
        self._pauses = backoff()

    def events(self) -> Iterator[Event]:
        """Yields every event after the cursor, without end.

        It polls until it has caught up for the first time, and while the service offers no stream.
        """
        try:
            yield from self._poll() if self._cursor.value is None else ()
            pauses, without_stream_until = _stream_pauses(), 0.0
            while True:
                if time.monotonic() < without_stream_until:
                    yield from self._poll()
                elif (yield from self._stream()):
                    pauses = _stream_pauses()
                else:
                    without_stream_until = time.monotonic() + next(pauses)
                    yield from self._poll()
        finally:
            self._cursor.save()

    def _stream(self) -> Generator[Event, None, bool]:
        """Yields the events of one stream. Returns whether to open another one.

        False: the service offers none, it cannot be reached, or it ended the stream for a reason
        that the next poll names in a refusal.
        """
        pause: float | None = None  # None until the stream has begun
        try:
            with self._connection.stream(FEED, self._query, str(self._cursor.value)) as source:
                for message in source:
                    pause = (message.retry or 0) / 1000 or pause or RECONNECT_PAUSE
                    if message.event == END:
                        if json.loads(message.data).get("reason") != RESTARTING:
                            return False
                        break
                    if message.data:
                        event: Event = json.loads(message.data)
                        yield event
                    self._cursor.move(message.id)
        except httpx2.TransportError:
            pass  # refused, cut, or without a heartbeat for too long
        if pause is not None:
            time.sleep(pause)
        return pause is not None

    def _poll(self) -> Iterator[Event]:
        """Yields the events of the list, page by page, until a page is empty."""
        caught_up = False
        while not caught_up:
            started = time.monotonic()
            page = self._page()
            caught_up = not page["events"] and not page["more"]
            if not caught_up or time.monotonic() - started > MAX_WAIT / 2:
                self._pauses = backoff()
            else:  # the service has no free slot for a waiting reader: do not poll it at once
                time.sleep(next(self._pauses))
            yield from page["events"]
            self._cursor.move(page["next"])

    def _page(self) -> Page:
        query: Query = {**self._query, "after": self._cursor.value or None, "wait": MAX_WAIT}
        page: Page = self._connection.get(FEED, query)
        return page


def _stream_pauses() -> Iterator[float]:
    """Yields the seconds to poll before the next attempt to open a stream."""
    return backoff(MIN_STREAM_PAUSE, MAX_STREAM_PAUSE)
