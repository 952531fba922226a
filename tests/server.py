"""The service itself, behind real gunicorn on a free port, with a seeded database of its own.

    with serving(LIMIT_READS="3/minute") as server:
        httpx.get(f"{server.base_url}/api/v1")

The database is SQLite, or PostgreSQL where TEST_DATABASE_URL is set; limits and cache are in Redis
where TEST_REDIS_URL is. Nothing outlives the block, nor the process that entered it: gunicorn is
started by a guard (this module, run as a program) that ends it when its pipe to us closes.
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
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
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
# With one of these of its own a server's database is made for it; else it is a copy.
PREPARED_WITH = {*KEYS, "DATABASE_URL"}
LIMITS = ("AUTOMATION", "PLATFORM", "READS", "FAILURES", "MINTING", "CHANGES")

STARTING = 60  # seconds, on the slowest machine
STOPPING = 40  # seconds: longer than a waiting reader's answer
LOOK_AGAIN = 0.05  # seconds

GUNICORN = (sys.executable, "-m", "gunicorn", "-c", "config/gunicorn.conf.py")
# One process for all of it, since most of what each command takes is the start.
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
    """Where it answers, what the seeding printed, what it runs on, and where it logs."""

    base_url: str
    seed: dict[str, Any]
    environment: dict[str, str]
    log: Path


@contextmanager
def serving(
    *, ready: int = 30, idle: int = 5, nox: bool = False, **settings: str
) -> Iterator[Server]:
    """Serves until the block ends. ``settings`` are of the environment, and go before ours.

    Limits, plain HTTP and the second factor are as a conformance run wants them: off.
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
        with _guarded(server):
            yield server


@contextmanager
def serving_beside(server: Server, **settings: str) -> Iterator[Server]:
    """Another server on the same database, seeded already, with other settings."""
    port = free_port()
    own = {"PORT": str(port), "BASE_URL": f"http://{ADDRESS}:{port}", **settings}
    log = server.log.with_name(f"log-{port}")
    other = Server(f"http://{ADDRESS}:{port}", server.seed, {**server.environment, **own}, log)
    with _guarded(other):
        yield other


def manage(server: Server, *command: str) -> str:
    """What a command of manage.py prints that is run beside the server, on its database."""
    return _run(server.environment, "manage.py", *command)


def environment_of(folder: Path, port: int) -> dict[str, str]:
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
    """The keys of this process's servers."""
    return {name: secrets.token_hex(32) for name in KEYS}


@functools.cache
def _static_folder() -> str:
    """Where this process's servers have their static files: one for all, as they take seconds."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    return folder


def collect_static_files(environment: dict[str, str]) -> None:
    if not os.listdir(environment["STATIC_ROOT"]):
        _run(environment, "manage.py", "collectstatic", "--no-input", "--verbosity=0")


def _redis() -> dict[str, str]:
    """Limits and cache in Redis, where there is one."""
    url = shared_store.URL
    return {"LIMITS_URL": url, "CACHE_URL": url.replace("redis", "rediscache", 1)} if url else {}


@contextmanager
def _database(folder: Path, copied: str = "") -> Iterator[str]:
    """The address of an empty database, or of a copy of another, which is gone afterwards."""
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
    """The address of a database that is migrated and seeded, and what the seeding printed.

    Made once a process, to be copied: making it takes longer than starting a server.
    """
    kept = ExitStack()
    atexit.register(kept.close)
    folder = Path(kept.enter_context(tempfile.TemporaryDirectory()))
    database = kept.enter_context(_database(folder))
    of_this = {"DATABASE_URL": database, "REQUIRE_STAFF_MFA": mfa}
    environment = {**environment_of(folder, free_port()), **of_this}
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
    """What Python prints that runs these; its faults are said."""
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
def _guarded(server: Server) -> Iterator[None]:
    with open(server.log, "wb") as log:
        guard = subprocess.Popen(
            [sys.executable, "-m", "tests.server"],
            cwd=ROOT,
            env=server.environment,
            stdin=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is ours to hear
            stdout=log,
            stderr=log,
        )
    assert guard.stdin
    try:
        _wait_until_ready(guard, server)
        yield
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
            time.sleep(LOOK_AGAIN)
    raise AssertionError(f"The server did not become ready: {server.log.read_text()}")


def free_port() -> int:
    with socket.socket() as anybody:
        anybody.bind((ADDRESS, 0))
        port: int = anybody.getsockname()[1]
        return port


def _guard() -> None:
    """Serves until standard input closes; ends with gunicorn, should that end by itself."""
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
        gunicorn.kill()  # its workers see that it is gone, and go


if __name__ == "__main__":
    _guard()
