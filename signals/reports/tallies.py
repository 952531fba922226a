"""Counts of a desk's fills and refusals: by day for a month, and by bot for today.

One statement counts everything. Each count stops at a limit, so that the statement reads a bounded
part of the indexes, however large the account is.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta

from events.feed import MAX_SPANS_PER_PAGE, IndexRange, Span, first_positions, range_condition
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
PUSHED = (Kind.SIGNAL_FILLED, Kind.SIGNAL_REFUSED)
EVENT = Event._meta.db_table


@dataclass(slots=True)
class Tally:
    """Fills and refusals. The kinds in ``cut`` are at least as many: counting stopped there."""

    filled: int = 0
    refused: int = 0
    cut: set[str] = field(default_factory=set)

    def add(self, kind: str, number: int) -> None:
        if kind == Kind.SIGNAL_FILLED:
            self.filled += number
        elif kind == Kind.SIGNAL_REFUSED:
            self.refused += number

    @property
    def filled_text(self) -> str:
        return self._text(self.filled, Kind.SIGNAL_FILLED)

    @property
    def refused_text(self) -> str:
        return self._text(self.refused, Kind.SIGNAL_REFUSED)

    def _text(self, number: int, kind: Kind) -> str:
        return f"{number}+" if kind in self.cut else str(number)


@dataclass(frozen=True, slots=True)
class Day:
    """The fills and refusals of one day in UTC."""

    date: date
    tally: Tally


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

    days: list[Day]
    bots: dict[str, BotTally]
    is_complete: bool
    was_ever_filled: bool

    @property
    def chart(self) -> Chart:
        counts = [(day.tally.filled, day.tally.refused) for day in self.days]
        return chart(counts, timedelta(days=1))

    @property
    def today(self) -> Tally:
        return self.days[-1].tally


def count(
    topic: str, spans: Sequence[Span], head: int, bots: Sequence[str], now: datetime
) -> Tallies:
    """Counts in two statements. ``spans`` is what the desk sees of the log up to ``head``."""
    dates = [now.astimezone(UTC).date() - timedelta(days=ago) for ago in reversed(range(DAYS))]
    begins = first_positions([datetime.combine(day, time.min, UTC) for day in dates])
    ranges = list(zip(begins, [*(begin - 1 for begin in begins[1:]), head], strict=True))
    statement = _Statement()
    for number, (low, high) in enumerate(ranges):
        statement.count_day(number, topic, Kind.SIGNAL_REFUSED, low, high)
        for span in spans:
            first, last = max(low, span.opened + 1), min(high, span.closed - 1)
            statement.count_day(number, span.topic, Kind.SIGNAL_FILLED, first, last)
    for span in spans:
        statement.find_fill(span, head)
    for bot_id in bots:
        statement.read_bot(topic, bot_id, begins[-1], head)
    return _tallies(dates, bots, statement.rows(), _is_complete(spans, begins[0]))


def count_bots(topic: str, head: int, bots: Sequence[str], now: datetime) -> dict[str, BotTally]:
    """The tallies of bots by id, in two statements. The day is a day in UTC."""
    [begin] = first_positions([datetime.combine(now.astimezone(UTC).date(), time.min, UTC)])
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

    def count_day(self, number: int, topic: str | None, kind: Kind, low: int, high: int) -> None:
        """Counts one kind of event in a range. The number is that of the day."""
        self._count("day", str(number), topic, kind, low, high, MAX_OF_DAY)

    def find_fill(self, span: Span, head: int) -> None:
        last = min(head, span.closed - 1)
        self._count("ever", "", span.topic, Kind.SIGNAL_FILLED, span.opened + 1, last, 1)

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

    def _count(
        self, what: str, whose: str, topic: str | None, kind: Kind, low: int, high: int, limit: int
    ) -> None:
        if topic is None or low > high:
            return
        of_kind = {"topic": topic, "kind": kind.value}
        where, params = range_condition(IndexRange(of_kind, low, high))
        self.add(
            "SELECT %s, %s, %s, count(*), NULL"
            f" FROM (SELECT position FROM {EVENT} WHERE {where} LIMIT %s) AS found",
            [what, whose, kind.value, *params, limit],
        )


def _tallies(
    dates: Sequence[date], bots: Sequence[str], rows: Sequence[Row], is_complete: bool
) -> Tallies:
    days = [Day(day, Tally()) for day in dates]
    of_bots = {bot_id: BotTally() for bot_id in bots}
    read_of_bots = Counter[str]()
    was_ever_filled = False
    for what, whose, kind, number, code in rows:
        if what == "day":
            _add_to_day(days[int(whose)].tally, kind, number)
        elif what == "today":
            of_bots[whose].today.add(kind, number)
            read_of_bots[whose] += number
        elif what == "ever":
            was_ever_filled |= number > 0
        elif kind in PUSHED:
            of_bots[whose].latest.append((code, number))
    for bot_id, bot in of_bots.items():
        bot.latest.sort(key=lambda signal: signal[1], reverse=True)
        bot.today.cut |= set(PUSHED) if read_of_bots[bot_id] >= MAX_OF_BOT else set()
    return Tallies(days, of_bots, is_complete, was_ever_filled)


def _add_to_day(tally: Tally, kind: str, number: int) -> None:
    """Adds the count of one span. A day may have several."""
    tally.add(kind, number)
    if number >= MAX_OF_DAY:
        tally.cut.add(kind)
