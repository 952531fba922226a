"""Live servers read the standbys of the cluster while it fails (part of ``make drills``).

    python -m tests.drills.cluster_replicas [FAULT …]

A reader at each of two live servers comes back by its cursor. After each fault it must have got
every event of the log once, in order, and nothing else. Without root it does not run.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

import django
import httpx2
import psycopg

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
django.setup()

from config.replica.patroni import IN_QUORUM  # noqa: E402
from tests.client import HOOK, bearer  # noqa: E402
from tests.drills.clients import Listener  # noqa: E402
from tests.drills.cluster import ASKING, Cluster, Machine, cluster, missing  # noqa: E402
from tests.drills.stage import Stage, stage_on, wait_until  # noqa: E402
from tests.server import Server, serving_live  # noqa: E402
from tests.signals.bodies import fanout  # noqa: E402

CUSTOMERS = 1
# Six events that only the primary shows once it starts again: no standby confirms them.
HAPPEN = """
WITH head AS (UPDATE events_head SET position = position + 6 RETURNING position, at)
INSERT INTO events_event (position, kind, at, content)
SELECT position - number, 'desk.connected', at, '{"signal": null, "data": {}}'
FROM head, generate_series(0, 5) AS number"""
POSITIONS = "SELECT position FROM events_event WHERE position > %s ORDER BY position"
TAGS = "/etc/patroni/tags.yml"


class Reader(Listener):
    """Follows the feed at a live server."""

    def __init__(self, live: Server) -> None:
        super().__init__(live.base_url, live.seed["readToken"])
        self.live = live

    @property
    def node(self) -> str:
        """The address of the node that its live server reads; empty if it reads none."""
        lines = [line for line in self.live.log.read_text().splitlines() if "is now: " in line]
        return lines[-1].partition("host='")[2].partition("'")[0] if lines else ""


@dataclass(frozen=True, slots=True)
class Scene:
    """The service on a cluster, and the readers at its live servers, which began at ``start``."""

    stage: Stage
    readers: list[Reader]
    start: int

    @property
    def database(self) -> Cluster:
        found: Cluster = self.stage.postgresql
        return found

    @property
    def primary(self) -> Machine:
        return self.database.machine(self.database.leader())

    def push(self, nonce: str) -> int:
        """The status of the answer; 0 without any."""
        seed = self.stage.cast["seed"]
        body = fanout(nonce=nonce, **seed["card"])
        url = f"{self.stage.web.base_url}{HOOK}"
        with suppress(httpx2.HTTPError):
            token = bearer(seed["platformToken"])
            with httpx2.Client(timeout=60, trust_env=False) as client:
                return client.post(url, json=body, headers=token).status_code
        return 0

    def write(self, name: str) -> None:
        """Pushes until one is answered, and waits until every reader has it."""
        count = iter(range(1000))
        wait_until(lambda: self.push(f"{name}-{next(count)}") == 200, "an answer")
        self.catch_up()

    def catch_up(self) -> None:
        log = self.log()

        def have_all() -> bool:
            return all(reader.positions[-1:] == log[-1:] for reader in self.readers)

        wait_until(have_all, "the last event at every reader")

    def log(self) -> list[int]:
        """The positions of the log since the readers began, once there is a primary."""
        found: list[int] = []

        def is_read() -> bool:
            with suppress(psycopg.OperationalError), psycopg.connect(self.database.url) as primary:
                found[:] = [row[0] for row in primary.execute(POSITIONS, [self.start])]
                return True
            return False

        wait_until(is_read, "a primary")
        return found

    def machine_at(self, address: str) -> Machine:
        (found,) = [each for each in self.database.machines if each.address == address]
        return found

    def wrong(self) -> list[str]:
        """What readers got that is not the log, and what they were told."""
        self.catch_up()
        log = self.log()
        found = [f"{reader.odd}" for reader in self.readers if reader.odd]
        for reader in self.readers:
            if reader.positions != log:
                found.append(f"{reader.live.base_url} got {reader.positions} of {log}")
        return found


# --- The faults -----------------------------------------------------------------------------------


def an_unanswered_event_is_kept(scene: Scene) -> None:
    """One standby gets it, and its confirmation does not reach the primary, which is killed."""
    reader, primary = scene.readers[0], scene.primary
    shows = scene.machine_at(reader.node)
    (delayed,) = [each for each in scene.database.standbys() if each is not shows]
    before = len(reader.positions)
    delayed.cut()
    shows.shell(f"ip route add blackhole {primary.address}/32")
    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(scene.push, "unanswered")
        wait_until(lambda: len(reader.positions) > before, "the event")
        shown = reader.positions[before]
        assert not answer.done(), "It was answered."
        primary.kill()
        delayed.mend()
        shows.shell(f"ip route delete blackhole {primary.address}/32")
        scene.database.wait_for_another(primary.name)
        print(
            f"shown at {shows.name} before any answer: {shown}; answer {answer.result()}; "
            f"primary is now {scene.database.leader()}",
            flush=True,
        )
    assert shown in scene.log(), "It is lost."
    primary.start()
    primary.start_units()
    scene.database.wait_until_whole()


def a_primary_that_was_cut_off_shows_nobody_its_own_rows(scene: Scene) -> None:
    """They are visible there until it is rewound."""
    primary, own = scene.primary, scene.log()[-1] + 6
    primary.cut()
    run = "nohup runuser -u postgres -- psql signals >/run/own 2>&1 <<END &"
    primary.shell(f"{run}{HAPPEN};\nEND\n")
    scene.database.wait_for_another(primary.name)
    primary.mend()
    states: list[tuple[int, int]] = []

    def is_in_the_quorum() -> bool:
        states.append((_head_at(primary), _status_of(primary)))
        return states[-1][1] == 200

    wait_until(is_in_the_quorum, "the return of the primary")
    seen = [status for head, status in states if head == own]
    print(f"   its own rows were visible {len(seen)} times; Patroni said {set(seen)}", flush=True)
    assert seen
    assert 200 not in seen
    scene.database.wait_until_whole()


def _status_of(machine: Machine) -> int:
    """What its Patroni says of the node; 0 if it does not answer."""
    with suppress(httpx2.HTTPError):
        url = f"http://{machine.address}:8008{IN_QUORUM}"
        return httpx2.get(url, timeout=ASKING, trust_env=False).status_code
    return 0


def _head_at(machine: Machine) -> int:
    """The head of the log at this node; 0 if it does not answer."""
    url = f"postgres://signals:the-password@{machine.address}:5432/signals"
    with suppress(psycopg.Error), psycopg.connect(url, connect_timeout=ASKING) as here:
        (position,) = here.execute("SELECT position FROM events_head").fetchone() or (0,)
        return int(position)
    return 0


def a_standby_outside_of_the_quorum_serves_no_reader(scene: Scene) -> None:
    node = scene.readers[0].node
    machine = scene.machine_at(node)
    patroni = machine.units["patroni"].pid
    machine.shell(f"echo 'tags: {{nosync: true}}' >{TAGS}")
    os.kill(patroni, signal.SIGHUP)
    wait_until(lambda: scene.readers[0].node not in ("", node), "another node")
    scene.write("nosync")
    machine.shell(f"rm {TAGS}")
    os.kill(patroni, signal.SIGHUP)
    scene.database.wait_until_whole()


FAULTS: tuple[Callable[[Scene], None], ...] = (
    an_unanswered_event_is_kept,
    a_primary_that_was_cut_off_shows_nobody_its_own_rows,
    a_standby_outside_of_the_quorum_serves_no_reader,
)


@contextmanager
def scene() -> Iterator[Scene]:
    """The service on a cluster, with two live servers that prefer its nodes in opposite orders."""
    with ExitStack() as stack:
        database = stack.enter_context(cluster())
        stage = stack.enter_context(stage_on(database, database.url, CUSTOMERS, 0))
        served = Server(stage.web.base_url, stage.cast["seed"], stage.environment, stage.log)
        addresses = [f"{machine.address}:5432" for machine in database.machines]
        readers = []
        for order in (addresses, addresses[::-1]):
            url = database.url.replace(",".join(addresses), ",".join(order))
            live = stack.enter_context(serving_live(served, REPLICA_URL=url))
            readers.append(Reader(live))
            stack.callback(readers[-1].stop)
        with psycopg.connect(database.url) as primary:
            (start,) = primary.execute("SELECT position FROM events_head").fetchone() or ()
        time.sleep(1)
        yield Scene(stage, readers, start)


def main(*chosen: str) -> int:
    if lacks := missing():
        print(f"The drill of the live servers on replicas did not run. {lacks}")
        return 0
    status = 0
    with scene() as here:
        for fault in FAULTS:
            if chosen and fault.__name__ not in chosen:
                continue
            name = fault.__name__.replace("_", " ")
            try:
                here.write(f"before-{fault.__name__}"[:40])
                fault(here)
                here.write(f"after-{fault.__name__}"[:40])
                found = here.wrong()
            except (AssertionError, httpx2.HTTPError, psycopg.Error) as error:
                found = [f"{type(error).__name__}: {error}"]
            status |= bool(found)
            print(f"{name}: {found or 'well'}", flush=True)
        if status:
            for reader in here.readers:
                print(reader.live.log.read_text()[-3000:])
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
