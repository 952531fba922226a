"""A desk's events as its pages show them: lines, and the cursors of the neighbouring pages."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from desks.models import Automation, Desk
from events.feed import Page, Query, read_head
from events.json_schema import JsonObject
from events.kinds import Kind, label_of
from events.models import Event
from signals.reports.counts import BotTally, count_bots
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
        return label_of(self.kind)

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
    return event.content_for(platform=True)["data"].get("id") if about else None


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
    return None if position is None else page.cursor(position)


def bot_names(desk: Desk) -> dict[str, str]:
    """Returns the names of the desk's bots by their ids. Removed bots are not included."""
    return dict(Automation.objects.not_removed().filter(desk=desk).values_list("pk", "name"))


# --- The board: how each bot is doing -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BotStatus:
    """A bot of ``bots_at_a_glance`` on the board: its last days, and its latest signals.

    ``latest`` are their events, newest first. ``due_at`` is by when an expected bot that is not
    silent has to have a signal accepted.
    """

    bot: Automation
    tally: BotTally
    latest: list[Event]
    due_at: datetime | None

    @property
    def heard_at(self) -> datetime | None:
        """When its latest signal came, None if none did."""
        return self.latest[0].at if self.latest else None

    @property
    def last_code(self) -> str | None:
        """The code of its latest signal, None if that was filled."""
        return self.tally.latest[0][0] if self.tally.latest else None


def board(desk: Desk, bots: Sequence[Automation], now: datetime) -> list[BotStatus]:
    """How each of these bots is doing, in four queries and within the limits of ``counts``."""
    head = read_head().position
    tallies = count_bots(desk.public_id, head, [bot.pk for bot in bots], now)
    positions = [position for tally in tallies.values() for _, position in tally.latest]
    found = Event.objects.filter(position__in=positions)
    if len(bots) > 1:
        found = found.only("position", "at")  # only the page of one bot shows the events
    events = found.in_bulk()
    statuses = []
    for bot in bots:
        tally = tallies[bot.pk]
        latest = [events[position] for _, position in tally.latest]
        fills = [events[position].at for code, position in tally.latest if code is None]
        due_at = _due(bot, fills, desk.user.time_zone or "UTC")
        statuses.append(BotStatus(bot, tally, latest, due_at))
    return statuses


def _due(bot: Automation, fills: Sequence[datetime], zone: str) -> datetime | None:
    """By when the bot's next signal is expected; ``fills`` are the times of its latest fills.

    ``Automation.due_at`` is never later than that. It is put off only once it is reached.
    """
    if bot.due_at is None or bot.expectation is None:
        return None
    return max([bot.due_at, *(bot.expectation.deadline(at, zone) for at in fills)])
