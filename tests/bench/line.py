"""A line of the table, how much is done for it, and how rounds are compared."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

# What makes a server of ``tests.server`` the baseline.
BARE = {"DJANGO_SETTINGS_MODULE": "tests.bench.bare_settings"}
# What makes the baseline's table, run beside it.
MAKE_BARE_TABLE = """
from django.db import connection
from tests.bench.bare import Row
with connection.schema_editor() as editor:
    editor.create_model(Row)
"""


@dataclass(frozen=True, slots=True)
class Round:
    """What one round came to: requests a second, and the latency in microseconds."""

    rate: float
    p50: int
    p99: int


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
    """How much is done: rounds, seconds of each, and how far the service has grown.

    ``whole`` is with warming up, and with what needs servers of its own: how many workers, what
    counting costs, and everything again beside a service that is small.
    """

    rounds: int = 5
    seconds: int = 3
    ready: int = 1000
    desks: int = 1_000_000
    events: int = 3_000_000
    whole: bool = True


QUICK = Effort(rounds=1, seconds=1, ready=10, desks=20_000, events=60_000, whole=False)


def rates(rounds: Sequence[Round]) -> list[float]:
    return [one.rate for one in rounds]


def ratio(ones: Sequence[float], others: Sequence[float]) -> float:
    """The median of the ratios of the rounds, each to the one that ran beside it."""
    return statistics.median(one / other for one, other in zip(ones, others, strict=True))


def a_second(rounds: Sequence[Round]) -> str:
    return f"{statistics.median(rates(rounds)):,.0f}/s"
