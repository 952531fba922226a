"""How often a sender, or the log, is heard, and whether it is silent for longer than usual."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from django.db import connection

from events.models import Event
from events.statements import parse_datetime

HEARD = 50  # the latest events of each, which say what is usual
MIN_HEARD = 10  # with fewer events nothing is usual
MIN_SILENCE = timedelta(minutes=10)
FACTOR = 2  # silence is unusual from so many times the longest pause before

_LATEST = """SELECT actor_id, at FROM (SELECT actor_id, at FROM events_event
WHERE actor_id = %s ORDER BY position DESC LIMIT %s) AS latest{number}"""


@dataclass(frozen=True, slots=True)
class Silence:
    """Nothing was heard for ``lasting``. ``longest`` is the longest pause before."""

    lasting: timedelta
    longest: timedelta


def heard_from(actors: Sequence[str]) -> Mapping[str, list[datetime]]:
    """The times of the latest events of each actor, in one query."""
    heard: dict[str, list[datetime]] = {actor: [] for actor in actors}
    if not actors:
        return heard
    parts = [_LATEST.format(number=number) for number in range(len(actors))]
    values = [value for actor in actors for value in (actor, HEARD)]
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(parts), values)
        for actor, at in cursor.fetchall():
            heard[actor].append(parse_datetime(at))
    return heard


def latest_events() -> list[Event]:
    """The latest events of the log, the newest first."""
    return list(Event.objects.order_by("-position")[:HEARD])


def unusual_silence(times: Iterable[datetime], now: datetime) -> Silence | None:
    """Whether nothing was heard since the last of these times for longer than usual."""
    ordered = sorted(times)
    if len(ordered) < MIN_HEARD:
        return None
    longest = max(later - earlier for earlier, later in pairwise(ordered))
    lasting = now - ordered[-1]
    return Silence(lasting, longest) if lasting > max(MIN_SILENCE, FACTOR * longest) else None
