"""One moment of a live database, to read from for as long as it takes."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from django.db import connection, transaction


def snapshot() -> AbstractContextManager[None]:
    """What is read inside was so at one moment; nobody waits for it, and nothing can be written."""
    return _of_postgresql() if connection.vendor == "postgresql" else _of_sqlite()


@contextmanager
def _of_postgresql() -> Iterator[None]:
    with transaction.atomic(durable=True):
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            cursor.execute("SET LOCAL statement_timeout = 0")
            cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        yield


@contextmanager
def _of_sqlite() -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA query_only = ON")
        cursor.execute("BEGIN DEFERRED")  # Django's own would take the one lock of the writers
        try:
            yield
        finally:
            cursor.execute("ROLLBACK")
            cursor.execute("PRAGMA query_only = OFF")
