"""A fair queue of writers in front of SQLite's write lock, and the errors of a wait for a lock.

On SQLite a writer that waits sleeps and polls, so under load some writers starve. This queue lets
the threads of a process wait for a lock, and the processes for a lock on a file beside the database
file. PostgreSQL has a fair queue of its own.
"""

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext

from django.db import InterfaceError, InternalError, OperationalError, connection

from events.unavailable_reasons import Wait, wait_of

TIMEOUT = 1.8  # seconds: leaves time to answer within the contract's two seconds
POLL_INTERVAL = 0.001  # seconds

# Raised if the database is down, a lock timed out, or the database ended an idle transaction.
DATABASE_ERRORS = (OperationalError, InterfaceError, InternalError)

_this_process = threading.Lock()


class WaitEnded(OperationalError):
    """A wait of the service itself ended without what it was for."""

    def __init__(self, wait: Wait) -> None:
        super().__init__(f"The wait ended in vain: {wait}.")
        self.wait = wait


def fails_all(error: BaseException) -> bool:
    """Whether those who wait behind a writer that failed so would wait in vain too.

    A writer that stood still itself has lost the lock, and the next one gets it.
    """
    return isinstance(error, DATABASE_ERRORS) and wait_of(error) is not Wait.PROCESS


def wait_for_turn() -> AbstractContextManager[None]:
    """Waits for this writer's turn; raises ``OperationalError`` after ``TIMEOUT`` seconds."""
    return _file_queue(TIMEOUT) if connection.vendor == "sqlite" else nullcontext()


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
def _file_queue(timeout: float) -> Iterator[None]:
    deadline = time.monotonic() + timeout
    name = f"{connection.settings_dict['NAME']}.queue"
    if not _this_process.acquire(timeout=timeout):
        raise WaitEnded(Wait.QUEUE)
    try:
        with open(name, "w", opener=_open_private) as file:
            _lock(file.fileno(), deadline)
            yield
    finally:
        _this_process.release()


def _open_private(path: str, flags: int) -> int:
    """Opens the file for its owner only: anyone who can lock it can block all writers."""
    return os.open(path, flags, mode=0o600)


def _lock(descriptor: int, deadline: float) -> None:
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise WaitEnded(Wait.LOCK) from None
            time.sleep(POLL_INTERVAL)
