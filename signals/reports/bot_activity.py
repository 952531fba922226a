"""The recent activity of a desk's bots: their latest signals, and the last day by the hour."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from desks.models import Desk
from events.feed.reading import Query, Span, read_page
from events.kinds import Kind
from signals.reports.activity import Line, lines
from signals.reports.charts import Chart, over_time

# How many of the desk's latest events are read, so that a busy desk costs no more.
SCAN_LIMIT = 1000
LINES_PER_BOT = 10
HOURS = 24
PUSHED = (Kind.SIGNAL_FILLED, Kind.SIGNAL_REFUSED)


@dataclass(frozen=True, slots=True)
class BotActivity:
    """What one bot pushed: the ``latest``, newest first, and the last day, hour by hour.

    ``is_complete`` is False if the events read do not reach back a whole day. The counts of the day
    then cover only what was read.
    """

    latest: list[Line]
    day: Chart
    is_complete: bool

    @property
    def last(self) -> Line | None:
        return self.latest[0] if self.latest else None


def bot_activities(desk: Desk, bots: Mapping[str, str], now: datetime) -> dict[str, BotActivity]:
    """Returns the activity of each bot by its id, from one reading of the feed.

    ``bots`` maps bot ids to names.
    """
    query = Query(limit=SCAN_LIMIT, kinds=PUSHED, descending=True)
    page = read_page(query, lambda window: [Span(desk.public_id)])
    is_complete = not page.more or page.events[-1].at < now - timedelta(hours=HOURS)
    pushed: dict[str, list[Line]] = {bot_id: [] for bot_id in bots}
    for line in lines(page.events, bots):
        if line.bot_id in pushed:
            pushed[line.bot_id].append(line)
    return {
        bot_id: BotActivity(of_bot[:LINES_PER_BOT], _day(of_bot, now), is_complete)
        for bot_id, of_bot in pushed.items()
    }


def _day(pushed: Iterable[Line], now: datetime) -> Chart:
    return over_time(
        ((line.at, line.is_refusal) for line in pushed), now, timedelta(hours=1), HOURS
    )
