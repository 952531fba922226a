"""A line of the table, how much is done for it, and how rounds are compared."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from tests.bench.load import Round

# What makes a server of ``tests.server`` the baseline.
BARE = {"DJANGO_SETTINGS_MODULE": "tests.bench.bare_settings"}


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table: what was found, and the least or the most that is asked of it."""

    name: str
    value: float
    least: float | None = None
    most: float | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; null where there is none."""
        if self.least is None and self.most is None:
            return None
        return self.value >= (self.least or 0) and (self.most is None or self.value <= self.most)


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is done: rounds, seconds of each, and how far the service has grown."""

    rounds: int = 5
    seconds: int = 5
    desks: int = 1_000_000
    events: int = 3_000_000


QUICK = Effort(rounds=5, seconds=1, desks=20_000, events=60_000)


def rates(rounds: Sequence[Round]) -> list[float]:
    return [one.rate for one in rounds]


def ratio(ones: Sequence[float], others: Sequence[float]) -> float:
    """The median of the ratios of the rounds, each to the one that ran beside it."""
    return statistics.median(one / other for one, other in zip(ones, others, strict=True))


def a_second(rounds: Sequence[Round]) -> str:
    return f"{statistics.median(rates(rounds)):,.0f}/s"
