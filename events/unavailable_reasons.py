"""What a request waited for in vain, when it is answered ``unavailable``.

The log names it, ``/metrics`` counts by it, and the answer says it in words. ``give_way`` keeps
others from waiting for a long answer.
"""

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from events.choices import ExplainedEnum

Item = TypeVar("Item")

# Python's threads take turns while they compute. Without these pauses, each statement of a signal
# in the same process would wait for a turn of 5 ms: ten statements took 140 ms instead of 3 ms.
PAUSE = 0.0001  # seconds


def give_way(items: Iterable[Item], every: int) -> Iterator[Item]:
    """The items, with a pause for the other threads of this process before each ``every`` of them.

    It is for work that takes more than some milliseconds of the processor.
    """
    for number, item in enumerate(items):
        if number % every == 0:
            time.sleep(PAUSE)
        yield item


class Wait(ExplainedEnum):
    """What a wait was for. Operators and alerts read the values, and clients the sentences."""

    QUEUE = "queue", "The request waited too long for its turn to write."
    CONNECTION = "connection", "No connection to the database was free in time."
    LOCK = "lock", "Somebody else wrote to the database for too long."
    STATEMENT = "statement", "The database took too long."
    PROCESS = "process", "The server was too busy to go on in time."
    CONFIRMATION = "confirmation", "The database did not confirm in time what was written."
    REPLICA = "replica", "No replica of the database has what was asked for."
    NEW_EPOCH = (
        "new_epoch",
        "The database has lost events. Nothing is recorded until an operator allows it again.",
    )
    REPLACED_LOG = "replaced_log", "The log of events was replaced a moment ago."
    DATABASE = "database", "The database is not available."
    CACHE = "cache", "The cache is not available."
    READERS = "readers", "No place for another reader is free."
    DOWNLOADS = "downloads", "No place for another download is free."
    PASSWORDS = "passwords", "Many passwords are being checked."


_BY_CODE = {  # PostgreSQL's codes of errors
    "55P03": Wait.LOCK,  # lock_not_available
    "40P01": Wait.LOCK,  # deadlock_detected
    "57014": Wait.STATEMENT,  # query_canceled
    "25P03": Wait.PROCESS,  # idle_in_transaction_session_timeout
}
_BY_WORDS = {  # errors without a code
    "terminating connection due to idle-in-transaction timeout": Wait.PROCESS,  # as libpq has it
    "database is locked": Wait.LOCK,  # SQLite
}


def wait_of(error: BaseException | None) -> Wait:
    """What an error ended the wait for: what the first of its causes says, else the database."""
    while error is not None:
        if found := _says(error):
            return found
        error = error.__cause__
    return Wait.DATABASE


def _says(error: BaseException) -> Wait | None:
    if isinstance(wait := getattr(error, "wait", None), Wait):
        return wait
    if type(error).__module__.startswith("psycopg_pool"):
        return Wait.CONNECTION
    if code := getattr(error, "sqlstate", None):
        return _BY_CODE.get(code, Wait.DATABASE)
    return next((wait for words, wait in _BY_WORDS.items() if words in str(error)), None)
