"""The CPU that a request takes in each process: in gunicorn's workers and in PostgreSQL.

Reads ``/proc``, so both run on this machine.
"""

import os
import timeit
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from events import tracing
from tests.bench import growth, load
from tests.bench.line import Effort, Line
from tests.bench.load import MANY
from tests.server import Server, process_of

SPANS = 10_000  # deploys
TICKS = os.sysconf("SC_CLK_TCK")  # of ``/proc/PID/stat``, in a second
BACKENDS = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"


@dataclass(frozen=True, slots=True)
class Used:
    """A round: requests a second, and the seconds of CPU of one request.

    ``workers`` is gunicorn's, with the application in it.
    """

    rate: float
    workers: float
    database: float
    generator: float

    @property
    def total(self) -> float:
        return self.workers + self.database + self.generator


@dataclass(frozen=True, slots=True)
class Costs:
    """Deploys a second, and the seconds of CPU of a deploy under load.

    ``to_bare`` is the CPU of a request to the bare view ÷ that of a deploy, in all processes.
    """

    rate: float
    gunicorn: float  # with Django's handler: what the empty view takes
    application: float
    database: float
    generator: float
    to_bare: float


def costs(server: Server, beside: Server, effort: Effort) -> Costs:
    """Compares the CPU of a deploy with that of an empty and of the bare view."""
    loads = (
        (beside, load.empty(beside)),
        (beside, load.insert(beside)),
        (server, load.deploy(server)),
    )
    rounds = [
        [_of_a_round(of, sent, effort.seconds) for of, sent in loads] for _ in range(effort.rounds)
    ]
    empty, bare, deploy = (_median(used) for used in zip(*rounds, strict=True))
    return Costs(
        rate=deploy.rate,
        gunicorn=empty.workers,
        application=deploy.workers - empty.workers,
        database=deploy.database,
        generator=deploy.generator,
        to_bare=bare.total / deploy.total,
    )


def lines(found: Costs) -> Iterator[Line]:
    for name, seconds in (
        ("gunicorn and Django's handler", found.gunicorn),
        ("the application", found.application),
        ("PostgreSQL", found.database),
        ("the load generator", found.generator),
    ):
        yield Line(f"CPU of a deploy at {MANY} connections: {name} (ms)", seconds * 1000)
    yield Line(f"CPU of the bare view ÷ of a deploy at {MANY} connections", found.to_bare)
    spans = min(timeit.repeat(_spans_of_a_deploy, number=SPANS, repeat=5)) / SPANS
    yield Line(
        "CPU of a deploy's spans where telemetry is off ÷ of the deploy",
        spans / (found.gunicorn + found.application + found.database),
        most=0.01,
        note=f"{spans * 1_000_000:.1f} µs",
    )


def _spans_of_a_deploy() -> None:
    """What the service calls of ``events.tracing`` in a deploy that makes a batch of its own."""
    with tracing.span("request", parent=tracing.parse("")) as request:
        with tracing.span("queue") as queue:
            with tracing.span("turn") as turn:
                turn.describe = print
            queue.link(1, "epoch")
        request.note(
            {"http.request.method": "POST", "http.route": "r", "signals.outcome": "filled"},
            name=f"{'POST'} {'r'}",
        )


def _of_a_round(server: Server, sent: load.Load, seconds: int) -> Used:
    workers, backends = _by_process(_workers(server)), _by_process(_backends(server))
    measured = sent.measure(seconds, MANY)
    requests = measured.rate * seconds
    return Used(
        rate=measured.rate,
        workers=_since(workers, _workers(server)) / requests,
        database=_since(backends, _backends(server)) / requests,
        generator=measured.generator / measured.rate,
    )


def _median(used: Sequence[Used]) -> Used:
    return Used(
        rate=median(one.rate for one in used),
        workers=median(one.workers for one in used),
        database=median(one.database for one in used),
        generator=median(one.generator for one in used),
    )


def _workers(server: Server) -> list[int]:
    """gunicorn's workers."""
    threads = Path(f"/proc/{process_of(server)}/task").glob("*/children")
    return [int(child) for thread in threads for child in thread.read_text().split()]


def _backends(server: Server) -> list[int]:
    """PostgreSQL's processes for this server's connections."""
    with growth.connect(server) as connection:
        return [row[0] for row in connection.execute(BACKENDS)]


def _since(before: Mapping[int, float], processes: Iterable[int]) -> float:
    now = _by_process(processes)
    return sum(seconds - before.get(process, 0) for process, seconds in now.items())


def _by_process(processes: Iterable[int]) -> dict[int, float]:
    """The seconds of CPU of each process that still runs."""
    found = {}
    for process in processes:
        with suppress(FileNotFoundError, ProcessLookupError):
            found[process] = _seconds(process)
    return found


def _seconds(process: int) -> float:
    """User and system time: the 14th and 15th field, counted from the name in brackets."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS
