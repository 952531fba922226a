"""Django's backend for the replicas that a live server reads (``config.replica`` as ``ENGINE``).

Each statement goes to the node that may be read (``config.replica.patroni``), or to none.
"""

from collections.abc import Callable, Mapping
from typing import Any

from django.db import DatabaseError
from psycopg.abc import RV, PQGen

from config.postgresql import base
from config.replica.patroni import LASTING, Node, nodes
from events.unavailable_reasons import Wait
from events.writer_queue import WaitEnded

ATTEMPTS = 3
# A standby ends a statement that needs what the primary has removed.
CONFLICTS = ("40001", "40P01")
# Tables and columns that a standby does not have yet: this release came with a migration.
MISSING = ("42P01", "42703")


class Connection(base.Connection):
    """A connection to one node, which closes as soon as another one is to be read, or none."""

    is_compared = True  # a standby never is: it may be late

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.node = Node(self.info.host, str(self.info.port))

    @classmethod
    def connect(cls, conninfo: str = "", **options: Any) -> "Connection":
        return super().connect(conninfo, **options | nodes.current().options)

    def is_unfit(self) -> bool:
        return super().is_unfit() or not nodes.reads(self.node)

    def wait(self, gen: PQGen[RV], *args: Any, **options: Any) -> RV:
        if not nodes.reads(self.node):
            self.close()
            raise WaitEnded(Wait.REPLICA)
        return super().wait(gen, *args, **options)

    def _limit(self) -> float:
        return LASTING  # a standby that hangs is not read any longer

    def _give_up(self) -> Wait:
        return Wait.REPLICA


class DatabaseWrapper(base.DatabaseWrapper):
    """The backend. A statement that the replay of the log has cancelled is tried again."""

    def __init__(self, settings_dict: dict[str, Any], alias: str = "default") -> None:
        settings_dict["OPTIONS"]["pool"]["connection_class"] = Connection
        super().__init__(settings_dict, alias)
        self.execute_wrappers.append(_try_again)

    def get_new_connection(self, conn_params: Any) -> Any:
        nodes.current()  # says at once that there is none
        return super().get_new_connection(conn_params)


def _try_again(
    execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Mapping[str, Any]
) -> Any:
    """Executes a statement, up to ``ATTEMPTS`` times.

    Raises ``WaitEnded`` for a table or a column that the standby does not have yet.
    """
    left = ATTEMPTS
    while True:
        left -= 1
        try:
            return execute(sql, params, many, context)
        except DatabaseError as error:
            code = getattr(error.__cause__, "sqlstate", None)
            if code in MISSING:
                raise WaitEnded(Wait.REPLICA) from error
            if not left or code not in CONFLICTS or context["connection"].in_atomic_block:
                raise
