"""Times of last use that a live server on a replica has to write at the primary.

They are written in the background, together: readers cause no statement each.
"""

import logging
import threading
import time
from datetime import datetime
from typing import NamedTuple

from django.db import DatabaseError, connections

from events.confirmation import unconfirmed
from events.databases import PRIMARY
from tokens.callers.statements import WRITE_USES

logger = logging.getLogger(__name__)

INTERVAL = 1.0  # seconds between two statements
MOST = 500  # tokens of one statement: it locks their rows, for which a revocation may have to wait


class Use(NamedTuple):
    """A use of a token, and its digest under the first key."""

    token_pk: int
    at: datetime
    digest: str
    key_id: str


class Uses:
    """The last use of each token that waits to be written. Any thread may add one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[int, Use] = {}

    def add(self, use: Use) -> None:
        with self._lock:
            self._waiting[use.token_pk] = use

    def write(self) -> None:
        """Writes some in one statement. What cannot be written now is dropped.

        The token's next use is noted again. Raises ``DatabaseError``.
        """
        with self._lock:
            some = [self._waiting.pop(pk) for pk in sorted(self._waiting)[:MOST]]
        if some:
            with unconfirmed(), connections[PRIMARY].cursor() as cursor:
                cursor.execute(WRITE_USES, [list(column) for column in zip(*some, strict=True)])

    def keep_writing(self) -> None:
        """Writes until the process ends."""
        while True:
            time.sleep(INTERVAL)
            try:
                self.write()
            except DatabaseError as error:
                logger.warning("Times of last use were not noted: %s", type(error).__name__)
            finally:
                connections.close_all()


uses = Uses()
