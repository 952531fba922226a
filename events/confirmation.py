"""Whether commits are confirmed: with synchronous replication PostgreSQL waits for a standby.

Nothing in PostgreSQL ends that wait, and a commit whose wait was cancelled is reported as done. So
a connection gives a commit up after ``TIMEOUT`` seconds (``config/postgresql``): it closes, and
what became of the commit is unknown. The server's session waits on, with its locks. While one does,
other commits would wait in vain as well, and each would leave a session behind. So once a commit or
the log's lock was waited for in vain, a process looks for such a session before the next one.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import DEFAULT_DB_ALIAS, connections, transaction

from events.databases import written
from events.unavailable_reasons import Wait
from events.writer_queue import WaitEnded

TIMEOUT = 1.5  # seconds for a commit

# A commit has waited for a second: for a standby or, rarely, for a disk that stands still.
IS_MISSING = """EXISTS (SELECT FROM pg_stat_activity
WHERE datname = current_database()
AND state = 'active' AND (query = 'COMMIT' OR wait_event = 'SyncRep')
AND query_start < clock_timestamp() - interval '1 second')"""
# The same, and whether the commit of this transaction would wait for a standby.
BEFORE_COMMIT = f"""SELECT {IS_MISSING}, pg_current_xact_id_if_assigned() IS NOT NULL
AND current_setting('synchronous_commit') NOT IN ('local', 'off')"""

# Set if this process waited in vain for a commit or for the log's lock.
doubted = threading.Event()


def is_missing(database: str = DEFAULT_DB_ALIAS) -> bool:
    """Whether a commit has waited for a second and still waits. One statement on PostgreSQL.

    It sees only the sessions of its own role in the database of this alias.
    """
    if connections[database].vendor != "postgresql":
        return False
    with connections[database].cursor() as cursor:
        cursor.execute(f"SELECT {IS_MISSING}")
        return bool(cursor.fetchone() == (True,))


def require() -> None:
    """Raises ``WaitEnded`` if commits wait in vain. It asks the database only in doubt."""
    if doubted.is_set():
        if is_missing():
            raise WaitEnded(Wait.CONFIRMATION)
        # A doubt that began meanwhile may go too. The next commit in vain raises it again.
        doubted.clear()


@contextmanager
def unconfirmed() -> Iterator[None]:
    """A transaction that waits for no standby, so a failover may lose it.

    It is for times of last use, and for the cache. Inside another transaction it is part of that
    one, and waits with it.
    """
    database = connections[written()]
    is_own = not database.in_atomic_block
    with transaction.atomic(using=database.alias):
        if is_own and database.vendor == "postgresql":
            with database.cursor() as cursor:
                cursor.execute("SET LOCAL synchronous_commit = local")
        yield
