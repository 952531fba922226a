"""A fair queue of writers, in front of the database's write lock.

On SQLite a writer that waits sleeps and polls, so under load some writers starve. This queue lets
the threads of a process wait for a lock, and the processes for a lock on a file beside the database
file. PostgreSQL has a fair queue, so only the threads of one process queue here. If the database is
down, everyone queued behind the failed writer fails at once, instead of each waiting for a timeout.
"""

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from django.db import InterfaceError, InternalError, OperationalError, connection

TIMEOUT = 1.8  # seconds: leaves time to answer within the contract's two seconds
POLL_INTERVAL = 0.001  # seconds

DATABASE_ERRORS = (OperationalError, InterfaceError, InternalError)

_this_process = threading.Lock()
_last_failure_at = 0.0  # monotonic time of the last database error of a writer in this process


def wait_for_turn() -> AbstractContextManager[None]:
    """Waits for this writer's turn; raises ``OperationalError`` after ``TIMEOUT`` seconds."""
    return _file_queue(TIMEOUT) if connection.vendor == "sqlite" else _fail_together(TIMEOUT)


@contextmanager
def try_write_lock() -> Iterator[bool]:
    """Yields whether the caller may write now. For optional writes outside the log; never waits."""
    with ExitStack() as held:
        try:
            if connection.vendor == "sqlite":
                held.enter_context(_file_queue(timeout=0))
        except OperationalError:
            yield False
        else:
            yield True


@contextmanager
def _thread_queue(timeout: float) -> Iterator[None]:
    if not _this_process.acquire(timeout=timeout):
        raise OperationalError("The log is busy.")
    try:
        yield
    finally:
        _this_process.release()


@contextmanager
def _fail_together(timeout: float) -> Iterator[None]:
    global _last_failure_at  # noqa: PLW0603 - one per process, guarded by _this_process
    arrived = time.monotonic()
    with _thread_queue(timeout):
        if _last_failure_at > arrived:
            raise OperationalError("The database is unavailable.")
        try:
            yield
        except DATABASE_ERRORS:
            _last_failure_at = time.monotonic()
            raise


@contextmanager
def _file_queue(timeout: float) -> Iterator[None]:
    deadline = time.monotonic() + timeout
    name = f"{connection.settings_dict['NAME']}.queue"
    with _thread_queue(timeout), open(name, "w", opener=_open_private) as file:
        _lock(file.fileno(), deadline)
        yield


def _open_private(path: str, flags: int) -> int:
    """Opens the file for its owner only: anyone who can lock it can block all writers."""
    return os.open(path, flags, mode=0o600)


def _lock(descriptor: int, deadline: float) -> None:
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise OperationalError("The log is busy.") from None
            time.sleep(POLL_INTERVAL)
