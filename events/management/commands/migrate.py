"""Django's migrate, without the timeouts that requests have (``config.environment``)."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.management.commands.migrate import Command as Migrate
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

TIMEOUTS = ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout")


class Command(Migrate):
    def handle(self, *args: Any, **options: Any) -> None:
        with _without_timeouts(connections[options["database"]]):
            super().handle(*args, **options)


@contextmanager
def _without_timeouts(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Lifts the timeouts: an index on a large log takes minutes, and waits for open writers."""
    if connection.vendor == "postgresql":
        _each(connection, "SET {} = 0")
    yield
    if connection.vendor == "postgresql":
        _each(connection, "RESET {}")


def _each(connection: BaseDatabaseWrapper, statement: str) -> None:
    with connection.cursor() as cursor:
        for name in TIMEOUTS:
            cursor.execute(statement.format(name))
