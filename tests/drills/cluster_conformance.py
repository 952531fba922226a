"""Runs the conformance suite against the cluster while one process of each kind is killed.

    python -m tests.drills.cluster_conformance

What failed is run again once the cluster is whole, with nothing killed. The exit status is 1 if
something fails then. It needs root.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.drills.cluster import Machine, missing
from tests.drills.cluster_faults import POSTMASTER
from tests.drills.cluster_layout import Running, running
from tests.drills.layout import NGINX
from tests.drills.layout_conformance import TESTS, conformance

PAUSE = 6  # seconds between two kills
# What the command lines of the processes on this machine begin with, or contain.
PROCESSES = {
    "a worker of a web server": "gunicorn: worker",
    "a live server": " -m config.live",
    "a runner": "manage.py deliver",
    "a worker of nginx": "nginx: worker",
}
AGAIN = ("--last-failed", "--last-failed-no-failures=none", TESTS)


def main() -> int:
    if lacks := missing() or ("" if NGINX else "It needs nginx."):
        print(f"NOT RUN: {lacks}")
        return 0
    with running(DELIVERY_ALLOW="") as here:
        statuses: list[int] = []
        suite = threading.Thread(
            target=lambda: statuses.append(conformance(here.served, here.served.http))
        )
        suite.start()
        for what, kill in _kills(here).items():
            time.sleep(PAUSE)
            kill()
            print(f"\nKilled {what}.", flush=True)
        suite.join()
        here.database.wait_until_whole()
        if statuses == [0]:
            return 0
        print("What failed, once more:", flush=True)
        return conformance(here.served, here.served.http, *AGAIN)


def _kills(here: Running) -> dict[str, Callable[[], object]]:
    """A function for each kind of process, which kills one."""

    def postgresql(machine: Machine) -> None:
        machine.shell(POSTMASTER)

    database = here.database
    return {
        **{what: lambda text=text: _kill(text) for what, text in PROCESSES.items()},  # type: ignore[misc]
        "etcd of a machine": lambda: database.standbys()[0].shell("pkill -9 etcd"),
        "PostgreSQL of a standby": lambda: postgresql(database.standbys()[0]),
        "PostgreSQL of the primary": lambda: postgresql(database.machine(database.leader())),
    }


def _kill(text: str) -> None:
    """Kills the last process of this run whose command line has the text."""
    *_, last = (pid for pid in _descendants(os.getpid()) if text in _command(pid))
    os.kill(last, signal.SIGKILL)


def _descendants(pid: int) -> Iterator[int]:
    listed = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    for child in map(int, listed.stdout.split()):
        yield child
        yield from _descendants(child)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:  # it has ended
        return ""


if __name__ == "__main__":
    sys.exit(main())
