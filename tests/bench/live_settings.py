"""The settings of a live server that counts its SQL statements, in /metrics."""

from typing import Any

from django.db.backends.signals import connection_created
from prometheus_client import Counter

from tests.served_settings import *  # noqa: F403

STATEMENTS = Counter("bench_statements", "SQL statements")


def count(execute: Any, *arguments: Any) -> Any:
    STATEMENTS.inc()
    return execute(*arguments)


def count_statements_of(connection: Any, **_: object) -> None:
    """A connection of the pool comes back to the same wrappers."""
    if count not in connection.execute_wrappers:
        connection.execute_wrappers.append(count)


connection_created.connect(count_statements_of)
