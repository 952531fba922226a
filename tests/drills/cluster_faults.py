"""Takes machines of the database's cluster away under load (part of ``make drills``).

    python -m tests.drills.cluster_faults [TIMES [FAULT …]]

Prints a table and writes it into SECURITY.md. The exit status is 1 if anything accepted was lost,
done twice or half done, or if an outage was longer than its goal. Without root it does not run.
"""

import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
django.setup()

from tests.drills.clients import Book  # noqa: E402 - what signs for them is the product's own
from tests.drills.cluster import Cluster, Machine, cluster, missing  # noqa: E402
from tests.drills.drill import Fault, Row, drill  # noqa: E402
from tests.drills.machine import blocks  # noqa: E402
from tests.drills.stage import Stage, stage_on  # noqa: E402
from tests.drills.table import write  # noqa: E402

BEGIN = "<!-- make drills writes the cluster's table -->\n"
CUSTOMERS = 3
TIMES = 1  # of each
TAKEN_OVER = 1  # second: the time between a cut and its mending, after another primary was there
ETCD_AWAY = 30  # seconds, more than ttl
PID = "$(head -n 1 /var/lib/postgresql/15/signals/postmaster.pid)"
POSTMASTER = f"kill -9 {PID}"
CERTIFICATE = "nodes.crt nodes.key"
# Fails unless etcd of each node takes and shows the certificate that this node has.
SHOWS_IT = """cd /etc/patroni
for node in db1 db2 db3; do
    curl --silent --fail --cacert nodes.crt --cert nodes.crt --key nodes.key "https://$node:2379/health"
done"""
RUNNING = f"/proc/{PID}/exe --version"


# Each causes a fault and returns when it began, once the cluster is whole again. So what the old
# primary does when it comes back belongs to the fault.


def the_machine_of_the_primary_is_killed(stage: Stage, book: Book) -> float:
    database: Cluster = stage.postgresql
    return _killed(database, database.machine(database.leader()))


def the_primary_is_cut_off(stage: Stage, book: Book) -> float:
    """Its PostgreSQL, Patroni and etcd run on, and reach nobody."""
    database: Cluster = stage.postgresql
    leader = database.leader()
    machine, began = database.machine(leader), time.monotonic()
    machine.cut()
    database.wait_for_another(leader)
    time.sleep(TAKEN_OVER)
    machine.mend()
    return _whole(database, began)


def postgresql_of_the_primary_is_killed(stage: Stage, book: Book) -> float:
    database: Cluster = stage.postgresql
    leader = database.leader()
    machine, began = database.machine(leader), time.monotonic()
    machine.shell(POSTMASTER)
    database.wait_for_another(leader)
    return _whole(database, began)


def a_minor_release_is_installed(stage: Stage, book: Book) -> float:
    """With the lines of the document, at one node after the other, until each runs the release.

    The primary is switched meanwhile.
    """
    database: Cluster = stage.postgresql
    before, began = _releases(database), time.monotonic()
    primary = database.machine(database.leader())
    for machine in database.standbys():
        machine.shell(blocks()["cluster: upgrade a standby"])
    said = primary.shell(blocks()["cluster: upgrade the primary"])
    assert database.leader() != primary.name
    running = _releases(database)
    assert len(set(running)) == 1
    assert not set(running) & set(before)
    assert said.count(f"PostgreSQL {running[0]}\n") == len(running), said
    return _whole(database, began)


def _releases(database: Cluster) -> list[str]:
    """Of PostgreSQL, as the program says that is run on each machine, in /proc."""
    said = (machine.shell(RUNNING) for machine in database.machines)
    return [line.removeprefix("postgres (PostgreSQL) ").partition(" ")[0] for line in said]


def the_machine_of_a_standby_is_killed(stage: Stage, book: Book) -> float:
    database: Cluster = stage.postgresql
    return _killed(database, random.choice(database.standbys()))


def etcd_ends_on_one_machine(stage: Stage, book: Book) -> float:
    database: Cluster = stage.postgresql
    return _without_etcd(database, [random.choice(database.machines)])


def etcd_ends_everywhere(stage: Stage, book: Book) -> float:
    """The nodes reach each other, and nothing else holds the primary's lease."""
    database: Cluster = stage.postgresql
    leader = database.leader()
    began = _without_etcd(database, list(database.machines))
    if database.leader() != leader:
        book.odd.append("another primary although all nodes reached each other")
    return began


def the_certificate_of_the_nodes_is_renewed(stage: Stage, book: Book) -> float:
    """With the lines of the document. In the end etcd of every node shows and takes the new one."""
    database: Cluster = stage.postgresql
    first, *others = database.machines
    began = time.monotonic()
    first.shell(blocks()["cluster: certificate"])
    files = first.shell(f"tar --create --directory=/etc/patroni {CERTIFICATE} | base64")
    for machine in others:
        machine.shell("base64 --decode | tar --extract --directory=/etc/patroni", input=files)
    for machine in database.machines:
        machine.shell(blocks()["cluster: new certificate"])
        machine.units["etcd"].end(signal.SIGTERM)
        machine.start_unit("etcd")
    database.wait_until_whole()
    for machine in database.machines:
        machine.shell(SHOWS_IT)
        assert "Quorum Standby" in machine.shell(blocks()["cluster: list"])
    return began


def _killed(database: Cluster, machine: Machine) -> float:
    """Cuts the machine's power. It starts again when the others have gone on without it."""
    was_leader, began = database.leader() == machine.name, time.monotonic()
    machine.kill()
    if was_leader:
        database.wait_for_another(machine.name)
    time.sleep(TAKEN_OVER)
    machine.start()
    machine.start_units()
    return _whole(database, began)


def _without_etcd(database: Cluster, machines: list[Machine]) -> float:
    began = time.monotonic()
    for machine in machines:
        machine.units["etcd"].end(signal.SIGKILL)
    time.sleep(ETCD_AWAY)
    for machine in machines:
        machine.start_unit("etcd")
    return _whole(database, began)


def _whole(database: Cluster, began: float) -> float:
    database.wait_until_whole()
    return began


@dataclass(frozen=True, slots=True)
class Goal:
    """The longest outage that a fault may cause, in seconds; 0 means that no request may fail."""

    fault: Fault
    seconds: float


GOALS = (
    Goal(the_machine_of_the_primary_is_killed, 30),
    Goal(the_primary_is_cut_off, 30),
    Goal(postgresql_of_the_primary_is_killed, 15),
    Goal(a_minor_release_is_installed, 5),
    Goal(the_machine_of_a_standby_is_killed, 1),
    Goal(the_certificate_of_the_nodes_is_renewed, 1),
    Goal(etcd_ends_on_one_machine, 0),
    Goal(etcd_ends_everywhere, 0),
)
COLUMNS = {
    "fault": "fault",
    "times": "times",
    "answers": "answers",
    "refused": "503",
    "unanswered": "broken connections",
    "accepted": "accepted",
    "again": "answered on retry",
    "lost": "lost",
    "twice": "done twice",
    "gaps": "gaps in positions",
    "half": "incomplete",
    "slowest_503": "slowest 503, s",
    "silence": "longest outage, s",
}


def missed(row: Row, goal: Goal) -> list[str]:
    """What the drill found against its goals."""
    failed = row.refused + row.unanswered
    late = row.silence > goal.seconds if goal.seconds else bool(failed)
    said = f"{failed} requests failed, an outage of {row.silence:.1f} s instead of {goal.seconds}"
    return row.wrong() + ([said] if late else [])


@contextmanager
def stage_on_cluster(*, customers: int = CUSTOMERS) -> Iterator[Stage]:
    """The service on a cluster. ``postgresql`` of the stage is the cluster."""
    with cluster() as database, stage_on(database, database.url, customers, 0) as staged:
        yield staged


def _written(row: Row, goal: Goal) -> dict[str, object]:
    found = {title: getattr(row, name) for name, title in COLUMNS.items()}
    return {**found, "goal, s": goal.seconds}


def main(times: str = str(TIMES), *chosen: str) -> int:
    if lacks := missing():
        print(f"The drills of the cluster did not run. {lacks}")
        return 0
    goals = [goal for goal in GOALS if not chosen or goal.fault.__name__ in chosen]
    with stage_on_cluster() as staged:
        rows = []
        for goal in goals:
            name = goal.fault.__name__.replace("_", " ")
            row = drill(staged, name, [goal.fault] * int(times), pause=1.0)
            text = f"{name}, {times} times: {missed(row, goal) or 'well'}"
            print(f"{text}\n{row}", file=sys.stderr, flush=True)
            rows.append(row)
    write(BEGIN, [_written(row, goal) for row, goal in zip(rows, goals, strict=True)])
    return int(any(missed(row, goal) for row, goal in zip(rows, goals, strict=True)))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
