"""Streams of the feed, as a client reads them."""

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import httpx2

from tests.conformance.client import EVENTS, Service, bearer

MEDIA_TYPE = "text/event-stream"
# An event of the list, as it is written there.
EVENT = re.compile(r'\{"id":"evt_.*?(?=,\{"id":"evt_|\],"next")')
PATIENCE = 60  # seconds without a byte: longer than the time between two heartbeats
# The address of the server of streams, if it is not that of the service.
LIVE_URL = os.environ.get("LIVE_URL", "")


@dataclass(frozen=True)
class Frame:
    """One server-sent event. A member that is missing is empty."""

    id: str = ""
    event: str = ""
    data: str = ""
    retry: str = ""


def frames_of(lines: Iterable[str]) -> Iterator[Frame]:
    """The frames in these lines. Comments, and frames that are nothing else, are left out."""
    members: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        if name and not line.startswith(":"):
            members[name] = value
        elif members and not name:
            yield Frame(**members)
            members = {}


class Stream:
    """An open stream. ``frames`` yields each frame as it comes."""

    def __init__(self, answer: httpx2.Response, compare: Callable[[dict[str, str]], None]) -> None:
        self.answer = answer
        self.frames = self._compared(compare)
        self.first = next(self.frames)

    def _compared(self, compare: Callable[[dict[str, str]], None]) -> Iterator[Frame]:
        for frame in frames_of(self.answer.iter_lines()):
            compare({name: value for name, value in asdict(frame).items() if value})
            yield frame

    def events(self, number: int) -> list[Frame]:
        """The next events, without heartbeats."""
        with_data = (frame for frame in self.frames if frame.data)
        return [next(with_data) for _ in range(number)]


@contextmanager
def streaming(
    service: Service, token: str, headers: dict[str, str] | None = None, **query: Any
) -> Iterator[Stream]:
    """A stream of the service. The connection closes with the block."""
    sent = {**bearer(token), "Accept": MEDIA_TYPE, **(headers or {})}
    with httpx2.Client(
        base_url=LIVE_URL or service.base_url,
        verify=service.trusted,
        timeout=PATIENCE,
        trust_env=False,
    ) as client:
        request = client.build_request("GET", EVENTS, params=query, headers=sent)
        answer = client.send(request, stream=True)
        # The seats of the streams before this one are free once the service sees them closed.
        for _ in range(PATIENCE):
            if answer.status_code not in (429, 503):
                break
            time.sleep(int(answer.headers["Retry-After"]))
            answer = client.send(request, stream=True)
        assert answer.status_code == 200, answer.read()
        service.comparison.on_response(answer)
        try:
            yield Stream(answer, service.comparison.on_frame)
        finally:
            answer.close()
