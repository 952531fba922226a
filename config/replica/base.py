"""Django's backend for the replicas that a live server reads (``config.replica`` as ``ENGINE``).

Each statement goes to the node that may be read (``config.replica.patroni``), or to none.
"""

from collections.abc import Callable, Mapping
from typing import Any

from django.db import OperationalError
from psycopg.abc import RV, PQGen

from config.postgresql import base
from config.replica.patroni import Node, nodes
from events.unavailable_reasons import Wait
from events.writer_queue import WaitEnded

ATTEMPTS = 3
# A standby ends a statement that needs what the primary has removed.
CONFLICTS = ("40001", "40P01")


class Connection(base.Connection):
    """A connection to one node, which closes as soon as another one is to be read, or none."""

    is_compared = True  # a standby never is: it may be late

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.node = Node(self.info.host, str(self.info.port))

    @classmethod
    def connect(cls, conninfo: str = "", **options: Any) -> "Connection":
        node = nodes.current()
        options |= {"host": node.host, "port": node.port, "target_session_attrs": "any"}
        return super().connect(conninfo, **options)

    def is_unfit(self) -> bool:
        return super().is_unfit() or self.node != nodes.current()

    def wait(self, gen: PQGen[RV], *args: Any, **options: Any) -> RV:
        if self.node != nodes.current():
            self.close()
            raise WaitEnded(Wait.REPLICA)
        return super().wait(gen, *args, **options)


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
    """Executes a statement, up to ``ATTEMPTS`` times."""
    for _ in range(ATTEMPTS - 1):
        try:
            return execute(sql, params, many, context)
        except OperationalError as error:
            is_conflict = getattr(error.__cause__, "sqlstate", None) in CONFLICTS
            if not is_conflict or context["connection"].in_atomic_block:
                raise
    return execute(sql, params, many, context)
