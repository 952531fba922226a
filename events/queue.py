"""Whose turn it is on SQLite: a fair queue before the database's one write lock.

SQLite lets writers wait by sleeping and looking again, so that a crowd starves its slowest member.
Here threads of one process queue on a lock, and the processes on a lock of a file beside the
database. PostgreSQL queues by itself; there only threads of one process queue here, and who waited
behind one that found the database away is told so with it: in turn each would wait for it anew.
"""

import fcntl
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from django.db import InterfaceError, InternalError, OperationalError, connection

PATIENCE = 1.8  # seconds: with the answer's way back, under the contract's two
LOOK_AGAIN = 0.001  # seconds

AWAY = (OperationalError, InterfaceError, InternalError)

_this_process = threading.Lock()
_found_away = 0.0  # when a writer of this process last found the database away


def turn_in_queue() -> AbstractContextManager[None]:
    """Waits for this writer's turn; raises ``OperationalError`` when it does not come in time."""
    return _file_queue(PATIENCE) if connection.vendor == "sqlite" else _shared_fate(PATIENCE)


@contextmanager
def unless_busy() -> Iterator[bool]:
    """Whether a small write beside the log can be made now: one that is not worth any waiting."""
    with ExitStack() as held:
        try:
            if connection.vendor == "sqlite":
                held.enter_context(_file_queue(patience=0))
        except OperationalError:
            yield False
        else:
            yield True


@contextmanager
def _process_queue(patience: float) -> Iterator[None]:
    if not _this_process.acquire(timeout=patience):
        raise OperationalError("The log is busy.")
    try:
        yield
    finally:
        _this_process.release()


@contextmanager
def _shared_fate(patience: float) -> Iterator[None]:
    global _found_away  # noqa: PLW0603 - of the process, as its lock, which guards it
    came = time.monotonic()
    with _process_queue(patience):
        if _found_away > came:
            raise OperationalError("The database is away.")
        try:
            yield
        except AWAY:
            _found_away = time.monotonic()
            raise


@contextmanager
def _file_queue(patience: float) -> Iterator[None]:
    deadline = time.monotonic() + patience
    with _process_queue(patience), open(f"{connection.settings_dict['NAME']}.queue", "w") as file:
        _lock(file.fileno(), deadline)
        yield


def _lock(descriptor: int, deadline: float) -> None:
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise OperationalError("The log is busy.") from None
            time.sleep(LOOK_AGAIN)
