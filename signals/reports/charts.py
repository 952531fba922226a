"""Small bar charts of counts over time, as numbers for the attributes of an SVG."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

HEIGHT = 18  # pixels above the base line, and as many below it
WIDTH, GAP = 6, 2
MIN_LENGTH = 2  # so that a count of one is visible
TICKS = 4  # of the horizontal axis, besides now


@dataclass(frozen=True, slots=True)
class Bar:
    """The counts of one interval. ``up`` and ``down`` are lengths above and below the base line.

    ``label`` names the interval by its distance from now.
    """

    label: str
    x: int
    top: int
    up: int
    down: int
    accepted: int
    refused: int


@dataclass(frozen=True, slots=True)
class Chart:
    """Bars from left to right, the newest last; ``accepted`` and ``refused`` are their sums.

    ``top`` is the count at either end of the vertical axis. ``ticks`` are the labels of the
    horizontal axis, from left to right.
    """

    bars: list[Bar]
    accepted: int
    refused: int
    top: int
    ticks: list[str]
    line: int = HEIGHT
    height: int = 2 * HEIGHT
    bar_width: int = WIDTH - GAP

    @property
    def width(self) -> int:
        return WIDTH * len(self.bars)


def over_time(
    pushed: Iterable[tuple[datetime, bool]], now: datetime, interval: timedelta, intervals: int
) -> Chart:
    """Builds the chart of ``(time, is_refused)`` pairs in the intervals that end now."""
    counts = [[0, 0] for _ in range(intervals)]
    for at, refused in pushed:
        ago = max(0, (now - at) // interval)
        if ago < intervals:
            counts[intervals - 1 - ago][refused] += 1
    return chart([(accepted, refused) for accepted, refused in counts], interval)


def chart(counts: Sequence[tuple[int, int]], interval: timedelta) -> Chart:
    """Builds a chart from one ``(accepted, refused)`` pair for each interval, the oldest first."""
    top = round_up(max(max(pair) for pair in counts))
    bars = [
        Bar(
            label=_interval_ago(interval, len(counts) - index),
            x=WIDTH * index,
            top=HEIGHT - length(accepted, top, HEIGHT),
            up=length(accepted, top, HEIGHT),
            down=length(refused, top, HEIGHT),
            accepted=accepted,
            refused=refused,
        )
        for index, (accepted, refused) in enumerate(counts)
    ]
    return Chart(
        bars=bars,
        accepted=sum(pair[0] for pair in counts),
        refused=sum(pair[1] for pair in counts),
        top=top,
        ticks=_ticks(interval, len(counts)),
    )


def round_up(count: int) -> int:
    """The next of 2, 4, 10, 20, 40, 100 …: its half is a whole number too."""
    power = 1
    while True:
        for step in (2, 4, 10):
            if count <= step * power:
                return step * power
        power *= 10


def _interval_ago(interval: timedelta, number: int) -> str:
    """Names the interval that began ``number`` intervals ago."""
    unit, one = _unit(interval)
    return f"{interval * number // one} to {interval * (number - 1) // one} {unit}s ago"


def _ticks(interval: timedelta, intervals: int) -> list[str]:
    """The distances from now in the unit of the intervals; only the first one names it."""
    unit, one = _unit(interval)
    first, *others = (interval * intervals * part // TICKS // one for part in range(TICKS, 0, -1))
    return [f"{first} {unit}s ago", *map(str, others), "now"]


def _unit(distance: timedelta) -> tuple[str, timedelta]:
    """The unit of an interval of days, hours or minutes."""
    units = {"day": timedelta(days=1), "hour": timedelta(hours=1), "minute": timedelta(minutes=1)}
    return next((name, one) for name, one in units.items() if distance >= one)


def length(count: int, maximum: int, full_length: int) -> int:
    """Returns the length of a bar: ``full_length`` for the maximum, 0 for a count of 0."""
    return max(MIN_LENGTH, round(count * full_length / maximum)) if count else 0
