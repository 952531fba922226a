"""Measures readers of live servers that read a standby: ``python -m tests.bench.replicas READERS``.

Each reader is a desk's. They are spread over three live servers, which read one standby. The
primary, the standby, the service, the live servers and the processes of the readers share one
machine. It prints what the readers cost the primary, when a fan-out has reached the last of them,
and the memory of a reader. The goals are those of a quiet machine.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.bench import load
from tests.bench.line import Line
from tests.bench.live import AT_ONCE, FAN_OUTS, MINT, Stage, resident_memory
from tests.bench.readers import Readers, readers_of
from tests.drills.stage import Postgresql
from tests.patroni import Patroni
from tests.server import Server, free_port, manage, process_of, serving, serving_live

READERS = 30_000
LIVE_SERVERS = 3
SECONDS = 30  # for which the statements of readers without events are counted
MAKE_DESKS = """
from django.db import transaction
from desks.models import Card
from tests.crowd import a_crowd
with transaction.atomic():
    a_crowd(Card.objects.get(pair="{pair}", direction="{direction}"), {count})
"""
NAME = "live"  # of the live servers' sessions at the primary


@dataclass(frozen=True, slots=True)
class Group:
    """The readers of one live server."""

    stage: Stage
    process: int
    desks: list[tuple[str, str]]

    @property
    def readers(self) -> Readers:
        return self.stage.readers


@contextmanager
def cluster(count: int) -> Iterator[tuple[Server, Postgresql, list[Postgresql]]]:
    """The service, the primary with its database, and so many standbys."""
    with tempfile.TemporaryDirectory() as path, ExitStack() as stack:
        folder = Path(path)
        folder.chmod(0o755)  # PostgreSQL runs as another user
        primary = Postgresql(folder, folder / "primary.log")
        primary.start()
        stack.callback(primary.stop)
        primary.execute("CREATE DATABASE signals")
        server = stack.enter_context(serving(idle=0, DATABASE_URL=primary.url))
        standbys = []
        for number in range(2, count + 2):
            name, address = f"standby-{number}", f"127.0.0.{number}"
            standby = Postgresql(folder, folder / f"{name}.log", name, primary, address)
            standby.start()
            stack.callback(standby.stop)
            standbys.append(standby)
        yield server, primary, standbys


def measure(server: Server, primary: Postgresql, standby: Postgresql, count: int) -> Iterator[Line]:
    """The lines of ``count`` readers."""
    with _groups(server, primary, standby, count) as groups:
        before = [resident_memory(group.process) for group in groups]
        began = time.monotonic()
        with _statements(primary) as opening:
            for group in groups:
                opened = group.readers.open(group.desks, AT_ONCE)
                assert opened["statuses"] == {"200": len(group.desks)}, opened
        note = f"{time.monotonic() - began:.0f} s"
        each = opening[0] / LIVE_SERVERS
        yield Line("statements a second of a live server at the primary, opening", each, note=note)
        with _statements(primary) as idle:
            time.sleep(SECONDS)
        each = idle[0] / LIVE_SERVERS
        yield Line("statements a second of a live server at the primary, open", each, most=6)
        slowest = [_fan_out(groups) for _ in range(FAN_OUTS)]
        note = ", ".join(f"{seconds:.2f}" for seconds in slowest)
        yield Line(
            f"a fan-out reaches {count:,} readers, slowest (s)", max(slowest), most=1.5, note=note
        )
        grown = sum(resident_memory(group.process) for group in groups) - sum(before)
        yield Line("memory of a reader (KiB)", grown / count / 1024, most=14)
        reports = [group.readers.report() for group in groups]
        mistakes = sum(
            report["doubled"] + report["wrong"] + sum(abs(n - FAN_OUTS) for n in report["counts"])
            for report in reports
        )
        yield Line("events missed, doubled, or of another desk", mistakes, most=0)


@contextmanager
def _groups(
    server: Server, primary: Postgresql, standby: Postgresql, count: int
) -> Iterator[list[Group]]:
    with ExitStack() as stack:
        engine = stack.enter_context(load.engine(server))
        make = MAKE_DESKS.format(count=count, **server.seed["card"])
        manage(server, "shell", "--no-imports", "-c", make)
        minted = manage(server, "shell", "--no-imports", "-c", MINT.format(count=count))
        desks = [(user_id, token) for user_id, token in json.loads(minted)]
        patroni = Patroni(standby.address, free_port(""))
        stack.callback(patroni.stop)
        settings = {
            "DATABASE_URL": f"{primary.url}?application_name={NAME}",
            "REPLICA_URL": standby.url,
            "PATRONI_PORT": str(patroni.server_port),
        }
        groups = []
        for number in range(LIVE_SERVERS):
            live = stack.enter_context(serving_live(server, **settings))
            readers = stack.enter_context(readers_of(live.base_url))
            stage = Stage(server, live, readers, engine, desks, {})
            groups.append(Group(stage, process_of(live), desks[number::LIVE_SERVERS]))
        yield groups


@contextmanager
def _statements(primary: Postgresql) -> Iterator[list[float]]:
    """Counts the live servers' statements a second at the primary, until the block ends."""
    log = primary.data.parent / "primary.log"
    for setting in ("log_line_prefix = '%a|'", "log_statement = 'all'"):
        primary.execute(f"ALTER SYSTEM SET {setting}")
    primary.execute("SELECT pg_reload_conf()")
    began, size, found = time.monotonic(), log.stat().st_size, list[float]()
    yield found
    lines = log.read_bytes()[size:].splitlines()
    count = sum(line.startswith(f"{NAME}|LOG:".encode()) for line in lines)
    found.append(count / (time.monotonic() - began))


def _fan_out(groups: list[Group]) -> float:
    """Sends a fan-out. Returns the seconds until the last reader has it."""
    position, at = groups[0].stage.signal()

    def last(group: Group) -> float:
        heard = group.readers.heard(position, len(group.desks), seconds=120)
        assert heard["readers"] == len(group.desks), heard
        found: float = heard["last"]
        return found

    with ThreadPoolExecutor(len(groups)) as threads:
        slowest = max(threads.map(last, groups)) - at
    time.sleep(1)  # the machine's other work of a fan-out is over
    return slowest


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else READERS
    print("load of the machine:", *os.getloadavg(), flush=True)
    with cluster(1) as (server, primary, (standby,)):
        for line in measure(server, primary, standby, count):
            goal = "" if line.met is None else " (met)" if line.met else " (missed)"
            print(f"{line.name}: {line.value:.2f}{goal} {line.note}", flush=True)
    print("load of the machine:", *os.getloadavg(), flush=True)


if __name__ == "__main__":
    main()
