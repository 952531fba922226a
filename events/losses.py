"""Whether the database has lost events: after a promotion of a standby that did not have them all.

A process remembers the last event that it has written, or that its hub has read. Before it uses a
new connection to PostgreSQL, it looks whether that event is still there. If not, it halts the log:
no turn at the log is taken until ``manage.py new_epoch``. Reads go on. SQLite has no other server
that could have lost something.
"""

import logging
from typing import TYPE_CHECKING, Any

from events.models import Event, Identity
from events.statements import HEAD

if TYPE_CHECKING:
    import psycopg

logger = logging.getLogger(__name__)

# The event at a position: NULLs if there is none, and no row at a standby.
FIND = f"""SELECT {", ".join(f"event.{column}" for column in Identity._fields)}
FROM {HEAD} AS head LEFT JOIN {Event._meta.db_table} AS event ON event.position = %s
WHERE NOT pg_is_in_recovery()"""
# It waits for no standby: after a promotion there may be none yet, and reads go on.
HALT = f"""UPDATE {HEAD} SET halted = true WHERE epoch = %s AND NOT halted
AND set_config('synchronous_commit', 'local', true) = 'local'"""


class Memory:
    """The last event that this process has seen committed."""

    def __init__(self) -> None:
        self._last: tuple[str, Event] | None = None  # with the epoch of its log

    def note(self, event: Event, epoch: str) -> None:
        """Remembers a committed event, unless a later one of the same log is remembered."""
        last = self._last
        if last is None or last[0] != epoch or last[1].position < event.position:
            self._last = epoch, event

    def halt_if_lost(self, connection: "psycopg.Connection[Any]") -> bool:
        """Halts the log of this connection, which is in no transaction, if it has lost the event.

        After ``manage.py new_epoch`` an event of the epoch before is not lost.

        Returns whether it was compared: not if nothing is remembered, and not at a standby, which
        may be late; if that is promoted, its connections stay. Takes one statement, and another one
        to halt.
        """
        if self._last is None:
            return False
        epoch, event = self._last
        found = connection.execute(FIND, [event.position]).fetchone()
        if found is None:
            return False
        if found != event.identity and connection.execute(HALT, [epoch]).rowcount:
            logger.error(
                "The database has lost events: at position %d it has none or another one. Nothing "
                "is written until manage.py new_epoch.",
                event.position,
            )
        return True


memory = Memory()
