"""SQL written by hand: the counter's, and the event's, which stand under the log's lock.

There each line of Python and each round trip is waited for by every other writer. The names come
from the models; a test holds the columns to them.
"""

import functools
from enum import Enum
from typing import Any

from django.db import connection
from django.db.models import DateTimeField, JSONField, Model

from events.models import Event, Head

# What a database keeps in another way than Python does. The rest goes as it is, but for a member of
# an enumeration, which goes as its text: the driver takes three times as long over a kind of text.
KEPT_OTHERWISE = (DateTimeField, JSONField)


def execute(statement: str, given: Any = None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, given)


def fetch(statement: str, given: Any = None) -> Any:
    """The first row, as a tuple; null where there is none."""
    with connection.cursor() as cursor:
        cursor.execute(statement, given)
        return cursor.fetchone()


def fetch_all(statement: str, given: Any = None) -> list[Any]:
    """Every row, as a tuple."""
    with connection.cursor() as cursor:
        cursor.execute(statement, given)
        return list(cursor.fetchall())


def columns(model: type[Model]) -> str:
    """The columns of a table, as an INSERT names them."""
    return ", ".join(str(field.column) for field in model._meta.concrete_fields)


def values(model: type[Model]) -> str:
    """A placeholder for each, named as ``parameters`` names what it gives."""
    return ", ".join(f"%({_parameter(model, column)})s" for column in columns(model).split(", "))


def parameters(row: Model) -> dict[str, Any]:
    """What ``values`` takes: the row as the database keeps it, on SQLite as on PostgreSQL."""
    return {
        name: _kept(field, getattr(row, attribute)) for name, attribute, field in _fields(type(row))
    }


def _kept(field: Any, value: Any) -> Any:
    if isinstance(field, KEPT_OTHERWISE):
        return field.get_db_prep_save(value, connection)
    return value.value if isinstance(value, Enum) else value


@functools.cache
def _fields(model: type[Model]) -> list[tuple[str, str, Any]]:
    """Of each column its parameter, the attribute that holds its value, and its field."""
    return [
        (_parameter(model, str(field.column)), field.attname, field)
        for field in model._meta.concrete_fields
    ]


def _parameter(model: type[Model], column: str) -> str:
    """One statement may write rows of several tables, so a name says of which it is."""
    return f"{model._meta.model_name}_{column}"


HEAD = Head._meta.db_table
TAKE_POSITIONS = f"UPDATE {HEAD} SET position = position + %s WHERE id = 1 RETURNING position"
GIVE_POSITION_BACK = f"UPDATE {HEAD} SET position = position - 1 WHERE id = 1"

EVENT = Event._meta.db_table
EVENT_COLUMNS = columns(Event)
EVENT_VALUES = values(Event)
INSERT_EVENT = f"INSERT INTO {EVENT} ({EVENT_COLUMNS}) VALUES ({EVENT_VALUES})"
