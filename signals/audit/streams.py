"""The log and the tables as sorted streams, read a few thousand rows at a time.

The database sorts them (on disk if they are large), so two streams are compared in bounded memory.
Text is sorted by its bytes, as in Python.
"""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import F, QuerySet
from django.db.models.functions import Collate

from desks.ids import USER
from events.models import Event

CHUNK = 2000

# Called with the number of events read since the last call.
Progress = Callable[[int], object]


class LoggedEvent(NamedTuple):
    """The columns of an event that the audit reads."""

    position: int
    kind: str
    at: datetime
    topic: str | None
    signal_id: str | None
    actor_type: str | None
    actor_id: str | None
    content: Any
    platform_content: Any

    @property
    def id(self) -> str:
        return f"evt_{self.position}"

    @property
    def data(self) -> dict[str, Any]:
        """The data that every reader of the topic sees."""
        data: dict[str, Any] = self.content["data"]
        return data


def log_events(progress: Progress) -> Iterator[LoggedEvent]:
    """Yields the whole log in order."""
    return _stream_events(Event.objects.order_by("position"), progress)


def desk_events(progress: Progress) -> Iterator[tuple[str, LoggedEvent]]:
    """Yields each event addressed to a desk as ``(userId, event)``, by desk and then position."""
    addressed = Event.objects.filter(topic__startswith=USER)
    for event in _stream_events(addressed.order_by(_by_bytes("topic"), "position"), progress):
        yield str(event.topic), event


def desk_rows(rows: QuerySet[Any], desk: str) -> Iterator[dict[str, Any]]:
    """Yields rows sorted by their ``desk_user_id``. ``desk`` is the lookup that leads to it."""
    ordered = rows.order_by(_by_bytes(desk), "pk").annotate(desk_user_id=F(desk)).values()
    yield from ordered.iterator(chunk_size=CHUNK)


def _stream_events(events: QuerySet[Event], progress: Progress) -> Iterator[LoggedEvent]:
    rows = events.values_list(*LoggedEvent._fields).iterator(chunk_size=CHUNK)
    for number, row in enumerate(rows, start=1):
        if not number % CHUNK:
            progress(CHUNK)
        yield LoggedEvent(*row)


def _by_bytes(column: str) -> Collate:
    return Collate(column, "C" if connection.vendor == "postgresql" else "BINARY")
