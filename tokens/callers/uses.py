"""Times of last use that a live server on a replica has to write at the primary.

They are written in the background, together: readers cause no statement each.
"""

import logging
import threading
import time
from datetime import datetime

from django.db import Error, connections

from events.confirmation import unconfirmed
from events.databases import PRIMARY
from tokens.callers.statements import WRITE_USES

logger = logging.getLogger(__name__)

INTERVAL = 1.0  # seconds between two statements
MOST = 500  # tokens of one statement: it locks their rows, for which a revocation may have to wait

_lock = threading.Lock()
# The last use of each token, with its digest under the first key, and that key's id.
_waiting: dict[int, tuple[datetime, str, str]] = {}


def add(token_pk: int, at: datetime, digest: str, key_id: str) -> None:
    """Lets a use be written soon. Any thread may call it."""
    with _lock:
        _waiting[token_pk] = at, digest, key_id


def keep_writing() -> None:
    """Writes some uses each second until the process ends. What cannot be written is dropped.

    The token's next use is noted again.
    """
    while True:
        time.sleep(INTERVAL)
        with _lock:
            some = [(pk, *_waiting.pop(pk)) for pk in sorted(_waiting)[:MOST]]
        try:
            _write(some)
        except Error as error:
            logger.warning("Times of last use were not noted: %s", type(error).__name__)
        finally:
            connections.close_all()


def _write(some: list[tuple[int, datetime, str, str]]) -> None:
    if some:
        with unconfirmed(), connections[PRIMARY].cursor() as cursor:
            cursor.execute(WRITE_USES, [list(column) for column in zip(*some, strict=True)])
