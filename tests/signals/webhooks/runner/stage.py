"""Runners on the test's database, as processes or in a thread, and subscriptions for them."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import uvloop
from django.db import connection, transaction
from django.db.models import QuerySet

from desks.models import Desk
from events.actors import SYSTEM
from signals.outbound.database import follow_log, in_database, read_database, tell_log
from signals.webhooks import actions
from signals.webhooks.models import Subscription
from signals.webhooks.runner.loop import deliver_webhooks
from tests.server import AS_INSTALLED, ROOT

LIMIT = 90.0  # seconds for a condition, on a slow machine
ALLOWED = {"DELIVERY_ALLOW": "127.0.0.0/8", "REQUIRE_HTTPS": "off"}


def database_url() -> str:
    """The test's database, for another process."""
    found = connection.settings_dict
    if connection.vendor != "postgresql":
        return f"sqlite:///{found['NAME']}"
    address = f"{found['USER']}@{found['HOST']}:{found['PORT']}"
    return f"postgres://{address}/{found['NAME']}"


def environment(**settings: str) -> dict[str, str]:
    """The environment of a runner on the test's database."""
    own = {
        "DJANGO_SETTINGS_MODULE": "tests.served_settings",  # it has the suite's patience
        "DATABASE_URL": database_url(),
        "STATIC_ROOT": str(ROOT / "staticfiles"),
        "CACHE_PREFIX": "runner",
    }
    return {**os.environ, **AS_INSTALLED, **ALLOWED, **own, **settings}


class RunnerProcess:
    """A runner. Its log is in ``log``."""

    def __init__(self, log: Path, command: Sequence[str] = (), **settings: str) -> None:
        self.log = log
        with open(log, "ab") as file:
            self._process = subprocess.Popen(
                command or [sys.executable, "manage.py", "deliver"],
                cwd=ROOT,
                env=environment(**settings),
                stdout=file,
                stderr=file,
            )

    def send(self, number: int) -> None:
        self._process.send_signal(number)

    def wait(self) -> int:
        return self._process.wait(LIMIT)

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            self.send(signal.SIGCONT)
            self._process.kill()
        self._process.wait(LIMIT)

    def stop(self) -> int:
        self.send(signal.SIGTERM)
        return self.wait()

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None


@contextmanager
def runners(folder: Path, count: int = 1, **settings: str) -> Iterator[list[RunnerProcess]]:
    """Runs so many runners until the block ends. Fails if one of them logged an error."""
    running = [RunnerProcess(folder / f"runner-{n}.log", **settings) for n in range(count)]
    try:
        yield running
    finally:
        for runner in running:
            runner.kill()
    for runner in running:
        assert "Traceback" not in runner.log.read_text(), runner.log.read_text()


@contextmanager
def running(count: int = 1) -> Iterator[None]:
    """Runs so many runners in a thread until the block ends, with the test's settings.

    A process takes longer to start than most of these tests. Fails if one of them logged an error.
    """
    errors = Errors(logging.ERROR)
    log = logging.getLogger("signals.webhooks")
    log.addHandler(errors)
    began: Future[Callable[[], object]] = Future()
    try:
        with ThreadPoolExecutor(1) as thread:
            ended = thread.submit(uvloop.run, _run(count, began))
            stop = began.result(LIMIT)
            try:
                yield
            finally:
                stop()
                ended.result(LIMIT)
    finally:
        log.removeHandler(errors)
    assert errors.logged == []


async def _run(count: int, began: Future[Callable[[], object]]) -> None:
    """Runs runners until somebody calls the result of ``began``."""
    stop = asyncio.Event()
    began.set_result(partial(asyncio.get_running_loop().call_soon_threadsafe, stop.set))
    try:
        await asyncio.gather(*(deliver_webhooks(stop) for _ in range(count)))
    finally:
        await close_connections()


class Errors(logging.Handler):
    """What was logged, with tracebacks."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.logged: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.logged.append(self.format(record))


def subscribe(url: str, desk: Desk | None = None, kinds: Sequence[str] = ()) -> tuple[str, Any]:
    """A subscription whose URL counts as tested; its secret's text and its row."""
    secret, row = actions.create(desk=desk, url=url, kinds=kinds, actor=SYSTEM)
    Subscription.objects.filter(pk=row.pk).update(
        state="active", is_verified=True, test_requested_at=None
    )
    row.refresh_from_db()
    return secret, row


@contextmanager
def locked(rows: QuerySet[Any]) -> Iterator[None]:
    """Holds the locks of these rows until the block ends."""
    with transaction.atomic():
        list(rows.select_for_update())
        yield


def current(row: Subscription) -> Subscription:
    row.refresh_from_db()
    return row


def until(holds: Callable[[], Any], limit: float = LIMIT, pause: float = 0.02) -> Any:
    """Waits until this is true, and returns it. ``pause`` is between two looks, in seconds."""
    deadline = time.monotonic() + limit
    while not (found := holds()):
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(pause)
    return found


THREADS = {in_database: 2, read_database: 2, tell_log: 1, follow_log: 1}


async def close_connections() -> None:
    """Closes those of the runner's threads, or the test database could not be dropped."""
    for threads, count in THREADS.items():
        together = threading.Barrier(count)

        def close(together: threading.Barrier = together) -> None:
            together.wait(LIMIT)
            connection.close()

        await asyncio.gather(*(threads(close) for _ in range(count)))
