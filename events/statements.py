"""Handwritten SQL, above all for the statements that run under the log's lock.

While one writer holds the lock, all others wait for its Python code and its round trips. Table and
column names come from the models.
"""

import functools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connection, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Model
from django.db.models.expressions import RawSQL

from events.models import Head

TIMEOUTS = ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout")

Parameters = Sequence[Any] | Mapping[str, Any] | None


def execute(statement: str, params: Parameters = None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, params)


def fetch_one(statement: str, params: Parameters = None, database: str = DEFAULT_DB_ALIAS) -> Any:
    """The first row as a tuple, or None if there is none."""
    with connections[database].cursor() as cursor:
        cursor.execute(statement, params)
        return cursor.fetchone()


def fetch_all(statement: str, params: Parameters = None) -> list[Any]:
    """All rows, as tuples."""
    with connection.cursor() as cursor:
        cursor.execute(statement, params)
        return list(cursor.fetchall())


class UnionAll:
    """A statement of parts that each have a limit, which SQLite takes in a subquery only."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.values: list[object] = []

    def __str__(self) -> str:
        return " UNION ALL ".join(self.parts)

    def add(self, part: str, values: Iterable[object]) -> None:
        self.parts.append(f"SELECT * FROM ({part}) AS part")
        self.values += values

    def rows(self) -> list[Any]:
        """The rows of all parts; none without any part."""
        return fetch_all(str(self), self.values) if self.parts else []


@contextmanager
def planned_for_values() -> Iterator[None]:
    """PostgreSQL plans each statement of this block for its values, every time.

    A statement that is repeated is planned once for all values. That plan is slow for a condition
    that almost all rows meet at one time, and almost none at another.
    """
    if connection.vendor != "postgresql":
        yield
        return
    connection.ensure_connection()
    driver = connection.connection
    usual, driver.prepare_threshold = driver.prepare_threshold, None
    try:
        yield
    finally:
        driver.prepare_threshold = usual


def columns(model: type[Model]) -> str:
    """The column list of an INSERT into the model's table."""
    return ", ".join(str(field.column) for field in written_fields(model))


def listed(values: Iterable[str] | Iterable[int], *, are_numbers: bool = False) -> RawSQL:
    """Any number of texts, or of numbers, as one parameter, for ``column__in``.

    Databases bound the number of parameters: PostgreSQL at 65,535.
    """
    if connection.vendor != "postgresql":
        return RawSQL("SELECT value FROM json_each(%s)", [json.dumps(list(values))])
    if are_numbers:
        return RawSQL("SELECT unnest(%s::bigint[])", [list(values)])
    return RawSQL("SELECT unnest(%s::text[])", [list(values)])


def adapt_datetime(time: datetime) -> Any:
    """A time as a parameter of a statement."""
    return connection.ops.adapt_datetimefield_value(time)


def parse_datetime(value: datetime) -> datetime:
    """A time that a statement returned, in UTC. SQLite returns it without a time zone."""
    return value if value.tzinfo else value.replace(tzinfo=UTC)


@functools.cache
def written_fields(model: type[Model]) -> list[Any]:
    """The fields whose columns an INSERT writes: not those that the database computes."""
    return [field for field in model._meta.concrete_fields if not field.generated]


HEAD = Head._meta.db_table
_COUNTER = f"""SELECT position, at, epoch FROM {HEAD}
WHERE id = 1 AND (NOT halted OR %(although_halted)s)"""
# By vendor. SQLite's lock is taken by BEGIN.
LOCK_COUNTER = {"postgresql": f"{_COUNTER} FOR NO KEY UPDATE", "sqlite": _COUNTER}
SET_COUNTER = f"UPDATE {HEAD} SET position = %(position)s, at = %(at)s WHERE id = 1"


@contextmanager
def without_timeouts(database: BaseDatabaseWrapper) -> Iterator[None]:
    """Lifts the timeouts of a session, and the limit for its commits, until the block ends."""
    if database.vendor == "postgresql":
        _each_timeout(database, "SET {} = 0")
        database.connection.is_patient = True
    try:
        yield
    finally:
        if database.vendor == "postgresql":
            _each_timeout(database, "RESET {}")
            database.connection.is_patient = False


def _each_timeout(database: BaseDatabaseWrapper, statement: str) -> None:
    with database.cursor() as cursor:
        for name in TIMEOUTS:
            cursor.execute(statement.format(name))


@contextmanager
def snapshot() -> Iterator[None]:
    """All reads inside see the database at one point in time. It blocks no writer."""
    if connection.vendor == "postgresql":
        with transaction.atomic(durable=True):
            execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            for name in TIMEOUTS:
                execute(f"SET LOCAL {name} = 0")
            yield
        return
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA query_only = ON")
        cursor.execute("BEGIN DEFERRED")  # Django's BEGIN IMMEDIATE takes the write lock
        try:
            yield
        finally:
            cursor.execute("ROLLBACK")
            cursor.execute("PRAGMA query_only = OFF")
