"""Readers that are ahead of what is read: with live servers on replicas, a standby may be behind.

What is behind is waited for. That a cursor is lost, or that another log has taken the place of this
one, only the primary can say. Without replicas, nothing here waits or takes a statement.
"""

import threading
import time
from collections import deque
from contextlib import suppress

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS

from events import confirmation
from events.databases import PRIMARY, reads_replica, written
from events.feed import read_end, read_head
from events.http.cursors import log_position, place_of
from events.http.refusals import CursorLost
from events.models import Head
from events.unavailable_reasons import Wait
from events.writer_queue import WaitEnded

TIMEOUT = 1.0  # seconds
LOOK_INTERVAL = 0.05  # seconds
# Threads that wait at once. They are among the few that let readers in: whoever finds no place gets
# the answer of those who waited in vain, and comes back. A live server has four of these threads
# (config/live/connection.py).
PLACES = 2

_places = threading.BoundedSemaphore(PLACES)
# Epochs that the primary did not know. None becomes the log's again, so it is asked once for each.
_lost: deque[str] = deque(maxlen=100)


def find(cursor: str) -> tuple[Head, int]:
    """The head of the log, and the position of this cursor.

    Raises ``Invalid`` if it is none, ``CursorLost`` if it is lost, and ``WaitEnded`` if only what
    is read does not have it in time. Another replica may have shown what this one lacks, and what
    the primary has not shown yet: a commit that still waits for its confirmation.
    """
    with suppress(CursorLost):
        return _look_for(cursor)
    epoch, _ = place_of(cursor)
    if settings.REPLICA is None or epoch in _lost:
        raise CursorLost
    if not _places.acquire(blocking=False):
        raise WaitEnded(Wait.REPLICA)
    try:
        return _wait_for(cursor, epoch)
    finally:
        _places.release()


def _wait_for(cursor: str, epoch: str) -> tuple[Head, int]:
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        time.sleep(LOOK_INTERVAL)
        with suppress(CursorLost):
            return _look_for(cursor)
    is_confirmed = not confirmation.is_missing(written())
    if read_head(written()).epoch != epoch:
        _lost.append(epoch)
        raise CursorLost
    if is_confirmed:
        _look_for(cursor, written())
    raise WaitEnded(Wait.REPLICA)


def _look_for(cursor: str, database: str = DEFAULT_DB_ALIAS) -> tuple[Head, int]:
    _, position = place_of(cursor)
    head, event = read_end(position, database)
    return head, log_position(cursor, head.epoch, head.position, lambda _: event)


def require(position: int, epoch: str, head: Head | None = None) -> None:
    """Raises ``WaitEnded`` if the replica lacks what was read before, up to this position.

    ``head`` is that of the replica, if it is known. If its log is another one than that of
    ``epoch``, the primary says which is the later one.
    """
    if not reads_replica():
        return
    head = head or read_head()
    is_behind = head.position < position
    if head.epoch != epoch:
        is_behind = read_head(PRIMARY).epoch != head.epoch
    if is_behind:
        raise WaitEnded(Wait.REPLICA)
