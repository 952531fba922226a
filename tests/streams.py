"""Streams of the feed in the test's own process."""

import json
import threading
import time
from collections.abc import Callable
from typing import Any

from django.db import connections
from django.http import StreamingHttpResponse
from django.test import Client

from tests.conformance.streams import Frame, frames_of

EVENTS = "/api/v1/events"
PATIENCE = 60  # seconds
STARTING: Any = object()  # the response before there is one


def wait_until(condition: Callable[[], object], sentence: str) -> None:
    """Returns once the condition holds. Fails with the sentence after ``PATIENCE`` seconds."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, sentence
        time.sleep(0.005)


class Stream(threading.Thread):
    """A stream that a thread of this process follows until it ends.

    ``response`` is the answer, and ``frames`` are those that have come.
    """

    def __init__(self, token: str, query: str = "", **headers: str) -> None:
        super().__init__(daemon=True)
        sent = {"Authorization": f"Bearer {token}", "Accept": "text/event-stream", **headers}
        self._client, self._path = Client(headers=sent), f"{EVENTS}?{query}"
        self.response: Any = STARTING
        self.frames: list[Frame] = []
        self.start()
        wait_until(lambda: self.response is not STARTING, "no response")
        if self.response.status_code == 200:
            wait_until(lambda: self.frames, "no first frame")

    def run(self) -> None:
        response = self._client.get(self._path)
        self.response = response
        if isinstance(response, StreamingHttpResponse):
            self._read(response)
        connections.close_all()

    def _read(self, response: Any) -> None:
        rest = b""
        for part in response.streaming_content:
            *whole, rest = (rest + part).split(b"\n\n")
            for text in whole:
                self.frames += frames_of([*text.decode().split("\n"), ""])
        response.close()

    @property
    def events(self) -> list[Frame]:
        """The frames of events, without the end."""
        return [frame for frame in self.frames if frame.data and frame.event != "end"]

    @property
    def positions(self) -> list[int]:
        """The positions of its events so far."""
        return [int(json.loads(frame.data)["position"]) for frame in self.events]

    @property
    def kinds(self) -> list[str]:
        return [frame.event for frame in self.events]

    def wait_for(self, number: int) -> None:
        """Returns when so many events have come."""
        wait_until(lambda: len(self.events) >= number, f"{number} events did not come")

    def end(self) -> str:
        """The reason of the end, once the service has ended the stream."""
        self.join(PATIENCE)
        assert not self.is_alive(), "the stream did not end"
        assert self.frames[-1].event == "end"
        return self.frames[-1].data
