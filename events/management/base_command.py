"""The base class of the commands of manage.py that read the log.

Exit status 2 means that the command could not run; 1 means that it ran and found a fault.
"""

from typing import ClassVar

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connection

from events import database_schema
from events.models import Head

COULD_NOT_RUN = 2


class LogCommand(BaseCommand):
    """A command that needs a migrated database. Without one it exits with status 2."""

    # Whether it also runs on a database that lacks columns or constraints, to say so.
    reports_schema: ClassVar[bool] = False

    def execute(self, *args: object, **options: object) -> str | None:
        try:
            if database_schema.pending(connection) or not Head.objects.exists():
                raise CommandError(
                    "This database is not migrated. Run manage.py migrate first.",
                    returncode=COULD_NOT_RUN,
                )
            if not self.reports_schema and (missing := database_schema.missing(connection)):
                raise CommandError(
                    "\n".join(["The database lacks what this release needs.", *missing]),
                    returncode=COULD_NOT_RUN,
                )
            return super().execute(*args, **options)
        except DatabaseError as fault:
            raise CommandError(
                f"The database is unavailable: {first_line(fault)}", returncode=COULD_NOT_RUN
            ) from fault


def first_line(fault: Exception) -> str:
    """The first line of a driver's message, without the statement and the hints."""
    return (str(fault).splitlines() or [type(fault).__name__])[0]
