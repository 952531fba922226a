"""Small bar charts of counts over time, as numbers for the attributes of an SVG."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

HEIGHT = 18  # pixels above the base line, and as many below it
WIDTH, GAP = 6, 2
MIN_LENGTH = 2  # so that a count of one is visible


@dataclass(frozen=True, slots=True)
class Bar:
    """The counts of one interval. ``up`` and ``down`` are lengths above and below the base line."""

    x: int
    top: int
    up: int
    down: int
    accepted: int
    refused: int


@dataclass(frozen=True, slots=True)
class Chart:
    """Bars from left to right, the newest last; ``accepted`` and ``refused`` are their sums."""

    bars: list[Bar]
    accepted: int
    refused: int
    line: int = HEIGHT
    height: int = 2 * HEIGHT
    bar_width: int = WIDTH - GAP

    @property
    def width(self) -> int:
        return WIDTH * len(self.bars)


def chart(counts: Sequence[tuple[int, int]]) -> Chart:
    """Builds a chart from one ``(accepted, refused)`` pair for each interval, the oldest first."""
    maximum = max((max(pair) for pair in counts), default=0)
    bars = [
        Bar(
            x=WIDTH * index,
            top=HEIGHT - length(accepted, maximum, HEIGHT),
            up=length(accepted, maximum, HEIGHT),
            down=length(refused, maximum, HEIGHT),
            accepted=accepted,
            refused=refused,
        )
        for index, (accepted, refused) in enumerate(counts)
    ]
    return Chart(bars, sum(pair[0] for pair in counts), sum(pair[1] for pair in counts))


def over_time(
    pushed: Iterable[tuple[datetime, bool]], now: datetime, interval: timedelta, intervals: int
) -> Chart:
    """Builds the chart of ``(time, is_refused)`` pairs in the intervals that end now."""
    counts = [[0, 0] for _ in range(intervals)]
    for at, refused in pushed:
        ago = max(0, (now - at) // interval)
        if ago < intervals:
            counts[intervals - 1 - ago][refused] += 1
    return chart([(accepted, refused) for accepted, refused in counts])


def length(count: int, maximum: int, full_length: int) -> int:
    """Returns the length of a bar: ``full_length`` for the maximum, 0 for a count of 0."""
    return max(MIN_LENGTH, round(count * full_length / maximum)) if count else 0
