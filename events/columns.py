"""The default value of a column of the log, and expressions that both databases compute.

Migrations that have landed import names of this module. So it stays where it is.
"""

import secrets

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import CharField, Func, TextField
from django.db.models.sql.compiler import SQLCompiler

EPOCH_BYTES = 4
Sql = tuple[str, tuple[str | int, ...]]


def new_epoch() -> str:
    """A random name for one uninterrupted history of the log: 8 hex digits."""
    return secrets.token_hex(EPOCH_BYTES)


class PerDatabase(Func):
    """An expression with a template for each database."""

    postgresql: str
    sqlite: str

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> Sql:
        return self.as_sql(compiler, connection, template=self.postgresql)

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **_: object) -> Sql:
        return self.as_sql(compiler, connection, template=self.sqlite)


class Member(PerDatabase):
    """The member at ``path`` of a JSON column, such as ``signal.botId``. NULL if there is none."""

    output_field = TextField()
    postgresql = "(%(expressions)s #>> '{%(keys)s}')"
    sqlite = "json_extract(%(expressions)s, '$.%(path)s')"

    def __init__(self, column: str, path: str) -> None:
        super().__init__(column, path=path, keys=path.replace(".", ","))


class ToRfc3339(PerDatabase):
    """Formats a time in the database. Rows with four times are read three times as fast."""

    output_field = CharField()
    postgresql = """to_char(%(expressions)s AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')"""
    sqlite = "strftime('%%%%Y-%%%%m-%%%%dT%%%%H:%%%%M:%%%%fZ', %(expressions)s)"
