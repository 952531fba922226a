"""Measures signals. Each function gives some lines of the table."""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict

from tests import shared_store
from tests.bench import growth, load, lock
from tests.bench.line import BARE, MAKE_BARE_TABLE, Effort, Line, a_second, rates, ratio
from tests.server import Server, manage, serving, serving_beside


def pushes(server: Server, effort: Effort) -> Iterator[Line]:
    """Signals and refusals, compared with a bare view with one INSERT."""
    with serving_beside(server, **BARE) as beside:
        manage(beside, "shell", "--no-imports", "-c", MAKE_BARE_TABLE)
        measured = load.interleaved(
            {
                "bare": load.insert(beside),
                "deploy": load.deploy(server),
                "push": load.push(server),
                "checksum": load.bad_checksum(server),
                "stale": load.stale_timestamp(server),
            },
            effort,
        )
    bare_rates, deploys = rates(measured["bare"]), rates(measured["deploy"])
    base = f"bare view {a_second(measured['bare'])}"
    yield Line(
        "deploy ÷ bare view with one INSERT (requests a second)",
        ratio(deploys, bare_rates),
        least=0.45,
        note=f"{a_second(measured['deploy'])}, {base}",
    )
    yield Line(
        "signed automation push ÷ the same",
        ratio(rates(measured["push"]), bare_rates),
        least=0.42,
        note=a_second(measured["push"]),
    )
    for name, key in (("bad checksum", "checksum"), ("stale timestamp", "stale")):
        yield Line(
            f"refusal, {name} ÷ an accepted deploy",
            ratio(rates(measured[key]), deploys),
            least=3,
            note=a_second(measured[key]),
        )
    yield Line(
        "p99 ÷ p50 of a deploy at 16 connections",
        statistics.median(one.p99 / one.p50 for one in measured["deploy"]),
        most=4,
        note=f"p50 {statistics.median(one.p50 for one in measured['deploy']) / 1000:.1f} ms",
    )


def commits(server: Server, effort: Effort) -> Iterator[Line]:
    """The cost of a commit: one writer that inserts one row after the other."""
    times = []
    with growth.connect(server) as connection:
        for _ in range(100 * effort.rounds):
            began = time.perf_counter()
            connection.execute("UPDATE events_head SET epoch = epoch")
            times.append(time.perf_counter() - began)
    yield Line("a commit of one row, by a single writer (ms)", statistics.median(times) * 1000)


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


def workers(server: Server, effort: Effort) -> Iterator[Line]:
    """Deploys a second with one, two and four workers, and the use of the log's lock."""
    with ExitStack() as servers:
        one, four = (
            servers.enter_context(serving_beside(server, WEB_CONCURRENCY=count))
            for count in ("1", "4")
        )
        loads = {1: load.deploy(one), 2: load.deploy(server), 4: load.deploy(four)}
        measured = load.interleaved(loads, effort)
        held = {count: lock.watch(server, asked, effort.seconds) for count, asked in loads.items()}
    for count, rounds in measured.items():
        yield Line(
            f"deploys a second at {count} workers ÷ at 1",
            ratio(rates(rounds), rates(measured[1])),
            note=f"{a_second(rounds)}; {held[count]}",
        )
    allowed = {
        count: statistics.median(rates(rounds)) / held[count].share
        for count, rounds in measured.items()
    }
    yield Line(
        "deploys a second at which the log's lock binds: rate ÷ share of the time that it is held",
        round(allowed[1]),
        note=", ".join(f"{most:,.0f} at {count} workers" for count, most in allowed.items()),
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
    with ExitStack() as servers:
        url = f"sqlite:///{folder}/bench.sqlite3"
        server = servers.enter_context(serving(ready=effort.ready, DATABASE_URL=url))
        beside = servers.enter_context(serving_beside(server, **BARE))
        manage(beside, "shell", "--no-imports", "-c", MAKE_BARE_TABLE)
        loads = {"bare": load.insert(beside), "deploy": load.deploy(server)}
        measured = load.interleaved(loads, effort)
    yield Line(
        "on SQLite: deploy ÷ its own bare view with one INSERT",
        ratio(rates(measured["deploy"]), rates(measured["bare"])),
        least=0.45,
        note=f"{a_second(measured['deploy'])}, bare view {a_second(measured['bare'])}",
    )


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
