"""Undoes a mistake on the cluster with the archive of pgBackRest (part of ``make drills``).

    python -m tests.drills.cluster_archive

With the lines of deploy/OPERATING.md: the three machines archive into one repository, the primary
changes between the back-up and the mistake, and the database is restored to the moment before it.
The exit status is 1 if something that was answered before is missing, or something later is there.
Without root and pgBackRest it does not run.
"""

import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
django.setup()

import httpx2  # noqa: E402
import psycopg  # noqa: E402

from tests.client import HOOK, JSON, signed, written  # noqa: E402 - signed by the product's own
from tests.drills.clients import push_of  # noqa: E402
from tests.drills.cluster import Cluster, Machine, missing  # noqa: E402
from tests.drills.cluster_faults import stage_on_cluster  # noqa: E402
from tests.drills.machine import blocks  # noqa: E402
from tests.drills.stage import Stage, wait_until  # noqa: E402
from tests.server import ROOT  # noqa: E402

REPOSITORY = "/var/lib/pgbackrest"
DAILY = "sed --quiet '2s/.* postgres //p' /etc/cron.d/signals-back-up"  # but on Sundays
INFORM = "runuser -u postgres -- pgbackrest --stanza=signals info --output=json"
REDIS = ("CACHE_URL", "LIMITS_URL")  # which is not on the machines


def main() -> int:
    if lacks := missing() or ("" if shutil.which("pgbackrest") else "It needs pgbackrest."):
        print(f"The drill of the cluster's archive did not run. {lacks}")
        return 0
    with stage_on_cluster(customers=1) as stage, _repository(stage.postgresql):
        _archive(stage.postgresql)
        _undo_a_mistake(stage)
    print("The cluster's archive: well")
    return 0


@contextmanager
def _repository(database: Cluster) -> Iterator[None]:
    """A folder that all machines have, in the place of a network's file system."""
    with TemporaryDirectory(prefix="signals-repository-") as folder:
        shutil.chown(folder, "postgres", "postgres")
        for machine in database.machines:
            machine.shell(f"mount --bind {folder} {REPOSITORY}")
        yield


def _archive(database: Cluster) -> None:
    """Sets the archive up. The daily back-up is made by the machine that is the primary then."""
    for machine in database.machines:
        machine.shell(blocks()["cluster: archive"])
    _primary(database).shell(blocks()["cluster: archive of the primary"])
    _switch(database)
    for machine in database.machines:
        machine.shell("runuser -u postgres -- bash || true", input=machine.shell(DAILY))
    (stanza,) = json.loads(_primary(database).shell(INFORM))
    assert [made["type"] for made in stanza["backup"]] == ["full", "diff"]


def _undo_a_mistake(stage: Stage) -> None:
    """Somebody deletes the bots' secrets after the primary has changed once more."""
    database: Cluster = stage.postgresql
    _switch(database)
    kept, lost = (written(push_of(stage.cast["customers"][0])) for _ in range(2))
    assert _push(stage, kept) == 200
    with psycopg.connect(database.url, autocommit=True) as here:
        ((moment,),) = here.execute("SELECT clock_timestamp()::text").fetchall()
        here.execute("DELETE FROM tokens_signingsecret")
    assert _push(stage, lost) == 401
    stage.web.end(signal.SIGTERM)
    primary = _primary(database)
    primary.shell(f"ln --symbolic {ROOT} /srv/signals")
    point = blocks()["cluster: point"].replace("2026-11-24 20:15:00+00", moment)
    assert moment in point
    for lines in (point, blocks()["units: loss"]):
        assert "Every promise holds" in _run(stage, primary, lines)
    stage.web.start()
    stage.web.wait_until_ready()
    assert _push(stage, kept) == 409
    assert _push(stage, lost) == 200
    database.wait_until_whole()


def _primary(database: Cluster) -> Machine:
    return database.machine(database.leader())


def _switch(database: Cluster) -> None:
    database.wait_until_whole()
    _primary(database).shell(blocks()["cluster: switchover"])
    database.wait_until_whole()


def _run(stage: Stage, machine: Machine, lines: str) -> str:
    """Runs lines with the service's settings."""
    settings = {name: value for name, value in stage.environment.items() if name not in REDIS}
    return machine.shell(lines, env={**os.environ, **settings})


def _push(stage: Stage, body: bytes) -> int:
    """The status of the answer, once the service gives one."""
    statuses: list[int] = []

    def is_answered() -> bool:
        secret = stage.cast["customers"][0]["secret"]
        headers = {**signed(secret, body=body), "Content-Type": JSON}
        url = f"{stage.base_url}{HOOK}"
        answer = httpx2.post(url, content=body, headers=headers, trust_env=False, timeout=30)
        statuses.append(answer.status_code)
        return answer.status_code != httpx2.codes.SERVICE_UNAVAILABLE

    wait_until(is_answered, "an answer")
    return statuses[-1]


if __name__ == "__main__":
    sys.exit(main())
