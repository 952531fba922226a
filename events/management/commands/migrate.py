"""Django's migrate, on a database that is what its migrations say, and without requests' timeouts.

Django knows which migrations are applied by their names. A database that was made by migrations of
the same names, but of another content, would take the next ones and break later.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from django.core.management.base import CommandError
from django.core.management.commands.migrate import Command as Migrate
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from events.schema import differences
from events.statements import TIMEOUTS


class Command(Migrate):
    def handle(self, *args: str, **options: str) -> None:
        connection = connections[options["database"]]
        with _without_timeouts(connection):
            _compare(
                connection,
                "Nothing was changed, because the database is not what its migrations describe. "
                "One from before 0.1.0 cannot be upgraded: keep it with its own release.",
            )
            super().handle(*args, **options)
            _compare(connection, "The database is not what its migrations describe.")


def _compare(connection: BaseDatabaseWrapper, sentence: str) -> None:
    if found := differences(connection):
        raise CommandError("\n".join([sentence, *found]))


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
