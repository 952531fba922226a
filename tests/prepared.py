"""What the services that a test run starts have in common: keys, static files, seeded databases.

Making them takes longer than most tests. So the first process that needs one makes it, under a
lock, and every other process of the run uses it. They are in one folder, which the process that
made it removes at its end: that is pytest's own process, whose workers find it in the environment.
"""

import atexit
import fcntl
import functools
import json
import os
import secrets
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

FOLDER = "SIGNALS_TEST_RUN"
DATABASES = "database-*.json"


@functools.cache
def folder() -> Path:
    """The folder of this test run."""
    if FOLDER not in os.environ:
        made = Path(tempfile.mkdtemp(prefix="signals-tests-"))
        (made / "static").mkdir()
        os.environ[FOLDER] = str(made)
        atexit.register(_remove, made)
    return Path(os.environ[FOLDER])


def once(name: str, make: Callable[[], Any]) -> Any:
    """A value that can be JSON, made by the first process of the run that asks for this name."""
    file = folder() / f"{name}.json"
    with file.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            file.write_text(json.dumps(make()))
    return json.loads(file.read_text())


def seeded(name: str, seed: Callable[[str], Any]) -> tuple[str, Any]:
    """The URL of the run's database of this name, and what ``seed`` returned for its URL."""

    def make() -> tuple[str, Any]:
        url = _new(folder() / f"{name}.sqlite3")
        return url, seed(url)

    url, seed_json = once(f"database-{name}", make)
    return url, seed_json


@contextmanager
def database(place: Path, copied: str = "") -> Iterator[str]:
    """The URL of an empty database, or of a copy of ``copied``. Dropped when the block ends.

    It is on SQLite in the folder ``place``, or on PostgreSQL if TEST_DATABASE_URL is set.
    """
    url = _new(place / "service.sqlite3", copied)
    try:
        yield url
    finally:
        _drop(url)


def _new(file: Path, copied: str = "") -> str:
    server = os.environ.get("TEST_DATABASE_URL", "")
    if not server or server.startswith("sqlite"):
        if copied:
            _copy(Path(copied.removeprefix("sqlite:///")), file)
        return f"sqlite:///{file}"
    name = f"served_{os.getpid()}_{secrets.token_hex(3)}"
    template = urlsplit(copied).path.strip("/") or "template1"
    _administer(server, "CREATE DATABASE {} TEMPLATE {}", name, template)
    return urlsplit(server)._replace(path=f"/{name}").geturl()


def _drop(url: str) -> None:
    if not url.startswith("sqlite"):
        _administer(url, "DROP DATABASE {} WITH (FORCE)", urlsplit(url).path.strip("/"))


def _copy(prepared: Path, file: Path) -> None:
    with closing(sqlite3.connect(prepared)) as one, closing(sqlite3.connect(file)) as other:
        one.backup(other)


def _administer(url: str, statement: str, *names: str) -> None:
    address = urlsplit(url)._replace(scheme="postgresql", path="/postgres").geturl()
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


def _remove(made: Path) -> None:
    for file in made.glob(DATABASES):
        _drop(json.loads(file.read_text())[0])
    shutil.rmtree(made)
