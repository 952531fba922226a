"""Counts of a desk's fills and refusals: by day for a month, and by bot for today.

One statement counts everything. Each count stops at a limit, so that the statement reads a bounded
part of the indexes, however large the account is.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta

from events.feed import (
    MAX_SPANS_PER_PAGE,
    IndexRange,
    Query,
    Span,
    Window,
    branches_of,
    first_positions,
    range_condition,
)
from events.kinds import Kind
from events.models import Event
from events.statements import Union
from signals.reports.charts import Chart, chart

DAYS = 30
# A count that reaches its limit means "this many or more".
MAX_OF_DAY, MAX_OF_BOT = 5000, 1000
# A bot's latest events. Among them are its latest signals.
LATEST_OF_BOT = 20
IN_A_ROW = 5
FILLS, REFUSALS = Query(kinds=[Kind.SIGNAL_FILLED]), Query(kinds=[Kind.SIGNAL_REFUSED])
EVENT = Event._meta.db_table


@dataclass(slots=True)
class Count:
    """A number of events. With ``is_cut`` there are at least as many: counting stopped there."""

    number: int = 0
    is_cut: bool = False

    def __str__(self) -> str:
        return f"{self.number}+" if self.is_cut else str(self.number)


@dataclass(slots=True)
class Tally:
    """Fills and refusals."""

    filled: Count = field(default_factory=Count)
    refused: Count = field(default_factory=Count)

    def add(self, kind: str, number: int, limit: int) -> None:
        """Adds a count that stopped at ``limit``. Other kinds of events count for nothing."""
        counts = {Kind.SIGNAL_FILLED: self.filled, Kind.SIGNAL_REFUSED: self.refused}
        if count := counts.get(Kind(kind)):
            count.number += number
            count.is_cut |= number >= limit


@dataclass(slots=True)
class BotTally:
    """Today's tally of a bot, and its latest signals: the code and position of each.

    The code of a fill is None. The newest is the first.
    """

    today: Tally = field(default_factory=Tally)
    latest: list[tuple[str | None, int]] = field(default_factory=list)

    @property
    def is_refused_in_a_row(self) -> bool:
        """Whether its latest signals were all refused."""
        latest = self.latest[:IN_A_ROW]
        return len(latest) == IN_A_ROW and all(code for code, _ in latest)


@dataclass(frozen=True, slots=True)
class Tallies:
    """The last days, the oldest first, and the bots by id.

    ``is_complete`` is False if the desk enrolled so often that fills of the first days are missing.
    ``was_ever_filled`` looks beyond these days.
    """

    days: list[tuple[date, Tally]]
    bots: dict[str, BotTally]
    is_complete: bool
    was_ever_filled: bool

    @property
    def chart(self) -> Chart:
        counts = [(tally.filled.number, tally.refused.number) for _, tally in self.days]
        return chart(counts, timedelta(days=1))

    @property
    def today(self) -> Tally:
        return self.days[-1][1]


def count(
    topic: str, spans: Sequence[Span], head: int, bots: Sequence[str], now: datetime
) -> Tallies:
    """Counts in two statements. ``spans`` is what the desk sees of the log up to ``head``.

    A day is one of the time zone of ``now``.
    """
    dates = [now.date() - timedelta(days=ago) for ago in reversed(range(DAYS))]
    begins = first_positions([datetime.combine(day, time.min, now.tzinfo) for day in dates])
    ends = [*(begin - 1 for begin in begins[1:]), head]
    statement = _Statement()
    for number, (low, high) in enumerate(zip(begins, ends, strict=True)):
        window = Window(low, high, descending=False)
        refusals = branches_of([Span(topic)], REFUSALS, window)
        for part in (*refusals, *branches_of(spans, FILLS, window)):
            statement.count("day", str(number), part, MAX_OF_DAY)
    for part in branches_of(spans, FILLS, Window(1, head, descending=False)):
        statement.count("ever", "", part, 1)
    for bot_id in bots:
        statement.read_bot(topic, bot_id, begins[-1], head)
    return _tallies(dates, bots, statement.rows(), _is_complete(spans, begins[0]))


def count_bots(topic: str, head: int, bots: Sequence[str], now: datetime) -> dict[str, BotTally]:
    """The tallies of bots by id, in two statements. Today is a day of the time zone of ``now``."""
    [begin] = first_positions([datetime.combine(now.date(), time.min, now.tzinfo)])
    statement = _Statement()
    for bot_id in bots:
        statement.read_bot(topic, bot_id, begin, head)
    return _tallies([], bots, statement.rows(), True).bots


def _is_complete(spans: Sequence[Span], begin: int) -> bool:
    """Whether the spans cover every election since the first position of the first day."""
    ended = [span for span in spans if span.opened > 0]
    return len(ended) <= MAX_SPANS_PER_PAGE or min(span.opened for span in ended) < begin


Row = tuple[str, str, str, int, str | None]


class _Statement(Union):
    """One statement. Each of its rows is: what, whose, kind, number, code."""

    def count(self, what: str, whose: str, part: IndexRange, limit: int) -> None:
        """Counts the events of one kind. Of a day it is the number of the day, whose they are."""
        where, params = range_condition(part)
        self.add(
            "SELECT %s, %s, %s, count(*), NULL"
            f" FROM (SELECT position FROM {EVENT} WHERE {where} LIMIT %s) AS found",
            [what, whose, part.key["kind"], *params, limit],
        )

    def read_bot(self, topic: str, bot_id: str, low: int, head: int) -> None:
        """Counts the bot's events of today by kind, and lists its latest."""
        of_bot = {"topic": topic, "bot_id": bot_id}
        where, params = range_condition(IndexRange(of_bot, low, head))
        self.add(
            "SELECT 'today', %s, kind, count(*), NULL"
            f" FROM (SELECT kind FROM {EVENT} WHERE {where} LIMIT %s) AS found GROUP BY kind",
            [bot_id, *params, MAX_OF_BOT],
        )
        where, params = range_condition(IndexRange(of_bot, 1, head))
        self.add(
            f"SELECT 'latest', bot_id, kind, position, code FROM (SELECT * FROM {EVENT}"
            f" WHERE {where} ORDER BY topic DESC, bot_id DESC, position DESC LIMIT %s) AS found",
            [*params, LATEST_OF_BOT],
        )


def _tallies(
    dates: Sequence[date], bots: Sequence[str], rows: Sequence[Row], is_complete: bool
) -> Tallies:
    days = [(day, Tally()) for day in dates]
    of_bots = {bot_id: BotTally() for bot_id in bots}
    read_of_bots = Counter[str]()
    was_ever_filled = False
    for what, whose, kind, number, code in rows:
        if what == "day":
            days[int(whose)][1].add(kind, number, MAX_OF_DAY)
        elif what == "today":
            of_bots[whose].today.add(kind, number, MAX_OF_BOT)
            read_of_bots[whose] += number
        elif what == "ever":
            was_ever_filled |= number > 0
        elif kind in (Kind.SIGNAL_FILLED, Kind.SIGNAL_REFUSED):
            of_bots[whose].latest.append((code, number))
    for bot_id, bot in of_bots.items():
        bot.latest.sort(key=lambda signal: signal[1], reverse=True)
        if read_of_bots[bot_id] >= MAX_OF_BOT:
            bot.today.filled.is_cut = bot.today.refused.is_cut = True
    return Tallies(days, of_bots, is_complete, was_ever_filled)
