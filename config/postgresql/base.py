"""Django's backend for PostgreSQL, with four parts of its own.

* A check of pooled connections that asks no server. The pool's own check sends a query before each
  request. And a request that meets two closed connections pauses for a second, beyond the pool's
  timeout.
* A connection that tells an unconfirmed commit from a confirmed one, and gives it up in time.
* A look, before a new connection is used, whether the server still has what this process has seen.
* A loader of times. The driver's own took 3.5 µs for each: a sixth of a page of a thousand events.
"""

import select
import time
from datetime import UTC, datetime
from typing import Any

import psycopg
from django.db import DEFAULT_DB_ALIAS
from django.db.backends.postgresql import base
from psycopg.abc import RV, Buffer, PQGen
from psycopg.adapt import Loader
from psycopg.errors import Diagnostic
from psycopg.pq import TransactionStatus

from events import confirmation
from events.unavailable_reasons import Wait
from events.writer_queue import WaitEnded


class DatabaseWrapper(base.DatabaseWrapper):
    """The backend: ``config.postgresql`` as ``ENGINE``."""

    def __init__(self, settings_dict: dict[str, Any], alias: str = "default") -> None:
        super().__init__(settings_dict, alias)
        if pool := settings_dict["OPTIONS"].get("pool"):
            pool.setdefault("connection_class", Connection)

    def get_connection_params(self) -> dict[str, Any]:
        params: dict[str, Any] = super().get_connection_params()
        params["context"].register_loader("timestamptz", UtcLoader)
        return params

    def get_new_connection(self, conn_params: Any) -> Any:
        """A connection that the server has not closed, and that has the last event seen here.

        Raises ``OperationalError`` if the pool has none within its timeout.
        """
        began = time.monotonic()
        connection = super().get_new_connection(conn_params)
        while self.pool and connection.is_unfit():
            connection.close()
            self.pool.putconn(connection)  # which replaces it
            connection = self.pool.getconn(max(0.0, began + self.pool.timeout - time.monotonic()))
        if self.alias == DEFAULT_DB_ALIAS and not getattr(connection, "is_compared", False):
            self._compare(connection)
        return connection

    def _compare(self, connection: Any) -> None:
        from events import losses  # noqa: PLC0415 - its models need this module

        connection.autocommit = True  # as Django sets it next
        try:
            is_compared = losses.memory.halt_if_lost(connection)
        except psycopg.errors.UndefinedTable:  # it has no log: nothing can be written there
            is_compared = False
        except BaseException:
            connection.close()
            if self.pool:
                self.pool.putconn(connection)
            raise
        connection.is_compared = is_compared


class Connection(psycopg.Connection[Any]):
    """A connection that raises ``WaitEnded`` for what was written and not confirmed.

    That is a commit, or a statement with a transaction of its own, whose wait for a standby was
    cancelled in the server, or took too long. If it took too long, the connection is closed:
    cancelled, its transaction would count as committed, although no standby has it.
    ``is_patient`` lifts the limits.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.is_patient = False
        self._commits = self._was_cancelled = False
        self.add_notice_handler(self._notice)

    def is_unfit(self) -> bool:
        """Whether the server has closed this idle connection, as far as this machine knows.

        It sends nothing on one that is idle, except its reason to close it.
        """
        idle = select.poll()
        idle.register(self, select.POLLIN)
        return bool(idle.poll(0))

    def commit(self) -> None:
        """Commits. In doubt it raises before, if that would wait in vain: the caller rolls back."""
        is_open = self.info.transaction_status == TransactionStatus.INTRANS
        if is_open and confirmation.doubted.is_set():
            state = self.execute(confirmation.BEFORE_COMMIT).fetchone()
            if state == (True, True):
                raise WaitEnded(Wait.CONFIRMATION)
            if state == (False, True):
                confirmation.doubted.clear()
        self._commits = True
        try:
            super().commit()
        finally:
            self._commits = False

    def wait(self, gen: PQGen[RV], *args: Any, **options: Any) -> RV:
        """Waits for the server, as every statement and every commit does."""
        self._was_cancelled = False
        try:
            result = super().wait(gen, *args, **{"timeout": self._limit(), **options})
        except psycopg.OperationalError:
            if self.pgconn.transaction_status != TransactionStatus.ACTIVE:
                raise  # the server has answered, or is gone
            self.close()
            raise WaitEnded(self._give_up()) from None
        if self._was_cancelled:
            raise WaitEnded(Wait.CONFIRMATION)
        return result

    def _limit(self) -> float | None:
        """Seconds to wait. PostgreSQL's own limits end everything but a wait for a standby."""
        if self.is_patient:
            return None
        if self._commits:
            return confirmation.TIMEOUT
        return 10 * confirmation.TIMEOUT if self.autocommit else None

    def _give_up(self) -> Wait:
        """Called when the limit has passed. Returns what was waited for."""
        confirmation.doubted.set()
        return Wait.CONFIRMATION

    def _notice(self, notice: Diagnostic) -> None:
        # Its text depends on the language, and its code is that of any warning.
        if notice.source_function == "SyncRepWaitForLSN":
            self._was_cancelled = True


class UtcLoader(Loader):
    """Times as PostgreSQL writes them in a session of UTC: ``2026-11-20 09:30:00.123+00``."""

    timezone = UTC  # Django compares it with its own

    def load(self, data: Buffer) -> datetime:
        return datetime.fromisoformat(bytes(data).decode())
