"""Small bar charts of counts over time, as numbers for the attributes of an SVG."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from events.times import UNITS

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
    def received(self) -> int:
        return self.accepted + self.refused

    @property
    def width(self) -> int:
        return WIDTH * len(self.bars)

    @property
    def up(self) -> str:
        """The outline of all bars above the line: a path costs a page less than many rectangles."""
        return self._path([(bar.x, -bar.up) for bar in self.bars if bar.up])

    @property
    def down(self) -> str:
        """The outline of all bars below the line."""
        return self._path([(bar.x, bar.down) for bar in self.bars if bar.down])

    def _path(self, ends: Iterable[tuple[int, int]]) -> str:
        return "".join(f"M{x} {self.line}v{end}h{self.bar_width}v{-end}z" for x, end in ends)


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
    number = len(counts)
    top = round_up(max(max(pair) for pair in counts))
    unit, one = next((name, one) for name, one in UNITS.items() if interval >= one)
    # The distances from now of the beginnings of the intervals, and of the last one's end.
    ago = [interval * (number - index) // one for index in range(number + 1)]
    bars = [
        Bar(
            label=f"{ago[index]} to {ago[index + 1]} {unit}s ago",
            x=WIDTH * index,
            up=length(accepted, top, HEIGHT),
            down=length(refused, top, HEIGHT),
            accepted=accepted,
            refused=refused,
        )
        for index, (accepted, refused) in enumerate(counts)
    ]
    between = [str(ago[number * tick // TICKS]) for tick in range(1, TICKS)]
    return Chart(
        bars=bars,
        accepted=sum(accepted for accepted, _ in counts),
        refused=sum(refused for _, refused in counts),
        top=top,
        ticks=[f"{ago[0]} {unit}s ago", *between, "now"],
    )


def round_up(count: int) -> int:
    """The next of 2, 4, 10, 20, 40, 100 …: its half is a whole number too."""
    power = 1
    while True:
        for step in (2, 4, 10):
            if count <= step * power:
                return step * power
        power *= 10


def length(count: int, maximum: int, full_length: int) -> int:
    """Returns the length of a bar: ``full_length`` for the maximum, 0 for a count of 0."""
    return max(MIN_LENGTH, round(count * full_length / maximum)) if count else 0
