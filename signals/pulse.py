"""How a desk's bots are doing: when each was last heard, what came of it, and its last day."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from desks.models import Desk
from events.feed import Query, Span, read_page
from events.kinds import Kind
from signals.activity import Line, lines
from signals.charts import Chart, over_time

# What is shown is found among so many of the desk's latest, so that a busy desk costs no more.
LOOKED_THROUGH = 1000
OF_ONE_BOT = 10
HOURS = 24
PUSHED = (Kind.SIGNAL_FILLED, Kind.SIGNAL_REFUSED)


@dataclass(frozen=True, slots=True)
class Pulse:
    """What one bot pushed: the ``latest``, newest first, and the last day, hour by hour.

    ``whole`` is false where the desk's latest do not reach back a day: then the day's counts are
    of what they hold.
    """

    latest: list[Line]
    day: Chart
    whole: bool

    @property
    def last(self) -> Line | None:
        return self.latest[0] if self.latest else None


def pulses(desk: Desk, bots: Mapping[str, str], now: datetime) -> dict[str, Pulse]:
    """The pulse of each bot, by its id; ``bots`` are the names by the ids. One reading for all."""
    query = Query(limit=LOOKED_THROUGH, kinds=PUSHED, descending=True)
    page = read_page(query, lambda window: [Span(desk.public_id)])
    whole = not page.more or page.events[-1].at < now - timedelta(hours=HOURS)
    pushed: dict[str, list[Line]] = {bot_id: [] for bot_id in bots}
    for line in lines(page.events, bots):
        if line.bot_id in pushed:
            pushed[line.bot_id].append(line)
    return {
        bot_id: Pulse(of_bot[:OF_ONE_BOT], _day(of_bot, now), whole)
        for bot_id, of_bot in pushed.items()
    }


def _day(pushed: Iterable[Line], now: datetime) -> Chart:
    return over_time(
        ((line.at, line.is_refusal) for line in pushed), now, timedelta(hours=1), HOURS
    )
