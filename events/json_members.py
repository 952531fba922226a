"""Members of a JSON column as text, for columns that the database computes."""

from typing import Any

from django.db.models import Func, TextField


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
