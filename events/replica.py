"""What a live server does where the replica that it reads is behind what a reader has read.

It waits a moment for the replica. That a cursor is lost, or that another log has taken the place of
this one, only the primary can say. Without a replica, nothing here takes a statement.
"""

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

from events.databases import PRIMARY, reads_replica
from events.feed import read_head, read_identity
from events.http.cursors import epoch_of, log_position
from events.http.refusals import CursorLost
from events.identity import Identity
from events.models import Head
from events.unavailable_reasons import Wait
from events.writer_queue import WaitEnded

TIMEOUT = 1.0  # seconds
LOOK_INTERVAL = 0.05  # seconds
# Threads that wait at once. They are among the few that let readers in: whoever finds no place gets
# the answer of those who waited in vain, and comes back.
PLACES = 2

_places = threading.BoundedSemaphore(PLACES)
# Epochs that the primary did not know. None becomes the log's again, so it is asked once for each.
_lost: deque[str] = deque(maxlen=100)


def reach(position: int) -> None:
    """Waits until what this thread reads has the log up to this position.

    A process reads one node at a time. The next one may be behind. Raises ``WaitEnded`` if it
    stays so.
    """
    if not reads_replica() or read_head().position >= position:
        return
    with _place():
        for _ in _attempts():
            if read_head().position >= position:
                return
    raise WaitEnded(Wait.REPLICA)


def find(cursor: str) -> tuple[Head, int]:
    """The head of the log, and the position of this cursor.

    Raises ``Invalid`` if it is none, and ``CursorLost`` if it is lost. A replica may lack what the
    cursor names, or have another event there until the primary's log has come: it is waited for,
    and then the primary is asked. Raises ``WaitEnded`` if only the replica does not know it.
    """
    if not reads_replica():
        return _look_for(cursor)
    with suppress(CursorLost):
        return _look_for(cursor)
    epoch = epoch_of(cursor)
    if epoch in _lost:
        raise CursorLost
    with _place():
        for _ in _attempts():
            with suppress(CursorLost):
                return _look_for(cursor)
        head = read_head(PRIMARY)
        if head.epoch != epoch:
            _lost.append(epoch)
            raise CursorLost
        log_position(cursor, epoch, head.position, partial(read_identity, database=PRIMARY))
    raise WaitEnded(Wait.REPLICA)


def is_behind(head: Head, position: int, epoch: str) -> bool:
    """Whether the replica with this head lacks what was read of the log before.

    If its log is another one than that of ``epoch``, the primary says which is the later one.
    """
    if not reads_replica():
        return False
    if head.epoch != epoch:
        return read_head(PRIMARY).epoch != head.epoch
    return head.position < position


def has_lost(event: Identity | None) -> bool:
    """Whether the log has lost this event, which was read of it, and has another one there.

    A promotion may lose what a standby showed before it was confirmed. Raises ``WaitEnded`` if only
    the replica has another one.
    """
    if event is None or not reads_replica() or read_identity(event.position) == event:
        return False
    if read_identity(event.position, PRIMARY) == event:
        raise WaitEnded(Wait.REPLICA)
    return True


def _look_for(cursor: str) -> tuple[Head, int]:
    head = read_head()
    return head, log_position(cursor, head.epoch, head.position, read_identity)


def _attempts() -> Iterator[None]:
    """Yields after each ``LOOK_INTERVAL``, for ``TIMEOUT`` seconds."""
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        time.sleep(LOOK_INTERVAL)
        yield


@contextmanager
def _place() -> Iterator[None]:
    if not _places.acquire(blocking=False):
        raise WaitEnded(Wait.REPLICA)
    try:
        yield
    finally:
        _places.release()
