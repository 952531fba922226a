"""The service with its own PostgreSQL and Redis, which a drill may break.

    with stage() as staged:
        staged.postgresql.stop()

Where mounts are permitted, PostgreSQL's data are on a small separate disk that a drill can fill.
Every process ends with the thread that started it, even if that thread is killed. So only one
thread may start and break processes. The machine's own servers are not touched.
"""

import glob
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest

from tests.guard import GUNICORN
from tests.server import ADDRESS, ROOT, collect_static_files, environment_of, free_port

STARTING = 300  # seconds
POLL_INTERVAL = 0.02  # seconds
RESTARTED_AFTER = 1  # seconds: what systemd waits (deploy/systemd)
DISK = "400m"
EVERY_KIND = "1000000/minute"  # counted, but never reached

MAKE_CAST = """
import gc, json, sys, django
gc.disable()
django.setup()
from tests.drills import cast
print(json.dumps(cast.make(int(sys.argv[1]))))
"""

INITDB = max(glob.glob("/usr/lib/postgresql/*/bin/initdb"), default=None)
TOOLS = {"initdb": INITDB, **{name: shutil.which(name) for name in ("redis-server", "setpriv")}}
MISSING = [name for name, found in TOOLS.items() if found is None]
needs_servers = pytest.mark.skipif(bool(MISSING), reason=f"{MISSING} is missing")
# Takes most of a minute, or a busy machine would fail it.
in_drills = pytest.mark.skipif("DRILLS" not in os.environ, reason="make drills runs it")


def wait_until(true: Any, what: str) -> float:
    """Waits until ``true()`` is true. Returns that moment on the monotonic clock."""
    deadline = time.monotonic() + STARTING
    while not true():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not happen in time")
        time.sleep(POLL_INTERVAL)
    return time.monotonic()


class Process:
    """A server process that can be ended and started again."""

    def __init__(self, command: Sequence[str], log: Path, **options: Any) -> None:
        self._command, self._log, self._options = command, log, options
        self._running: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._running is not None
        return self._running.pid

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._running = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **self._options
            )

    def has_ended(self) -> bool:
        return self._running is None or self._running.poll() is not None

    def end(self, number: int) -> None:
        """Sends a signal and waits until the process has ended."""
        if not self.has_ended():
            os.kill(self.pid, number)
        assert self._running is not None
        self._running.wait(STARTING)


class Postgresql(Process):
    """A PostgreSQL cluster on a free port, with its data in a new folder of this name.

    It is empty, or a standby of ``primary``. It listens at an address of this machine. ``options``
    are those of its process.
    """

    def __init__(
        self,
        folder: Path,
        log: Path,
        name: str = "postgresql",
        primary: "Postgresql | None" = None,
        address: str = ADDRESS,
        **options: Any,
    ) -> None:
        self.address, self.port, self.data = address, free_port(), folder / name
        self.url = f"postgres://postgres@{address}:{self.port}/signals"
        self.data.mkdir()
        assert INITDB is not None
        programs = Path(INITDB).parent
        as_owner = ["setpriv", "--pdeathsig=QUIT"]
        if os.geteuid() == 0:
            shutil.chown(self.data, "postgres", "postgres")
            as_owner += ["--reuid=postgres", "--regid=postgres", "--clear-groups"]
        make = [INITDB, "--auth=trust", "--username=postgres", "--wal-segsize=1"]
        if primary is not None:
            self.data.chmod(0o700)
            source = f"host={primary.address} port={primary.port} user=postgres"
            make = [str(programs / "pg_basebackup"), "--write-recovery-conf", "--dbname", source]
            make.append("--checkpoint=fast")
        subprocess.run(
            [*as_owner, *make, "--no-sync", "-D", self.data],
            check=True,
            capture_output=True,
            cwd="/",
        )
        given = {
            "port": self.port,
            "listen_addresses": address,
            "unix_socket_directories": "",
            "max_wal_size": "32MB",
            "min_wal_size": "2MB",
        }
        settings = [part for name, value in given.items() for part in ("-c", f"{name}={value}")]
        command = [*as_owner, str(programs / "postgres"), "-D", str(self.data), *settings]
        super().__init__(command, log, cwd="/", **options)

    def start(self) -> None:
        """Starts PostgreSQL and waits until it accepts connections."""
        super().start()

        def answers() -> bool:
            assert not self.has_ended(), self._log.read_text()[-2000:]
            return self._answers()

        wait_until(answers, "PostgreSQL")

    def confirm_by(self, standby: str) -> None:
        """Commits wait for this standby from now on; for nobody if it is empty."""
        self.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{standby}'")
        self.execute("SELECT pg_reload_conf()")
        name = "SHOW synchronous_standby_names"
        wait_until(lambda: self.execute(name) == [(standby,)], "the new setting")
        self.execute("CHECKPOINT")  # whose process tells the others of it

    def recover(self) -> float:
        """Waits until it accepts connections. Starts it again if it ends before."""

        def recovers() -> bool:
            if self.has_ended():
                super(Postgresql, self).start()
            return self._answers()

        return wait_until(recovers, "PostgreSQL")

    def stop(self) -> None:
        """Stops PostgreSQL at once, as if the power failed. It recovers at the next start."""
        self.end(signal.SIGQUIT)

    def execute(self, statement: str, database: str = "postgres") -> list[Any]:
        with self.connect(database) as here:
            cursor = here.execute(statement)  # type: ignore[call-overload]
            return list(cursor.fetchall()) if cursor.description else []

    def connect(self, database: str) -> Any:
        return psycopg.connect(
            host=self.address, port=self.port, user="postgres", dbname=database, autocommit=True
        )

    def _answers(self) -> bool:
        try:
            self.connect("postgres").close()
        except psycopg.OperationalError:
            return False
        return True


class Web(Process):
    """The service, run by gunicorn, or another of its programs that listens."""

    def __init__(
        self,
        environment: dict[str, str],
        log: Path,
        program: Sequence[str] = GUNICORN,
        port: str = "PORT",
    ) -> None:
        self.base_url = f"http://{environment['HOST']}:{environment[port]}"
        super().__init__(
            ["setpriv", "--pdeathsig=KILL", *program],
            log,
            cwd=ROOT,
            env=environment,
            start_new_session=True,
        )

    def workers(self) -> list[int]:
        """The worker processes, the oldest first."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text()
        return sorted(int(pid) for pid in children.split())

    def wait_until_ready(self) -> float:
        return wait_until(self._is_ready, "the service")

    def revive(self) -> None:
        """Ends the workers of an arbiter that died, and starts gunicorn again."""
        self.end(signal.SIGKILL)
        os.killpg(self.pid, signal.SIGKILL)
        time.sleep(RESTARTED_AFTER)
        self.start()

    def _is_ready(self) -> bool:
        try:
            return httpx2.get(f"{self.base_url}/readyz", trust_env=False).is_success
        except httpx2.TransportError:
            return False


@dataclass(slots=True)
class Stage:
    """Everything that runs. ``postgresql`` is a ``Postgresql``, or the drill's own cluster.

    ``disk`` is the folder that can be filled, or None.

    ``cast`` is what ``tests.drills.cast`` made: the accounts and their credentials. ``away`` is how
    many seconds a server stays down. Clients send to ``base_url``.
    """

    postgresql: Any
    redis: Process
    web: Web
    cast: dict[str, Any]
    environment: dict[str, str]
    log: Path
    disk: Path | None
    away: float
    base_url: str

    def manage(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Runs a command of manage.py on the service's database."""
        return subprocess.run(
            [sys.executable, "manage.py", *command],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
        )


@contextmanager
def stage(*, customers: int, away: float, like_a_disk: bool, **settings: str) -> Iterator[Stage]:
    """The service until the block ends.

    ``like_a_disk`` puts PostgreSQL on the machine's disk instead of in memory. ``away`` is how many
    seconds a server stays down. ``settings`` override those of the service.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.chmod(0o755)  # PostgreSQL runs as another user
        disk = stack.enter_context(_disk(folder, like_a_disk=like_a_disk))
        postgresql = Postgresql(disk or folder, folder / "postgresql.log")
        stack.callback(postgresql.end, signal.SIGINT)
        postgresql.start()
        postgresql.execute("CREATE DATABASE signals")
        yield stack.enter_context(
            stage_on(postgresql, postgresql.url, customers, away, disk, **settings)
        )


@contextmanager
def stage_on(
    postgresql: Any,
    url: str,
    customers: int,
    away: float,
    disk: Path | None = None,
    **settings: str,
) -> Iterator[Stage]:
    """The service on an empty database until the block ends."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        redis = redis_at(port := free_port(), folder)
        stack.callback(redis.end, signal.SIGTERM)
        redis.start()
        environment = {**_environment(folder, url, port), **settings}
        collect_static_files(environment)
        cast = _cast(environment, customers)
        web = Web(environment, folder / "log")
        stack.callback(web.end, signal.SIGTERM)
        web.start()
        web.wait_until_ready()
        yield Stage(
            postgresql, redis, web, cast, environment, folder / "log", disk, away, web.base_url
        )


@contextmanager
def _disk(folder: Path, *, like_a_disk: bool) -> Iterator[Path | None]:
    """A small separate file system; None if mounting is not permitted."""
    disk, image = folder / "disk", folder / "image"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=755", "tmpfs", str(disk)]
    if like_a_disk:
        subprocess.run(["truncate", "-s", DISK.upper(), image], check=True)
        subprocess.run(["/sbin/mkfs.ext4", "-q", "-m", "0", image], check=True)
        mount = ["mount", "-o", "loop", str(image), str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        yield None
        return
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


def redis_at(port: int, folder: Path) -> Process:
    """Redis, which is not started yet. It keeps nothing."""
    command = ["setpriv", "--pdeathsig=KILL", "redis-server", "--bind", ADDRESS, "--save", ""]
    return Process([*command, "--port", str(port), "--dir", str(folder)], folder / "redis.log")


def settings_of_redis(port: int) -> dict[str, str]:
    """The settings of a service that uses it."""
    return {
        "LIMITS_URL": f"redis://{ADDRESS}:{port}/1",
        "CACHE_URL": f"rediscache://{ADDRESS}:{port}/0",
    }


def _environment(folder: Path, database: str, redis: int) -> dict[str, str]:
    counted = ("AUTOMATION", "PLATFORM", "READS", "DESK", "DESK_DAY")
    limits = {f"LIMIT_{name}": EVERY_KIND for name in counted}
    return {
        **environment_of(folder, free_port()),
        **limits,
        "DATABASE_URL": database,
        **settings_of_redis(redis),
        "METRICS_TOKEN": secrets.token_hex(32),
        "LOG_LEVEL": "warning",
    }


def _cast(environment: dict[str, str], customers: int) -> dict[str, Any]:
    command = [sys.executable, "-c", MAKE_CAST, str(customers)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    cast: dict[str, Any] = json.loads(done.stdout)
    return cast
