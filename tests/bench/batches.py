"""Measures batches: signals that share one turn at the log. Each function gives some lines."""

import json
import re
import secrets
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import httpx2

from tests.bench import load
from tests.bench.line import Effort, Line
from tests.bench.load import CONNECTIONS, MANY
from tests.server import Server, serving_beside

BATCHES, LOCK = "signals_batch_size", "signals_lock_seconds"  # at /metrics
THREADS = (1, 16)  # one sender, and as many as a process has threads
BATCH = 32
SIZES = (1, 8, 16, BATCH)
CEILING = 4500  # signals a second that one process's lock must allow, in batches of 32
SAMPLE = re.compile(r"^(\w+?)(?:{.*})? (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Asked:
    """What ``tests.bench.intake`` receives: which signals, in how many threads, in which batches.

    ``seconds`` is the length of a round.
    """

    user_id: str
    body: dict[str, object]
    threads: list[int]
    sizes: list[int]
    rounds: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Received:
    """A round: signals a second, signals in a turn, and seconds that a turn holds the lock."""

    rate: float
    batch: float
    locked: float


@dataclass(frozen=True, slots=True)
class Turn:
    """A batch of exactly this size, and the seconds that it held the lock."""

    size: int
    locked: float


@dataclass(frozen=True, slots=True)
class Found:
    """What ``tests.bench.intake`` measured; ``statements`` is the number of the largest batch."""

    threads: dict[int, list[Received]]
    turns: list[Turn]
    statements: int

    def medians(self) -> dict[int, float]:
        """The seconds that a batch of each size held the lock."""
        sizes = dict.fromkeys(turn.size for turn in self.turns)
        return {
            size: statistics.median(turn.locked for turn in self.turns if turn.size == size)
            for size in sizes
        }


@dataclass(frozen=True, slots=True)
class Turns:
    """The turns of all processes of a server: their number, their signals, the lock's seconds."""

    count: float
    signals: float
    locked: float

    @classmethod
    def of(cls, server: Server) -> "Turns":
        """Reads ``/metrics``."""
        headers = {"Authorization": f"Bearer {server.environment['METRICS_TOKEN']}"}
        page = httpx2.get(f"{server.base_url}/metrics", headers=headers, trust_env=False)
        page.raise_for_status()
        samples = {name: float(value) for name, value in SAMPLE.findall(page.text)}
        names = (f"{BATCHES}_count", f"{BATCHES}_sum", f"{LOCK}_sum")
        return cls(*(samples.get(name, 0.0) for name in names))

    def since(self, before: "Turns") -> "Turns":
        return Turns(
            self.count - before.count, self.signals - before.signals, self.locked - before.locked
        )


def under_load(server: Server, effort: Effort) -> Iterator[Line]:
    """The size of a batch, and the lock's time for a signal, while deploys are sent.

    On a server of its own, because counting for ``/metrics`` costs time.
    """
    with serving_beside(server, METRICS_TOKEN=secrets.token_hex(32)) as counting:
        for connections in (CONNECTIONS, MANY):
            before = Turns.of(counting)
            for _ in range(effort.rounds):
                load.deploy(counting).measure(effort.seconds, connections)
            turns = Turns.of(counting).since(before)
            yield Line(
                f"deploys in a turn at the log at {connections} connections, mean",
                turns.signals / turns.count,
                note=f"the lock is held {turns.locked / turns.count * 1000:.2f} ms for a turn, "
                f"{turns.locked / turns.signals * 1000:.3f} ms for a signal",
            )


def lock(found: Found, where: str = "") -> Iterator[Line]:
    """What one process reaches without HTTP, and the lock's time for batches of each size."""
    for threads, rounds in found.threads.items():
        yield Line(
            f"deploys a second of one process without HTTP{where}, {threads} threads",
            statistics.median(one.rate for one in rounds),
            note=f"{statistics.median(one.batch for one in rounds):.1f} in a turn that holds the "
            f"lock for {statistics.median(one.locked for one in rounds) * 1000:.2f} ms",
        )
    for size, seconds in found.medians().items():
        yield Line(
            f"signals a second at which the lock of one process binds{where}, batches of {size}",
            size / seconds,
            least=CEILING if size == BATCH and not where else None,
            note=f"held {seconds * 1000:.2f} ms, {seconds / size * 1000:.3f} ms for a signal",
        )


def statements(found: Found, where: str = "", *, most: int) -> Line:
    """The SQL statements of a batch, including BEGIN and COMMIT."""
    return Line(f"SQL statements: a batch of {BATCH} deploys{where}", found.statements, most=most)


def receive(server: Server, effort: Effort) -> Found:
    """Runs ``tests.bench.intake`` on a server's database."""
    asked = Asked(
        user_id=server.seed["desks"][0]["userId"],
        body=load.signal(server.seed["card"]),
        threads=list(THREADS),
        sizes=list(SIZES),
        rounds=effort.rounds,
        seconds=effort.seconds,
    )
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.intake"],
        env={**server.environment, "THREADS": str(max(asked.threads))},
        input=json.dumps(asdict(asked)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    return Found(
        {
            int(count): [Received(**one) for one in rounds]
            for count, rounds in found["threads"].items()
        },
        [Turn(**turn) for turn in found["turns"]],
        found["statements"],
    )
