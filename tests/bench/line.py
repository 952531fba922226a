"""A line of the table, the size of a run, how rounds are compared, and the baseline's server."""

import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tests.server import Server, manage, serving_beside

# The environment that makes a server of ``tests.server`` the baseline.
BARE = {"DJANGO_SETTINGS_MODULE": "tests.bench.bare_settings"}
# Creates the baseline's table, unless an earlier server on this database has.
MAKE_BARE_TABLE = """
from django.db import connection
from tests.bench.bare import Row
if Row._meta.db_table not in connection.introspection.table_names():
    with connection.schema_editor() as editor:
        editor.create_model(Row)
"""


@dataclass(frozen=True, slots=True)
class Round:
    """The result of a round: requests a second, and latencies in microseconds.

    ``generator`` is the share of one core that the load generator took.
    """

    rate: float
    p50: int
    p99: int
    generator: float


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the table: the measured value, and its goal as a minimum or a maximum."""

    name: str
    value: float
    least: float | None = None
    most: float | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the goal is met. None without a goal."""
        if self.least is None and self.most is None:
            return None
        return self.value >= (self.least or 0) and (self.most is None or self.value <= self.most)


@dataclass(frozen=True, slots=True)
class Effort:
    """The size of a run: rounds, seconds of a round, the rows of the large service, live readers.

    ``whole`` adds a warm-up, and what needs more servers: the cost of limits, and the comparison
    with a small service.
    """

    rounds: int = 4
    seconds: int = 2
    ready: int = 1000
    desks: int = 1_000_000
    events: int = 3_000_000
    readers: int = 10_000
    whole: bool = True


QUICK = Effort(rounds=1, seconds=1, ready=10, desks=20_000, events=60_000, readers=500, whole=False)


def rates(rounds: Sequence[Round]) -> list[float]:
    return [one.rate for one in rounds]


def ratio(ones: Sequence[float], others: Sequence[float]) -> float:
    """The median of the ratios of rounds that ran one after the other."""
    return statistics.median(one / other for one, other in zip(ones, others, strict=True))


def a_second(rounds: Sequence[Round]) -> str:
    return f"{statistics.median(rates(rounds)):,.0f}/s"


@contextmanager
def bare_view(server: Server) -> Iterator[Server]:
    """The baseline beside a server, with a table of its own in the server's database."""
    with serving_beside(server, **BARE) as beside:
        manage(beside, "shell", "--no-imports", "-c", MAKE_BARE_TABLE)
        yield beside
