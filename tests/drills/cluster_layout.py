"""The production layout on three machines for the database (``make cluster``).

    python -m tests.drills.cluster_layout [--once] [--port=8000]

Redis, two web servers, two live servers, two runners and nginx, each as a process, beside machines
with etcd and PostgreSQL under Patroni. Plays the demonstration's round of requests, prints where to
look, and stops everything at Ctrl-C, or with ``--once`` after the round. ``make drills`` (DRILLS=1)
leaves it out on a machine that lacks something.
"""

import argparse
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
django.setup()

from signals.demo.round import Round  # noqa: E402 - what signs for the bot is the product's
from signals.demo.server import check_port  # noqa: E402
from tests.drills.cluster import Cluster, cluster, missing  # noqa: E402
from tests.drills.layout import NGINX, Layout, layout  # noqa: E402
from tests.drills.stage import redis_at, settings_of_redis  # noqa: E402
from tests.server import READY, delivering, free_port  # noqa: E402


@dataclass(frozen=True, slots=True)
class Running:
    """The cluster, and the layout that serves its database."""

    database: Cluster
    served: Layout

    @property
    def seed(self) -> dict[str, Any]:
        return self.served.webs[0].seed


@contextmanager
def running(port: int) -> Iterator[Running]:
    """Everything, until the block ends. nginx listens at the port, or at a free one if it is 0."""
    with cluster() as database, TemporaryDirectory() as folder:
        redis = redis_at(at := free_port(), Path(folder))
        redis.start()
        try:
            settings: Any = {
                **settings_of_redis(at),
                "DATABASE_URL": database.url,
                "DELIVERY_ALLOW": "127.0.0.0/8",
            }
            with (
                layout(lives=2, port=port, **settings) as served,
                delivering(served.webs[0]),
                delivering(served.webs[1]),
            ):
                yield Running(database, served)
        finally:
            redis.end(signal.SIGTERM)


def main() -> int:
    parser = argparse.ArgumentParser(description="Serve on a cluster of three machines.")
    parser.add_argument("--once", action="store_true", help="exit after the round of requests")
    parser.add_argument("--port", type=int, default=8000, help="port of nginx (default: 8000)")
    chosen = parser.parse_args()
    if lacks := missing() or ("" if NGINX else "The cluster needs nginx."):
        print(lacks, file=sys.stderr)
        return 0 if "DRILLS" in os.environ else 1
    check_port(chosen.port)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        return _show(chosen.port, once=chosen.once)
    print("\nThe cluster was stopped.")
    return 0


def _show(port: int, *, once: bool) -> int:
    print("Starting three machines with etcd and PostgreSQL. It takes a minute.", flush=True)
    with running(port) as here:
        base_url = here.served.http
        print(f"Serving on {base_url}.\n", flush=True)
        went_well = Round(base_url, here.seed, READY, print, delivers=True).play()
        if once:
            said = "Every response was" if went_well else "Some responses were not"
            print(f"\n{said} as expected.")
            return int(not went_well)
        _invite(here)
        signal.pause()
    return 0


def _invite(here: Running) -> None:
    """Prints the addresses of a browser, of the processes, and the accounts to sign in with."""
    served, database = here.served, here.database
    patroni = [f"http://{machine.address}:8008/cluster" for machine in database.machines]
    ports = {
        "nginx": served.http,
        "web": " ".join(f"http://127.0.0.1:{web.environment['PORT']}" for web in served.webs),
        "live": " ".join(live.base_url for live in served.lives),
        "Patroni": " ".join(patroni),
        "database": database.url,
    }
    lines = [f"  {name:10}{where}" for name, where in ports.items()]
    for who in ("user", "admin"):
        lines.append(f"  {who:10}{here.seed[who]['email']}   {here.seed[who]['password']}")
    first = database.machines[0]
    lines.append(f"A shell on {first.name}: {first.entrance()}")
    print("\nOpen in a browser:\n" + "\n".join(lines) + "\nPress Ctrl-C to stop.", flush=True)


if __name__ == "__main__":
    sys.exit(main())
