"""Starts the service with gunicorn on a free port, with its own seeded database.

    with serving(LIMIT_READS="3/minute") as server:
        httpx2.get(f"{server.base_url}/api/v1")

    with serving() as server, serving_live(server) as live:
        httpx2.stream("GET", f"{live.base_url}/api/v1/events", headers=…)

The database is SQLite, or PostgreSQL if TEST_DATABASE_URL is set. Limits and cache are in Redis if
TEST_REDIS_URL is set. The server ends with the block and with the process that entered it: a guard
process (``tests.guard``) starts the server and stops it when its pipe closes.
"""

import atexit
import json
import os
import re
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx2

from tests import prepared, shared_store
from tests.guard import STOPPING

ROOT = Path(__file__).resolve().parent.parent
ADDRESS = "127.0.0.1"
# Of every service that tests start: without the packages that only the tests have.
AS_INSTALLED = {"PYTHONPATH": str(ROOT / "tests" / "absent")}
KEYS = ("SECRET_KEY", "TOKEN_KEYS", "SECRET_KEYS")
# A server with its own value for one of these gets a new database; any other gets a copy.
PREPARED_WITH = {*KEYS, "DATABASE_URL"}
LIMITS = (
    *("AUTOMATION", "PLATFORM", "READS", "LARGE_READS", "FAILURES", "MINTING", "CHANGES"),
    *("DESTINATIONS", "REWINDS", "DESK", "DESK_DAY", "PAGES"),
)

METRICS_TOKEN = secrets.token_hex(32)  # for a server that is asked by ``gauge``

# The desks of a server that asks for no other number. So most servers copy one database.
READY, IDLE = 12, 3

STARTING = 300  # seconds, on a slow machine
POLL_INTERVAL = 0.05  # seconds

_kept = ExitStack()  # the sockets of ``free_port``
atexit.register(_kept.close)

# One process for all commands, because starting a process takes most of the time.
PREPARE = """
import gc
import sys
import django
gc.disable()
from django.core.management import call_command
django.setup()
call_command("migrate", interactive=False, verbosity=0)
call_command("createcachetable", verbosity=0)
call_command("seed", *sys.argv[1:], "--json")
"""


@dataclass(frozen=True, slots=True)
class Server:
    """The base URL, the output of ``seed``, the environment and the log file of a server.

    ``guard`` is the process above the server; None before it is started. ``root`` is the folder of
    its code, which may be of another release.
    """

    base_url: str
    seed: dict[str, Any]
    environment: dict[str, str]
    log: Path
    guard: int | None = None
    root: Path = ROOT


@contextmanager
def serving(
    *, ready: int = READY, idle: int = IDLE, nox: bool = False, **settings: str
) -> Iterator[Server]:
    """Serves until the block ends. ``settings`` are environment variables that override ours.

    Limits, REQUIRE_HTTPS and REQUIRE_STAFF_MFA are off, as the conformance suite needs them.
    """
    with tempfile.TemporaryDirectory() as name, ExitStack() as databases:
        folder, port = Path(name), free_port()
        environment = {**environment_of(folder, port), **settings}
        collect_static_files(environment)
        if settings.keys() & PREPARED_WITH:
            url = databases.enter_context(prepared.database(folder))
            environment.setdefault("DATABASE_URL", url)
            seed = _prepare(environment, ready, idle, nox)
        else:
            copied, seed = _seeded(ready, idle, nox, environment["REQUIRE_STAFF_MFA"])
            url = databases.enter_context(prepared.database(folder, copied))
            environment["DATABASE_URL"] = url
        server = Server(f"http://{ADDRESS}:{port}", seed, environment, folder / "log")
        with guarded(server) as served:
            yield served


@contextmanager
def serving_beside(server: Server, **settings: str) -> Iterator[Server]:
    """Another server on the database of ``server``, with other settings."""
    port = free_port()
    own = {"PORT": str(port), "BASE_URL": f"http://{ADDRESS}:{port}", **settings}
    log = server.log.with_name(f"log-{port}")
    other = Server(f"http://{ADDRESS}:{port}", server.seed, {**server.environment, **own}, log)
    with guarded(other) as served:
        yield served


@contextmanager
def serving_live(server: Server, **settings: str) -> Iterator[Server]:
    """The live server on the database of ``server``. Its port is LIVE_PORT, or a free one."""
    port = settings.get("LIVE_PORT") or str(free_port())
    environment = {**server.environment, **settings, "LIVE_PORT": port}
    log = server.log.with_name(f"log-live-{port}")
    live = Server(f"http://{ADDRESS}:{port}", server.seed, environment, log)
    with guarded(live, "live") as served:
        yield served


@contextmanager
def delivering(server: Server) -> Iterator[None]:
    """Runs ``manage.py deliver`` on the database of ``server``. It may send to this machine."""
    environment = {**server.environment, "DELIVERY_ALLOW": f"{ADDRESS}/32"}
    log = server.log.with_name("log-deliver")
    with guarded(replace(server, environment=environment, log=log), "deliver"):
        yield


def gauge(base_url: str, name: str) -> float:
    """A metric of a server that was started with our METRICS_TOKEN. 0 if it has no such metric."""
    presented = {"Authorization": f"Bearer {METRICS_TOKEN}"}
    text = httpx2.get(f"{base_url}/metrics", headers=presented, trust_env=False).text
    found = re.search(rf"^{name} (\S+)$", text, re.M)
    return float(found.group(1)) if found else 0.0


def process_of(server: Server) -> int:
    """The server's process: gunicorn's master, or the live server."""
    assert server.guard
    threads = Path(f"/proc/{server.guard}/task").glob("*/children")
    (process,) = (int(child) for thread in threads for child in thread.read_text().split())
    return process


def manage(server: Server, *command: str) -> str:
    """Runs a command of manage.py on the server's database. Returns its output."""
    return run_python(server.environment, "manage.py", *command, root=server.root)


def environment_of(folder: Path, port: int) -> dict[str, str]:
    """The environment of a server on this port, without a DATABASE_URL."""
    return {
        "PATH": os.environ["PATH"],
        **AS_INSTALLED,
        "ENV_FILE": os.devnull,
        "DJANGO_SETTINGS_MODULE": "tests.served_settings",
        "PYTHONUNBUFFERED": "1",
        "STATIC_ROOT": str(prepared.folder() / "static"),
        "BASE_URL": f"http://{ADDRESS}:{port}",
        "HOST": ADDRESS,
        "PORT": str(port),
        "WEB_CONCURRENCY": "2",
        "REQUIRE_HTTPS": "off",
        "REQUIRE_STAFF_MFA": "off",
        **_keys(),
        **{f"LIMIT_{name}": "off" for name in LIMITS},
        "CACHE_PREFIX": folder.name,
        "PATIENCE": os.environ.get("PATIENCE", ""),
        # A worker that stands still for longer is killed.
        "GUNICORN_CMD_ARGS": "--timeout=300" if os.environ.get("PATIENCE") else "",
        **_redis(),
    }


def _keys() -> dict[str, str]:
    """The keys of every server of the run: its prepared databases need them."""
    keys: dict[str, str] = prepared.once("keys", lambda: {k: secrets.token_hex(32) for k in KEYS})
    return keys


def collect_static_files(environment: dict[str, str]) -> None:
    """Collects them once in a run, which takes seconds."""
    collect = ("manage.py", "collectstatic", "--no-input", "--verbosity=0")
    prepared.once("static", lambda: run_python(environment, *collect))


def _redis() -> dict[str, str]:
    """Settings for limits and cache in Redis, if TEST_REDIS_URL is set."""
    url = shared_store.URL
    return {"LIMITS_URL": url, "CACHE_URL": url.replace("redis", "rediscache", 1)} if url else {}


def _seeded(ready: int, idle: int, nox: bool, mfa: str) -> tuple[str, dict[str, Any]]:
    """The URL of a migrated and seeded database of the run, and the output of ``seed``."""

    def seed(url: str) -> dict[str, Any]:
        settings = {"DATABASE_URL": url, "REQUIRE_STAFF_MFA": mfa}
        folder = prepared.folder()
        return _prepare({**environment_of(folder, free_port()), **settings}, ready, idle, nox)

    return prepared.seeded(f"{ready}-{idle}-{nox}-{mfa}", seed)


def _prepare(environment: dict[str, str], ready: int, idle: int, nox: bool) -> dict[str, Any]:
    arguments = [f"--desks={ready}", f"--idle={idle}", *(["--nox"] if nox else [])]
    seed: dict[str, Any] = json.loads(run_python(environment, "-c", PREPARE, *arguments))
    return seed


def run_python(environment: dict[str, str], *arguments: str, root: Path = ROOT) -> str:
    """The output of Python with these arguments. Fails with its error output."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def guarded(server: Server, program: str = "web") -> Iterator[Server]:
    """Starts a server of the environment given, and stops it when the block ends."""
    with open(server.log, "ab") as log:
        guard = subprocess.Popen(
            [sys.executable, "-m", "tests.guard", program],
            cwd=server.root,
            env=server.environment,
            stdin=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C must not reach the guard
            stdout=log,
            stderr=log,
        )
    assert guard.stdin
    try:
        _wait_until_ready(guard, server)
        yield replace(server, guard=guard.pid)
    finally:
        guard.stdin.close()
        guard.wait(STOPPING + 60)


def _wait_until_ready(guard: subprocess.Popen[bytes], server: Server) -> None:
    deadline = time.monotonic() + STARTING
    while guard.poll() is None and time.monotonic() < deadline:
        try:
            if httpx2.get(f"{server.base_url}/readyz", trust_env=False).is_success:
                return
        except httpx2.TransportError:
            time.sleep(POLL_INTERVAL)
    raise AssertionError(f"The server did not become ready: {server.log.read_text()}")


def free_port(address: str = ADDRESS) -> int:
    """A port that nobody else gets at this address while this process runs.

    A socket keeps it, which is bound and never listens. A server can listen there nevertheless,
    because it sets SO_REUSEADDR as this socket does.
    """
    keeper = _kept.enter_context(socket.socket())
    keeper.bind((address, 0))
    keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    port: int = keeper.getsockname()[1]
    return port
