"""The default value of a column of the log, and expressions that both databases compute.

Migrations that have landed import names of this module. So it stays where it is.
"""

import secrets
from typing import Any

from django.db.models import CharField, Func, TextField

EPOCH_BYTES = 4


def new_epoch() -> str:
    """A random name for one uninterrupted history of the log: 8 hex digits."""
    return secrets.token_hex(EPOCH_BYTES)


class Member(Func):
    """The member at ``path`` of a JSON column, such as ``signal.botId``. NULL if there is none."""

    output_field = TextField()

    def __init__(self, column: str, path: str) -> None:
        super().__init__(column, path=path)

    def as_postgresql(self, compiler: Any, connection: Any, **more: Any) -> Any:
        path = self.extra["path"].replace(".", ",")
        template = f"(%(expressions)s #>> '{{{path}}}')"
        return self.as_sql(compiler, connection, template=template, **more)

    def as_sqlite(self, compiler: Any, connection: Any, **more: Any) -> Any:
        template = "json_extract(%(expressions)s, '$.%(path)s')"
        return self.as_sql(compiler, connection, template=template, **more)


class ToRfc3339(Func):
    """Formats a time in the database. Rows with four times are read three times as fast."""

    output_field = CharField()

    def as_postgresql(self, compiler: Any, connection: Any, **more: Any) -> Any:
        form = """to_char(%(expressions)s AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')"""
        return self.as_sql(compiler, connection, template=form, **more)

    def as_sqlite(self, compiler: Any, connection: Any, **more: Any) -> Any:
        form = "strftime('%%%%Y-%%%%m-%%%%dT%%%%H:%%%%M:%%%%fZ', %(expressions)s)"
        return self.as_sql(compiler, connection, template=form, **more)
