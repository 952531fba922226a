"""A desk's events as its pages show them: lines, and the cursors of the neighbouring pages."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from desks.models import Automation, Desk
from events.feed import Page, Query, Span, read_page
from events.http.cursors import log_cursor
from events.json_schema import JsonObject
from events.kinds import Kind
from events.models import Event
from signals.reports.charts import Chart, over_time
from signals.reports.reasons import Reason, reason_of
from signals.webhooks.models import Subscription

# The kinds of accepted signals, and the members of a signal that their sentences show.
ACCEPTED = (Kind.SIGNAL_FILLED, Kind.SIGNAL_DRY_RUN, Kind.SIGNAL_RECORDED)
SAID = ("source", "botId", "userId", "pair", "direction")


@dataclass(frozen=True, slots=True)
class Line:
    """An event as the desk's owner sees it, and the bot that it concerns."""

    kind: str
    at: datetime
    event_id: str
    data: JsonObject
    signal: JsonObject | None
    bot_id: str | None
    # None if the bot was removed.
    bot_name: str | None
    # The host of the webhook that the event is about. None if there is none, or if it was removed.
    webhook_host: str | None = None

    @property
    def label(self) -> str:
        """What the kind of event is called."""
        return Kind(self.kind).label

    @property
    def templates(self) -> tuple[str, ...]:
        """What the event says to the owner of the desk: its kind's own template, or any kind's."""
        return f"events/{self.kind}.html", "events/any.html"

    @property
    def is_refusal(self) -> bool:
        return self.kind == Kind.SIGNAL_REFUSED

    @property
    def reason(self) -> Reason | None:
        """Why the signal was refused and what to do; None for any other event."""
        return reason_of(self.data, self.bot_name) if self.is_refusal else None

    @property
    def repeats(self) -> tuple[object, ...]:
        """What the event says. Lists fold those in a row that say the same: signals alone can."""
        if self.reason:
            return self.kind, self.reason.sentence
        if self.kind not in ACCEPTED or not self.signal:
            return (self.event_id,)
        return self.kind, *(self.signal.get(name) for name in SAID)


def lines(events: Iterable[Event], bots: Mapping[str, str]) -> list[Line]:
    """Returns the events as lines. ``bots`` maps the ids of the desk's bots to their names."""
    events = list(events)
    webhooks = {webhook for event in events if (webhook := webhook_of(event))}
    hosts = Subscription.objects.hosts(webhooks) if webhooks else {}
    return [
        Line(
            kind=event.kind,
            at=event.at,
            event_id=event.id,
            data=event.content["data"],
            signal=event.content["signal"],
            bot_id=event.bot_id,
            bot_name=bots.get(event.bot_id or ""),
            webhook_host=hosts.get(webhook_of(event) or ""),
        )
        for event in events
    ]


def webhook_of(event: Event) -> str | None:
    """The id of the webhook that the event is about, or None."""
    about = event.kind.startswith("subscription.")
    return event.content_for(platform=True)["data"]["id"] if about else None


def newest_first(query: Query, page: Page) -> list[Event]:
    return page.events if query.descending else page.events[::-1]


def cursors(query: Query, page: Page) -> dict[str, str | None]:
    """Returns the cursors of the pages with ``older`` and ``newer`` events, or None for no page."""
    positions = [event.position for event in page.events]
    on = page.examined if page.more else None
    if not query.descending:
        return {"older": _cursor(page, min(positions, default=None)), "newer": _cursor(page, on)}
    above = None if query.after is None else max(positions, default=query.after - 1)
    return {"older": _cursor(page, on), "newer": _cursor(page, above)}


def _cursor(page: Page, position: int | None) -> str | None:
    return None if position is None else log_cursor(page.head.epoch, position)


def bot_names(desk: Desk) -> dict[str, str]:
    """Returns the names of the desk's bots by their ids. Removed bots are not included."""
    return dict(Automation.objects.not_removed().filter(desk=desk).values_list("pk", "name"))


# --- Bots: their latest signals, and the last day by the hour -------------------------------------

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
    hour = timedelta(hours=1)
    return {
        bot_id: BotActivity(
            latest=of_bot[:LINES_PER_BOT],
            day=over_time([(line.at, line.is_refusal) for line in of_bot], now, hour, HOURS),
            is_complete=is_complete,
        )
        for bot_id, of_bot in pushed.items()
    }
