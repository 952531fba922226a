"""Django's migrate, on a database that is what its migrations say, and without requests' timeouts.

Django knows which migrations are applied by their names. A database that was made by migrations of
the same names, but of another content, would take the next ones and break later.
"""

from django.core.management.base import CommandError
from django.core.management.commands.migrate import Command as Migrate
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from events.database_schema import differences
from events.statements import without_timeouts


class Command(Migrate):
    def handle(self, *args: str, **options: str) -> None:
        connection = connections[options["database"]]
        # An index on a large log takes minutes, and waits for open writers.
        with without_timeouts(connection):
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
