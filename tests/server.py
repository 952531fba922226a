"""Starts the service with gunicorn on a free port, with its own seeded database.

    with serving(LIMIT_READS="3/minute") as server:
        httpx.get(f"{server.base_url}/api/v1")

The database is SQLite, or PostgreSQL if TEST_DATABASE_URL is set. Limits and cache are in Redis if
TEST_REDIS_URL is set. The server ends with the block and with the process that entered it: a guard
process (this module, run as a program) starts gunicorn and stops it when its pipe closes.
"""

import atexit
import functools
import json
import os
import secrets
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psycopg
from psycopg import sql

from tests import shared_store

ROOT = Path(__file__).resolve().parent.parent
ADDRESS = "127.0.0.1"
KEYS = ("SECRET_KEY", "TOKEN_KEYS", "SECRET_KEYS")
# A server with its own value for one of these gets a new database; any other gets a copy.
PREPARED_WITH = {*KEYS, "DATABASE_URL"}
LIMITS = (
    *("AUTOMATION", "PLATFORM", "READS", "FAILURES", "MINTING", "CHANGES"),
    *("DESK", "DESK_DAY", "PAGES"),
)

STARTING = 60  # seconds, on a slow machine
STOPPING = 40  # seconds: longer than a reader of the feed may wait
POLL_INTERVAL = 0.05  # seconds

GUNICORN = (sys.executable, "-m", "gunicorn", "-c", "config/gunicorn.conf.py")
# One process for all commands, because starting a process takes most of the time.
PREPARE = """
import sys
import django
from django.core.management import call_command
django.setup()
call_command("migrate", interactive=False, verbosity=0)
call_command("createcachetable", verbosity=0)
call_command("seed", *sys.argv[1:], "--json")
"""


@dataclass(frozen=True, slots=True)
class Server:
    """The base URL, the output of ``seed``, the environment and the log file of a server.

    ``guard`` is the process above gunicorn; None before it is started.
    """

    base_url: str
    seed: dict[str, Any]
    environment: dict[str, str]
    log: Path
    guard: int | None = None


@contextmanager
def serving(
    *, ready: int = 30, idle: int = 5, nox: bool = False, **settings: str
) -> Iterator[Server]:
    """Serves until the block ends. ``settings`` are environment variables that override ours.

    Limits, REQUIRE_HTTPS and REQUIRE_STAFF_MFA are off, as the conformance suite needs them.
    """
    with tempfile.TemporaryDirectory() as name, ExitStack() as databases:
        folder, port = Path(name), free_port()
        environment = {**environment_of(folder, port), **settings}
        collect_static_files(environment)
        if settings.keys() & PREPARED_WITH:
            environment.setdefault("DATABASE_URL", databases.enter_context(_database(folder)))
            seed = _prepare(environment, ready, idle, nox)
        else:
            mfa = environment["REQUIRE_STAFF_MFA"]
            prepared, seed = _prepared(ready, idle, nox, mfa)
            environment["DATABASE_URL"] = databases.enter_context(_database(folder, prepared))
        server = Server(f"http://{ADDRESS}:{port}", seed, environment, folder / "log")
        with _guarded(server) as served:
            yield served


@contextmanager
def serving_beside(server: Server, **settings: str) -> Iterator[Server]:
    """Another server on the database of ``server``, with other settings."""
    port = free_port()
    own = {"PORT": str(port), "BASE_URL": f"http://{ADDRESS}:{port}", **settings}
    log = server.log.with_name(f"log-{port}")
    other = Server(f"http://{ADDRESS}:{port}", server.seed, {**server.environment, **own}, log)
    with _guarded(other) as served:
        yield served


def manage(server: Server, *command: str) -> str:
    """Runs a command of manage.py on the server's database. Returns its output."""
    return _run(server.environment, "manage.py", *command)


def environment_of(folder: Path, port: int) -> dict[str, str]:
    """The environment of a server on this port, without a DATABASE_URL."""
    return {
        "PATH": os.environ["PATH"],
        "ENV_FILE": os.devnull,
        "DJANGO_SETTINGS_MODULE": "tests.served_settings",
        "PYTHONUNBUFFERED": "1",
        "STATIC_ROOT": _static_folder(),
        "BASE_URL": f"http://{ADDRESS}:{port}",
        "HOST": ADDRESS,
        "PORT": str(port),
        "WEB_CONCURRENCY": "2",
        "REQUIRE_HTTPS": "off",
        "REQUIRE_STAFF_MFA": "off",
        **_keys(),
        **{f"LIMIT_{name}": "off" for name in LIMITS},
        "CACHE_PREFIX": folder.name,
        **_redis(),
    }


@functools.cache
def _keys() -> dict[str, str]:
    """The keys of every server that this process starts."""
    return {name: secrets.token_hex(32) for name in KEYS}


@functools.cache
def _static_folder() -> str:
    """The static files of every server that this process starts. Collecting them takes seconds."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    return folder


def collect_static_files(environment: dict[str, str]) -> None:
    if not os.listdir(environment["STATIC_ROOT"]):
        _run(environment, "manage.py", "collectstatic", "--no-input", "--verbosity=0")


def _redis() -> dict[str, str]:
    """Settings for limits and cache in Redis, if TEST_REDIS_URL is set."""
    url = shared_store.URL
    return {"LIMITS_URL": url, "CACHE_URL": url.replace("redis", "rediscache", 1)} if url else {}


@contextmanager
def _database(folder: Path, copied: str = "") -> Iterator[str]:
    """The URL of an empty database, or of a copy of ``copied``. Dropped when the block ends."""
    url = os.environ.get("TEST_DATABASE_URL")
    if not url or url.startswith("sqlite"):
        file = folder / "service.sqlite3"
        if copied:
            _copy(Path(copied.removeprefix("sqlite:///")), file)
        yield f"sqlite:///{file}"
        return
    name = f"conformance_{os.getpid()}_{secrets.token_hex(3)}"
    template = urlsplit(copied).path.strip("/") or "template1"
    _administer(url, "CREATE DATABASE {} TEMPLATE {}", name, template)
    try:
        yield urlsplit(url)._replace(path=f"/{name}").geturl()
    finally:
        _administer(url, "DROP DATABASE {} WITH (FORCE)", name)


def _copy(prepared: Path, file: Path) -> None:
    with closing(sqlite3.connect(prepared)) as one, closing(sqlite3.connect(file)) as other:
        one.backup(other)


@functools.cache
def _prepared(ready: int, idle: int, nox: bool, mfa: str) -> tuple[str, dict[str, Any]]:
    """The URL of a migrated and seeded database, and the output of ``seed``.

    Made once per process and copied for each server, because that is faster than seeding again.
    """
    stack = ExitStack()
    atexit.register(stack.close)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    database = stack.enter_context(_database(folder))
    settings = {"DATABASE_URL": database, "REQUIRE_STAFF_MFA": mfa}
    environment = {**environment_of(folder, free_port()), **settings}
    return database, _prepare(environment, ready, idle, nox)


def _administer(url: str, statement: str, *names: str) -> None:
    address = urlsplit(url)._replace(scheme="postgresql", path="/postgres").geturl()
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


def _prepare(environment: dict[str, str], ready: int, idle: int, nox: bool) -> dict[str, Any]:
    arguments = [f"--desks={ready}", f"--idle={idle}", *(["--nox"] if nox else [])]
    seed: dict[str, Any] = json.loads(_run(environment, "-c", PREPARE, *arguments))
    return seed


def _run(environment: dict[str, str], *arguments: str) -> str:
    """The output of Python with these arguments. Fails with its error output."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def _guarded(server: Server) -> Iterator[Server]:
    with open(server.log, "wb") as log:
        guard = subprocess.Popen(
            [sys.executable, "-m", "tests.server"],
            cwd=ROOT,
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
        guard.wait(STOPPING + 5)


def _wait_until_ready(guard: subprocess.Popen[bytes], server: Server) -> None:
    deadline = time.monotonic() + STARTING
    while guard.poll() is None and time.monotonic() < deadline:
        try:
            if httpx.get(f"{server.base_url}/readyz", trust_env=False).is_success:
                return
        except httpx.TransportError:
            time.sleep(POLL_INTERVAL)
    raise AssertionError(f"The server did not become ready: {server.log.read_text()}")


def free_port() -> int:
    """A port below those that systems give to connections, so that none takes it meanwhile."""
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        with suppress(OSError), socket.socket() as listener:
            listener.bind((ADDRESS, port))
            return port


def _guard() -> None:
    """Runs gunicorn until standard input closes. Exits at once if gunicorn exits."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    gunicorn = subprocess.Popen(GUNICORN, stdin=subprocess.DEVNULL)
    threading.Thread(target=lambda: os._exit(gunicorn.wait()), daemon=True).start()
    try:
        sys.stdin.buffer.read()
    finally:
        _end(gunicorn)


def _end(gunicorn: subprocess.Popen[bytes]) -> None:
    gunicorn.send_signal(signal.SIGINT)
    try:
        gunicorn.wait(STOPPING)
    except subprocess.TimeoutExpired:
        gunicorn.kill()  # its workers exit when the parent process is gone


if __name__ == "__main__":
    _guard()
