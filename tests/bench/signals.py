"""Measures signals. Each function gives some lines of the table."""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from tests import shared_store
from tests.bench import batches, growth, load
from tests.bench.line import Effort, Line, Round, a_second, bare_view, rates, ratio
from tests.bench.load import CONNECTIONS, MANY
from tests.server import Server, serving, serving_beside

# The least ratios of deploy and push to the bare view, by connections.
GOALS = {CONNECTIONS: (0.45, 0.42), MANY: (0.52, 0.52)}


def pushes(server: Server, effort: Effort) -> Iterator[Line]:
    """Signals and refusals, compared with a bare view with one INSERT."""
    with bare_view(server) as beside:
        loads = {
            "bare": load.insert(beside),
            "deploy": load.deploy(server),
            "push": load.push(server),
        }
        refused = {"checksum": load.bad_checksum(server), "stale": load.stale_timestamp(server)}
        measured = {
            CONNECTIONS: load.interleaved(loads | refused, effort),
            MANY: load.interleaved(loads, effort, MANY),
        }
    for connections, rounds in measured.items():
        yield from _to_bare_view(rounds, connections)
    deploys = rates(measured[CONNECTIONS]["deploy"])
    for name, key in (("bad checksum", "checksum"), ("stale timestamp", "stale")):
        yield Line(
            f"refusal, {name} ÷ an accepted deploy",
            ratio(rates(measured[CONNECTIONS][key]), deploys),
            least=2,
            note=a_second(measured[CONNECTIONS][key]),
        )
    for connections, most in ((CONNECTIONS, 4), (MANY, 3)):
        yield _slowest(measured[connections]["deploy"], connections, most)
    yield Line(
        "the load generator's share of one core, at most",
        max(one.generator for of in measured.values() for rounds in of.values() for one in rounds),
        most=0.5,
    )


def _to_bare_view(rounds: Mapping[str, Sequence[Round]], connections: int) -> Iterator[Line]:
    bare_rates = rates(rounds["bare"])
    least_deploys, least_pushes = GOALS[connections]
    yield Line(
        f"deploy ÷ bare view with one INSERT (requests a second) at {connections} connections",
        ratio(rates(rounds["deploy"]), bare_rates),
        least=least_deploys,
        note=f"{a_second(rounds['deploy'])}, bare view {a_second(rounds['bare'])}",
    )
    yield Line(
        f"signed automation push ÷ the same at {connections} connections",
        ratio(rates(rounds["push"]), bare_rates),
        least=least_pushes,
        note=a_second(rounds["push"]),
    )


def _slowest(deploys: Sequence[Round], connections: int, most: float) -> Line:
    return Line(
        f"p99 ÷ p50 of a deploy at {connections} connections",
        statistics.median(one.p99 / one.p50 for one in deploys),
        most=most,
        note=f"p50 {statistics.median(one.p50 for one in deploys) / 1000:.1f} ms",
    )


def commit_seconds(server: Server, effort: Effort) -> float:
    """The cost of a commit: one writer that changes one row again and again."""
    times = []
    with growth.connect(server) as connection:
        for _ in range(100 * effort.rounds):
            began = time.perf_counter()
            connection.execute("UPDATE events_head SET epoch = epoch")
            times.append(time.perf_counter() - began)
    return statistics.median(times)


def statements(server: Server) -> Iterator[Line]:
    """The SQL statements of each kind of signal, including BEGIN and COMMIT."""
    loads = {
        "deploy": load.deploy(server),
        "push": load.push(server),
        "fan-out": load.fan_out(server),
        "bad checksum": load.bad_checksum(server),
        "stale timestamp": load.stale_timestamp(server),
    }
    asked = json.dumps({name: asdict(one) for name, one in loads.items()})
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.count"],
        env=server.environment,
        input=asked,
        capture_output=True,
        text=True,
        check=True,
    )
    goals = {"deploy": 5, "push": 5, "bad checksum": 0, "stale timestamp": 0}
    for name, count in json.loads(done.stdout).items():
        yield Line(f"SQL statements: {name}", count, most=goals.get(name))


def fan_outs(ten: Server, grown: Server, effort: Effort) -> Iterator[Line]:
    """A fan-out to ten desks, to all desks of the large service, and with a row for each desk."""
    measured = load.interleaved({"ten": load.fan_out(ten), "grown": load.fan_out(grown)}, effort, 1)
    times = [one.p50 / 1_000_000 for one in measured["grown"]]
    yield Line(
        f"fan-out to {effort.desks:,} desks ÷ fan-out to 10 (time)",
        ratio(times, [one.p50 / 1_000_000 for one in measured["ten"]]),
        most=1.3,
        note=f"{statistics.median(times) * 1000:.2f} ms",
    )
    copying = [_copy(grown) for _ in range(effort.rounds)]
    yield Line(
        "the same ÷ copying it by INSERT … SELECT into two columns (time)",
        ratio(times, copying),
        most=1 / 200,
        note=f"copying {statistics.median(copying):.2f} s",
    )


def limits(server: Server, effort: Effort) -> Iterator[Line]:
    """The cost of limits."""
    counted = {"LIMIT_PLATFORM": "10000000/minute", "LIMITS_URL": shared_store.URL}
    with serving_beside(server, **counted) as counting:
        measured = load.interleaved(
            {"off": load.deploy(server), "on": load.deploy(counting)},
            effort,
        )
    store = "Redis" if shared_store.URL else "memory"
    yield Line(
        f"deploy with its limit counted in {store} ÷ without",
        ratio(rates(measured["on"]), rates(measured["off"])),
    )


def embedded(effort: Effort, folder: str) -> Iterator[Line]:
    """Signals on SQLite, the default database."""
    url = f"sqlite:///{folder}/bench.sqlite3"
    with serving(ready=effort.ready, DATABASE_URL=url) as server, bare_view(server) as beside:
        loads = {"bare": load.insert(beside), "deploy": load.deploy(server)}
        rounds = load.interleaved(loads, effort)
        found = batches.receive(server, effort)
    yield Line(
        f"on SQLite: deploy ÷ its own bare view with one INSERT at {CONNECTIONS} connections",
        ratio(rates(rounds["deploy"]), rates(rounds["bare"])),
        least=0.6,
        note=f"{a_second(rounds['deploy'])}, bare view {a_second(rounds['bare'])}",
    )
    yield from batches.lock(found, " on SQLite")
    yield batches.statements(found, " on SQLite", most=8)


def _copy(server: Server) -> float:
    """The seconds of a fan-out that writes a row for each desk."""
    with growth.connect(server) as connection:
        connection.execute("DROP TABLE IF EXISTS bench_copy")
        connection.execute("CREATE TABLE bench_copy (position bigint, desk_id bigint)")
        began = time.perf_counter()
        connection.execute(
            "INSERT INTO bench_copy SELECT 1, desk_id FROM desks_election WHERE closed IS NULL"
        )
        return time.perf_counter() - began
