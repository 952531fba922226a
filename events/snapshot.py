"""A consistent, read-only snapshot of a live database."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from django.db import connection, transaction


def snapshot() -> AbstractContextManager[None]:
    """All reads inside see the database at one point in time. It blocks no writer."""
    return _postgresql_snapshot() if connection.vendor == "postgresql" else _sqlite_snapshot()


@contextmanager
def _postgresql_snapshot() -> Iterator[None]:
    with transaction.atomic(durable=True):
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            cursor.execute("SET LOCAL statement_timeout = 0")
            cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        yield


@contextmanager
def _sqlite_snapshot() -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA query_only = ON")
        cursor.execute("BEGIN DEFERRED")  # Django's BEGIN IMMEDIATE takes the write lock
        try:
            yield
        finally:
            cursor.execute("ROLLBACK")
            cursor.execute("PRAGMA query_only = OFF")
