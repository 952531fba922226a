"""Counts of a desk's events: its fills and refusals by day and by bot, and what a search finds.

Each count stops at a limit, so that a statement reads a bounded part of the indexes, however large
the account is. Days are days in the time zone that is active: that of the user whose page it is.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from typing import NamedTuple

from django.utils import timezone

from events.feed import (
    MAX_SPANS_PER_PAGE,
    IndexRange,
    Query,
    Span,
    Window,
    branches_of,
    first_positions,
    in_order,
    latest_of_each,
)
from events.kinds import GROUPS, Kind
from events.statements import UnionAll
from signals.reports.charts import Chart, chart

DAYS = 30
# A count that reaches its limit means "this many or more".
MAX_OF_DAY, MAX_OF_BOT = 5000, 1000
# Of the last days of all bots together, and of one bot.
MAX_OF_BOARD, MAX_OF_BOT_MONTH = 30_000, 5000
MAX_OF_FACET = 1000
# A bot's latest events. Among them are its latest signals.
LATEST_OF_BOT = 20
IN_A_ROW = 5
# What a bot's signal becomes.
PUSHED = (Kind.SIGNAL_FILLED, Kind.SIGNAL_REFUSED)
FILLS, REFUSALS = Query(kinds=[Kind.SIGNAL_FILLED]), Query(kinds=[Kind.SIGNAL_REFUSED])


@dataclass(slots=True)
class Count:
    """A number of events. With ``is_cut`` there are at least as many: counting stopped there."""

    number: int = 0
    is_cut: bool = False

    def __str__(self) -> str:
        return f"{self.number:,}+" if self.is_cut else f"{self.number:,}"

    def add(self, number: int, *, is_cut: bool) -> None:
        self.number += number
        self.is_cut |= is_cut


@dataclass(slots=True)
class Tally:
    """Fills and refusals."""

    filled: Count = field(default_factory=Count)
    refused: Count = field(default_factory=Count)

    def add(self, kind: str, number: int, *, is_cut: bool) -> None:
        """Adds a number of events of this kind. Other kinds count for nothing."""
        counts: dict[str, Count] = {
            Kind.SIGNAL_FILLED: self.filled,
            Kind.SIGNAL_REFUSED: self.refused,
        }
        if count := counts.get(kind):
            count.add(number, is_cut=is_cut)


@dataclass(slots=True)
class Days:
    """The last days, the oldest first: a tally of each."""

    days: list[tuple[date, Tally]]

    @property
    def chart(self) -> Chart:
        counts = [(tally.filled.number, tally.refused.number) for _, tally in self.days]
        return chart(counts, timedelta(days=1))

    @property
    def today(self) -> Tally:
        return self.days[-1][1]

    def cut(self) -> None:
        """Marks what was not counted: the first day with counts, in part, and all before it."""
        for _, tally in self.days:
            tally.filled.is_cut = tally.refused.is_cut = True
            if tally.filled.number or tally.refused.number:
                break

    @property
    def total(self) -> Tally:
        """The sum of all days."""
        total = Tally()
        for _, tally in self.days:
            total.filled.add(tally.filled.number, is_cut=tally.filled.is_cut)
            total.refused.add(tally.refused.number, is_cut=tally.refused.is_cut)
        return total


@dataclass(slots=True)
class BotTally:
    """The last days of a bot, and its latest signals, the newest first: code and position of each.

    The code of a fill is None.
    """

    month: Days
    latest: list[tuple[str | None, int]] = field(default_factory=list)

    @property
    def today(self) -> Tally:
        return self.month.today

    @property
    def is_refused_in_a_row(self) -> bool:
        """Whether its latest signals were all refused."""
        latest = self.latest[:IN_A_ROW]
        return len(latest) == IN_A_ROW and all(code for code, _ in latest)


@dataclass(slots=True)
class Tallies(Days):
    """The last days of a desk, and its bots by id.

    ``is_complete`` is False if the desk enrolled so often that fills of the first days are missing.
    ``was_ever_filled`` looks beyond these days.
    """

    bots: dict[str, BotTally]
    is_complete: bool
    was_ever_filled: bool


def count(
    topic: str, spans: Sequence[Span], head: int, bots: Sequence[str], now: datetime
) -> Tallies:
    """Counts in two statements. ``spans`` is what the desk sees of the log up to ``head``.

    The tallies of the bots are of today alone.
    """
    dates = _dates(now, DAYS)
    windows = _windows(dates, head)
    statement = _Statement()
    for number, window in enumerate(windows):
        refusals = branches_of([Span(topic)], REFUSALS, window)
        for part in (*refusals, *branches_of(spans, FILLS, window)):
            statement.count("day", str(number), part, MAX_OF_DAY)
    for part in branches_of(spans, FILLS, Window(1, head, descending=False)):
        statement.count("ever", "", part, 1)
    statement.read_bots(topic, bots, windows[-1:], MAX_OF_BOT)
    rows = statement.read()
    days = [(day, Tally()) for day in dates]
    was_ever_filled = False
    for row in rows:
        if row.what == "day":
            _, tally = days[int(row.key)]
            tally.add(row.kind, row.number, is_cut=row.number >= MAX_OF_DAY)
        elif row.what == "ever":
            was_ever_filled |= row.number > 0
    of_bots = _of_bots(bots, dates[-1:], rows, MAX_OF_BOT)
    return Tallies(days, of_bots, _is_complete(spans, windows[0].low), was_ever_filled)


def count_bots(
    topic: str, head: int, bots: Sequence[str], now: datetime, days: int = DAYS
) -> dict[str, BotTally]:
    """The tallies of bots by id, of so many days up to today, in two statements.

    Of each bot the latest events are read: of more days the fewer, the more bots there are.
    """
    if not bots:
        return {}
    dates = _dates(now, days)
    most = MAX_OF_BOT if days == 1 else min(MAX_OF_BOT_MONTH, MAX_OF_BOARD // len(bots))
    statement = _Statement()
    statement.read_bots(topic, bots, _windows(dates, head), most)
    return _of_bots(bots, dates, statement.read(), most)


def facets(
    topic: str, spans: Sequence[Span], window: Window, values: Mapping[str, Collection[str]]
) -> dict[str, dict[str, Count]]:
    """Counts what a search would find in the window, in one statement, by column and value.

    ``values`` are those to count of each column of ``SEARCHED``, among the desk's own events. Kinds
    are counted among all ``spans``. Values that do not occur are left out.
    """
    statement, found = _Statement(), defaultdict[str, dict[str, Count]](dict)
    own = [Span(topic)]
    for column, of_column in values.items():
        for value in of_column:
            for part in branches_of(own, Query(having={column: value}), window):
                statement.count(column, value, part, MAX_OF_FACET)
    for kind in Kind.values:
        seen = spans if kind in OF_OTHERS else own
        for part in branches_of(seen, Query(kinds=[kind]), window):
            statement.count("kind", kind, part, MAX_OF_FACET)
    for row in statement.read():
        if row.number:
            count = found[row.what].setdefault(row.key, Count())
            count.add(row.number, is_cut=row.number >= MAX_OF_FACET)
    return found


# The kinds of events that have another topic than a desk's: a card's, or everyone's.
OF_OTHERS = {*GROUPS["signal.*"], *GROUPS["card.*"]}


def _dates(now: datetime, days: int) -> list[date]:
    today = timezone.localdate(now)
    return [today - timedelta(days=ago) for ago in reversed(range(days))]


def _windows(dates: Sequence[date], head: int) -> list[Window]:
    """What the log has of each day, up to the head."""
    zone = timezone.get_current_timezone()
    begins = first_positions([datetime.combine(day, time.min, zone) for day in dates])
    ends = [*(begin - 1 for begin in begins[1:]), head]
    return [Window(low, high, descending=False) for low, high in zip(begins, ends, strict=True)]


def _is_complete(spans: Sequence[Span], begin: int) -> bool:
    """Whether the spans cover every election since the first position of the first day."""
    ended = [span for span in spans if span.opened > 0]
    return len(ended) <= MAX_SPANS_PER_PAGE or min(span.opened for span in ended) < begin


class Row(NamedTuple):
    """What a statement found.

    ``what`` is "day", "ever", "of_day", "latest" or a column. ``key`` is the day's number, the
    bot's id or the column's value. ``number`` is how many events it counted: of "latest" it is the
    position of one. ``extra`` is the day's number for "of_day", and the code for "latest".
    """

    what: str
    key: str
    kind: str
    number: int
    extra: str | None


class _Statement(UnionAll):
    """One statement. Its rows have the columns of ``Row``."""

    def read(self) -> list[Row]:
        return [Row(*row) for row in self.rows()]

    def count(self, what: str, key: str, part: IndexRange, limit: int) -> None:
        """Counts the events of a range, up to the limit."""
        found, params = in_order("position", part, limit)
        self.add(
            f"SELECT %s, %s, %s, count(*), NULL FROM ({found}) AS found",
            [what, key, part.key.get("kind", ""), *params],
        )

    def read_bots(
        self, topic: str, bots: Sequence[str], windows: Sequence[Window], most: int
    ) -> None:
        """Counts each bot's latest events by kind and day, and lists its latest."""
        if not bots:
            return
        days = Window(windows[0].low, windows[-1].high, descending=True)
        found, params = latest_of_each("bot_id, kind, position", topic, "bot_id", bots, days, most)
        numbered = reversed(list(enumerate(windows)))
        day = " ".join(
            f"WHEN position >= {window.low} THEN '{number}'" for number, window in numbered
        )
        self.add(
            "SELECT 'of_day', bot_id, kind, count(*), day FROM (SELECT bot_id, kind, "
            f"CASE {day} END AS day FROM ({found}) AS found) AS counted "
            "GROUP BY bot_id, kind, day",
            params,
        )
        columns, whole = "'latest', bot_id, kind, position, code", days._replace(low=1)
        self.add(*latest_of_each(columns, topic, "bot_id", bots, whole, LATEST_OF_BOT))


def _of_bots(
    bots: Sequence[str], dates: Sequence[date], rows: Sequence[Row], most: int
) -> dict[str, BotTally]:
    """The tallies that the rows of ``read_bots`` say. A bot with ``most`` events may have more."""
    found = {bot_id: BotTally(Days([(day, Tally()) for day in dates])) for bot_id in bots}
    read = Counter[str]()
    for row in rows:
        if row.what == "of_day" and row.extra is not None:
            read[row.key] += row.number
            _, tally = found[row.key].month.days[int(row.extra)]
            tally.add(row.kind, row.number, is_cut=False)
        elif row.what == "latest" and row.kind in PUSHED:
            found[row.key].latest.append((row.extra, row.number))
    for bot_id, of_bot in found.items():
        of_bot.latest.sort(key=lambda signal: signal[1], reverse=True)
        if read[bot_id] >= most:
            of_bot.month.cut()
    return found
