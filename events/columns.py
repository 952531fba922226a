"""The default value and the expressions of columns of the log.

Migrations that have landed import these names. So this module stays where it is, and none of them
is renamed.
"""

import secrets
from typing import Any

from django.db.models import Func, TextField

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
