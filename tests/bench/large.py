"""Measures what becomes slower while the log grows: 100,000 events and 10,000,000 in one run.

    TEST_DATABASE_URL=postgres://… TEST_REDIS_URL=redis://… python -m tests.bench.large [--events N]

Both logs are in databases of their own, which end with the run. Requests alternate between them.
Prints tables, and writes the plan of every statement into the folder of ``--plans``. The larger
database and its dump take 35 GB, and the run takes an hour and more.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench import history, report
from tests.bench.growth import connect
from tests.server import ROOT, Server, serving

FEW, MANY, NEXT = 100_000, 10_000_000, 100_000_000  # events
READY = 1000  # desks
ROUNDS = 15
MOST = 1.2  # the goal for the ratio of the times
GOALS = ("deploy", "signed push", "fan-out", "feed", "activity", "control, log", "bot board")
MIB = 2**20


class Client:
    """The service in a process of its own (``tests.bench.client``)."""

    def __init__(self, process: "subprocess.Popen[str]", log: Path) -> None:
        self._process, self._log = process, log

    def __call__(self, command: str, **parameters: object) -> Any:
        assert self._process.stdin
        assert self._process.stdout
        print(json.dumps([command, parameters]), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        assert answer, f"{command} failed: {self._log.read_text()[-3000:]}"
        return json.loads(answer)


@contextmanager
def asking(server: Server) -> Iterator[Client]:
    command = [sys.executable, "-m", "tests.bench.client"]
    # Without PYTHONPATH, which hides the packages of the tests from the service.
    environment = {**server.environment, "PYTHONPATH": "", "SEED": json.dumps(server.seed)}
    pipe = subprocess.PIPE
    with (
        server.log.with_name("log-client").open("a") as log,
        subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe, stderr=log, text=True
        ) as process,
    ):
        try:
            yield Client(process, Path(log.name))
        finally:
            process.kill()


def grow(server: Server, events: int) -> None:
    with asking(server) as client:
        head = client("copied")
    history.lengthen(server, head, events)


# --- Requests -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Request:
    """Medians of one kind of request on each log, in milliseconds, and of the ratios of its rounds.

    ``took`` and ``waited`` are the times of the processor and of the clock, on the shorter log and
    on the longer one. ``ratio`` compares the first, which other work of the machine changes less.
    """

    kind: str
    took: tuple[float, float]
    waited: tuple[float, float]
    ratio: float


def requests(few: Client, many: Client, rounds: int) -> Iterator[Request]:
    """Each kind of request, alternately on both. The first of each is not counted."""
    kinds = many("kinds")
    assert kinds == few("kinds")
    for kind in kinds:
        pairs = [(few("ask", kind=kind), many("ask", kind=kind)) for _ in range(rounds + 1)][1:]
        ratio = statistics.median(other[1] / one[1] for one, other in pairs)
        (waited, took), (waited_more, took_more) = (
            map(statistics.median, zip(*rounds_of_one, strict=True))
            for rounds_of_one in zip(*pairs, strict=True)
        )
        yield Request(kind, (took, took_more), (waited, waited_more), ratio)


def plans(client: Client, file: Path) -> None:
    """Writes the plan of each statement of each kind of request."""
    with file.open("w") as written:
        for kind in client("kinds"):
            print(f"\n## {kind}", file=written)
            for statement, plan in client("plans", kind=kind):
                print(f"\n{statement}\n\n{plan}", file=written)


# --- Commands -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Command:
    """A command: seconds, seconds of the processor in it, and the most memory in bytes.

    The memory of a command that takes less than this process is this process's.
    """

    name: str
    seconds: float
    processor: float
    memory: int


def commands(server: Server, folder: Path) -> Iterator[Command]:
    """The audit, one that goes on where it ended, a dump, and a restore of it."""
    url = server.environment["DATABASE_URL"].replace("postgres://", "postgresql://", 1)
    manage = [sys.executable, "manage.py"]
    proof, dump, other = folder / "proof", folder / "dump", f"{url}_restored"
    yield _run("audit, first", [*manage, "audit", "--continue", str(proof)], server)
    yield _run("audit, continued", [*manage, "audit", "--continue", str(proof)], server)
    yield _run("pg_dump", ["pg_dump", "--format=custom", f"--file={dump}", url], server)
    with connect(server) as connection:
        name = connection.info.dbname + "_restored"
        connection.execute(f'CREATE DATABASE "{name}"')  # type: ignore[call-overload]
        try:
            restore = ["pg_restore", "--no-owner", "--exit-on-error", "--jobs=2"]
            yield _run("pg_restore", [*restore, f"--dbname={other}", str(dump)], server)
        finally:
            connection.execute(f'DROP DATABASE "{name}"')  # type: ignore[call-overload]


def _run(name: str, command: Sequence[str], server: Server) -> Command:
    """Runs a command. Fails if it does."""
    print(f"{name} begins", file=sys.stderr, flush=True)
    began = time.monotonic()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            command, cwd=ROOT, env=server.environment, stdout=said, stderr=said
        )
        _, status, used = os.wait4(process.pid, 0)
        took = time.monotonic() - began
        said.seek(0)
        assert not status, said.read().decode()
    return Command(name, took, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)


def disk(server: Server) -> dict[str, int]:
    """The bytes of the database, of the log's tables, and of each of their indexes."""
    with connect(server) as connection:
        rows = connection.execute(
            "SELECT 'database', pg_database_size(current_database()) UNION ALL "
            "SELECT relname, pg_table_size(oid) FROM pg_class "
            "WHERE relname = ANY(%(tables)s) UNION ALL "
            "SELECT indexrelid::regclass::text, pg_relation_size(indexrelid) FROM pg_index "
            "WHERE indrelid::regclass::text = ANY(%(tables)s)",
            {"tables": list(history.TABLES)},
        ).fetchall()
    return dict(rows)


# --- Tables ---------------------------------------------------------------------------------------


def request_table(found: Sequence[Request], few: int, many: int) -> str:
    rows = [
        f"| request | {few:,} events, ms | {many:,} events, ms | ratio | | by the clock, ms |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for one in found:
        has_goal = one.kind.startswith(GOALS)
        met = ("met" if one.ratio <= MOST else "**not met**") if has_goal else ""
        took = " | ".join(f"{of_one:.1f}" for of_one in one.took)
        waited = " and ".join(f"{of_one:.0f}" for of_one in one.waited)
        rows.append(f"| {one.kind} | {took} | {one.ratio:.2f} | {met} | {waited} |")
    return "\n".join(rows)


def command_table(few: Sequence[Command], many: Sequence[Command], events: tuple[int, int]) -> str:
    """Seconds, processor and memory at both sizes, and the line through both at ``NEXT``."""
    rows = [
        f"| command | {events[0]:,} events, s | {events[1]:,} events, s | processor, s | "
        f"memory, MiB | {NEXT:,} events, estimated, s |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for one, other in zip(few, many, strict=True):
        estimated = _line(events, (one.seconds, other.seconds))
        rows.append(
            f"| {one.name} | {one.seconds:,.0f} | {other.seconds:,.0f} | {other.processor:,.0f} | "
            f"{one.memory / MIB:,.0f} and {other.memory / MIB:,.0f} | {estimated:,.0f} |"
        )
    return "\n".join(rows)


def disk_table(few: dict[str, int], many: dict[str, int], events: tuple[int, int]) -> str:
    rows = [
        f"| on disk | {events[0]:,} events, MiB | {events[1]:,} events, MiB | bytes an event | "
        f"{NEXT:,} events, estimated, GiB |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, size in many.items():
        estimated = _line(events, (few[name], size)) / MIB / 1024
        rows.append(
            f"| {name} | {few[name] / MIB:,.0f} | {size / MIB:,.0f} | {size / events[1]:,.0f} | "
            f"{estimated:,.0f} |"
        )
    return "\n".join(rows)


def _line(events: tuple[int, int], found: tuple[float, float]) -> float:
    """What the straight line through two measurements says of ``NEXT`` events."""
    slope = (found[1] - found[0]) / (events[1] - events[0])
    return found[1] + slope * (NEXT - events[1])


def measure(few: Server, many: Server, events: tuple[int, int], rounds: int, folder: Path) -> int:
    """Prints the tables. Returns the exit status: 1 if a goal is not met."""
    with asking(few) as one, asking(many) as other:
        found = []
        for request in requests(one, other, rounds):
            print(request, file=sys.stderr, flush=True)
            found.append(request)
        plans(one, folder / f"plans-{events[0]}.txt")
        plans(other, folder / f"plans-{events[1]}.txt")
    print(request_table(found, *events), flush=True)
    print(f"\nThe load was {os.getloadavg()[0]:.1f} at the end.", flush=True)
    return int(any(one.ratio > MOST for one in found if one.kind.startswith(GOALS)))


def weigh(few: Server, many: Server, events: tuple[int, int]) -> None:
    """Prints the tables of commands and of the disk."""
    print("", disk_table(disk(few), disk(many), events), sep="\n", flush=True)
    taken = []
    for server in (few, many):
        with tempfile.TemporaryDirectory() as folder:
            of_one = []
            for command in commands(server, Path(folder)):
                print(command, file=sys.stderr, flush=True)
                of_one.append(command)
            taken.append(of_one)
    print("", command_table(taken[0], taken[1], events), sep="\n", flush=True)
    print(f"\nThe load was {os.getloadavg()[0]:.1f} at the end.", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=MANY, help="of the larger log")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of the requests")
    parser.add_argument("--plans", type=Path, default=Path("test-results"), help="a folder")
    asked = parser.parse_args()
    address = os.environ.get("TEST_DATABASE_URL", "")
    if not address.startswith("postgres"):
        sys.exit("TEST_DATABASE_URL names no PostgreSQL: the benchmark makes its databases there.")
    asked.plans.mkdir(exist_ok=True)
    events = (FEW, asked.events)
    with ExitStack() as servers:
        few, many = (servers.enter_context(serving(ready=READY)) for _ in events)
        for server, count in zip((few, many), events, strict=True):
            grow(server, count)
        print(
            *report.machine(address.replace("postgres://", "postgresql://", 1)).values(), sep=", "
        )
        failed = measure(few, many, events, asked.rounds, asked.plans)
        weigh(few, many, events)
    return failed


if __name__ == "__main__":
    sys.exit(main())
