"""Counts over time as small bars: drawn by the server, as numbers for an SVG's attributes."""

from collections.abc import Sequence
from dataclasses import dataclass

HEIGHT = 18  # of the part above the line, and of the part below it
WIDTH, GAP = 6, 2
LEAST = 2  # one of many is still seen


@dataclass(frozen=True, slots=True)
class Bar:
    """One stretch of time: ``up`` stands on the line, ``down`` hangs from it; both are heights."""

    x: int
    top: int
    up: int
    down: int


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

    def height(count: int) -> int:
        return max(LEAST, round(count * HEIGHT / most)) if count else 0

    bars = [
        Bar(WIDTH * index, HEIGHT - height(accepted), height(accepted), height(refused))
        for index, (accepted, refused) in enumerate(counts)
    ]
    return Chart(bars, sum(pair[0] for pair in counts), sum(pair[1] for pair in counts))
