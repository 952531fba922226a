"""Reads what a digest tells: every part by an index, and each up to a limit."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import F

from desks.feed.visibility import desk_visibility
from desks.models import Automation, Desk, Digest
from events.feed.reading import (
    Query,
    Window,
    branches_of,
    limit_spans,
    read_page,
)
from events.kinds import Kind
from events.models import Event
from signals.notices.digest.statements import count_events
from signals.reports import attention
from signals.reports.tallies import count_bots
from signals.webhooks.models import Subscription
from signals.webhooks.records import lag_of
from tokens.models import Token

MAX_COUNTED = 5000  # of each kind, on each topic
MAX_NEWS = 20
# What is told by name. The rest is counted, or is something that the owner did.
NEWS = (
    Kind.AUTOMATION_QUIET,
    Kind.AUTOMATION_HEARD,
    Kind.SUBSCRIPTION_DISABLED,
    Kind.CARD_RETIRED,
)
COUNTED = (Kind.SIGNAL_FILLED, Kind.SIGNAL_REFUSED)


@dataclass(slots=True)
class Counts:
    """Fills and refusals: of the desk, of each bot, and the refusals of each code.

    ``latest`` has the position of each code's last refusal. ``is_cut`` says that there are more.
    """

    filled: Counter[str | None] = field(default_factory=Counter)  # by bot; None: no bot's
    refused: Counter[str | None] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    latest: dict[str, int] = field(default_factory=dict)
    is_cut: bool = False


@dataclass(slots=True)
class Day:
    """What happened on a desk since the last digest, and how it is now. ``bots`` are the present.

    ``refusals`` has for each code the number and the last event, the most frequent first.
    ``webhooks`` are those at which events wait, each with their number.
    """

    since: datetime
    until: datetime
    counts: Counts
    refusals: list[tuple[int, Event]]
    news: list[Event]
    bots: Sequence[Automation]
    attention: list[attention.Concern]
    webhooks: list[tuple[Subscription, int]]

    @property
    def has_news(self) -> bool:
        """Whether anything happened at all."""
        counts = self.counts
        return bool(counts.filled or counts.refused or self.news)


def read_day(digest: Digest, desk: Desk, head: int, now: datetime) -> Day:
    """Everything that the digest tells of the log behind its position, up to ``head``."""
    window = Window(digest.position + 1, head, False)
    counts = _count(desk, window)
    latest = Event.objects.in_bulk(counts.latest.values())
    bots = list(attention.bots_at_a_glance(desk, now))
    webhooks = list(Subscription.objects.of_owner(desk.pk).select_related("desk"))
    return Day(
        since=digest.since,
        until=now,
        counts=counts,
        refusals=[
            (number, latest[counts.latest[code]]) for code, number in counts.codes.most_common()
        ],
        news=_news(desk, window),
        bots=bots,
        attention=_attention(desk, bots, webhooks, head, now),
        webhooks=[(each, lag) for each in webhooks if (lag := lag_of(each))],
    )


def _count(desk: Desk, window: Window) -> Counts:
    """One statement counts everything, the newest events first."""
    counts = Counts()
    if window.low > window.high:
        return counts
    spans, window, counts.is_cut = limit_spans(desk_visibility(desk)(window), window)
    ranges = branches_of(spans, Query(kinds=COUNTED), window)
    of_range: Counter[int] = Counter()
    for number, kind, bot_id, code, count, latest in count_events(ranges, MAX_COUNTED):
        of_range[number] += count
        if kind == Kind.SIGNAL_FILLED:
            counts.filled[bot_id] += count
            continue
        counts.refused[bot_id] += count
        counts.codes[code] += count
        counts.latest[code] = max(latest, counts.latest.get(code, 0))
    counts.is_cut |= any(count >= MAX_COUNTED for count in of_range.values())
    return counts


def _news(desk: Desk, window: Window) -> list[Event]:
    """The last events that are told by name, the oldest first."""
    query = Query(first=window.low, last=window.high, kinds=NEWS, limit=MAX_NEWS, descending=True)
    return read_page(query, desk_visibility(desk)).events[::-1]


def _attention(
    desk: Desk,
    bots: Sequence[Automation],
    webhooks: Sequence[Subscription],
    head: int,
    now: datetime,
) -> list[attention.Concern]:
    """What the first page of the desk says needs attention."""
    published, lapsed = attention.cards_of(desk)
    next_to_end = Token.objects.active(now).filter(desk=desk).order_by(F("expires_at").asc())
    return attention.concerns(
        published=published,
        lapsed=lapsed,
        bots=bots,
        tallies=count_bots(desk.public_id, head, [bot.pk for bot in bots], now),
        token=next_to_end.first(),
        now=now,
        webhooks=webhooks,
    )
