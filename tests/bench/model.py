"""A model of other machines: which part binds, and at how many deploys a second.

It is computed from parts that the same run measured. deploy/performance/README.md explains the
formula. What it leaves out makes real machines slower: caches and memory that cores share, waits
for the interpreter lock, and a network between the service and PostgreSQL.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

CORES = (2, 4, 8, 16, 32)
COMMITS = (0.001, 0.005)  # seconds, in addition to the measured one
USUAL_PROCESSES = 4  # at most, unless WEB_CONCURRENCY is set
USUAL_THREADS = 16


@dataclass(frozen=True, slots=True)
class Parts:
    """The measured parts of a deploy, in seconds.

    ``gunicorn``, ``application`` and ``database`` are CPU of one request at 64 connections. A batch
    of b signals holds the lock for ``turn`` + b * ``signal`` + the time of the commit.
    """

    gunicorn: float
    application: float
    database: float
    turn: float
    signal: float
    commit: float

    @property
    def python(self) -> float:
        return self.gunicorn + self.application

    def locked(self, batch: float, commit: float) -> float:
        """The seconds that a batch holds the lock."""
        return self.turn + batch * self.signal + commit


@dataclass(frozen=True, slots=True)
class Machine:
    """``commit`` is the seconds that a commit takes. Nothing else runs on its cores."""

    cores: int
    processes: int
    commit: float
    threads: int = USUAL_THREADS


@dataclass(frozen=True, slots=True)
class Forecast:
    """Deploys a second, what binds them, and the batch that is needed for that."""

    rate: float
    bound_by: str
    batch: float

    def __str__(self) -> str:
        return f"{self.rate:,.0f}, {self.bound_by}, batches of {self.batch:.0f}"


def forecast(parts: Parts, machine: Machine) -> Forecast:
    """The lowest of three rates: of all cores, of the processes' Python, and of the lock."""
    most = machine.threads
    rates = {
        "cores": machine.cores / (parts.python + parts.database),
        "Python": min(machine.processes, machine.cores) / parts.python,
        "lock": most / parts.locked(most, machine.commit),
    }
    bound_by = min(rates, key=lambda name: rates[name])
    rate = rates[bound_by]
    return Forecast(rate, bound_by, min(most, _batch(parts, machine, rate)))


def on_this_machine(parts: Parts, processes: int, generator: float) -> Forecast:
    """The forecast for the machine of the run, on whose cores the load generator runs too."""
    with_load = replace(parts, database=parts.database + generator)
    return forecast(with_load, Machine(len(os.sched_getaffinity(0)), processes, parts.commit))


def _batch(parts: Parts, machine: Machine, rate: float) -> float:
    """The batch at which the lock allows a rate, at least one: rate = b / locked(b)."""
    left = 1 - rate * parts.signal
    return max(1.0, rate * (parts.turn + machine.commit) / left) if left > 0 else machine.threads


def fit(turns: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The line through (batch, seconds of its turn): seconds of a turn, and of a signal in it."""
    batches, seconds = zip(*turns, strict=True)
    number, middle, height = len(turns), sum(batches) / len(turns), sum(seconds) / len(turns)
    spread = sum(batch**2 for batch in batches) / number - middle**2
    common = sum(batch * second for batch, second in turns) / number - middle * height
    return height - common / spread * middle, common / spread


def page(parts: Parts) -> str:
    """The parts and the forecasts in Markdown."""
    commits = (parts.commit, *COMMITS)
    header = [f"commits of {_ms(commit)}" for commit in commits]
    rows = [
        f"| {cores} | {processes} | "
        + " | ".join(str(forecast(parts, Machine(cores, processes, one))) for one in commits)
        + " |"
        for cores, processes in _processes()
    ]
    return "\n".join(
        [
            "## The model of other machines",
            "",
            f"This run measured: a deploy takes {_ms(parts.gunicorn)} of CPU in gunicorn and "
            f"Django's handler, {_ms(parts.application)} in the application and "
            f"{_ms(parts.database)} in PostgreSQL. A batch holds the lock for {_ms(parts.turn)}, "
            f"{_ms(parts.signal)} for each signal, and its commit ({_ms(parts.commit)}).",
            "",
            "Deploys a second, what binds them, and the batches that they need:",
            "",
            f"| cores | processes | {' | '.join(header)} |",
            "| --- | --- |" + " --- |" * len(commits),
            *rows,
        ]
    )


def _processes() -> Iterator[tuple[int, int]]:
    """The cores and the processes of each row: the usual number, and one for each core."""
    for cores in CORES:
        usual = max(2, min(cores, USUAL_PROCESSES))
        yield from ((cores, processes) for processes in dict.fromkeys((usual, cores)))


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms"
