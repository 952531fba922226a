"""Counts over time as small bars: drawn by the server, as numbers for an SVG's attributes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

HEIGHT = 18  # of the part above the line, and of the part below it
WIDTH, GAP = 6, 2
LEAST = 2  # one of many is still seen


@dataclass(frozen=True, slots=True)
class Bar:
    """One stretch of time and its counts: ``up`` stands on the line, ``down`` hangs from it."""

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
    """The chart of (accepted, refused) counts, one pair a stretch, the oldest first."""
    most = max((max(pair) for pair in counts), default=0)
    bars = [
        Bar(
            x=WIDTH * index,
            top=HEIGHT - length(accepted, most, HEIGHT),
            up=length(accepted, most, HEIGHT),
            down=length(refused, most, HEIGHT),
            accepted=accepted,
            refused=refused,
        )
        for index, (accepted, refused) in enumerate(counts)
    ]
    return Chart(bars, sum(pair[0] for pair in counts), sum(pair[1] for pair in counts))


def over_time(
    pushed: Iterable[tuple[datetime, bool]], now: datetime, stretch: timedelta, stretches: int
) -> Chart:
    """The chart of what was pushed at which time, and whether it was refused, up to now."""
    counts = [[0, 0] for _ in range(stretches)]
    for at, refused in pushed:
        ago = max(0, (now - at) // stretch)
        if ago < stretches:
            counts[stretches - 1 - ago][refused] += 1
    return chart([(accepted, refused) for accepted, refused in counts])


def length(count: int, most: int, whole: int) -> int:
    """How long the bar of a count is, where the longest is ``whole``; of none there is no bar."""
    return max(LEAST, round(count * whole / most)) if count else 0
