"""The cache: Django's back ends, with JSON for pickle.

Django's own unpickle values, so anyone who can write to Redis or to the table could run code in the
service. Its Redis cache takes a serializer instead. Its database cache takes none, so the methods
that pickle are replaced; ``tests/config/test_caches.py`` plants pickles in both. What is not JSON
is read as if it were not there.
"""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from django.core.cache import BaseCache
from django.core.cache.backends import db, redis
from django.db import DatabaseError, connection, transaction
from django.db.backends.utils import CursorWrapper
from django.utils import timezone

NO_EXPIRY = datetime(9999, 12, 31, tzinfo=UTC)


class JSONSerializer:
    """JSON."""

    def dumps(self, value: object) -> str:
        """Raises ``TypeError`` if JSON cannot represent the value."""
        return json.dumps(value)

    def loads(self, stored: str | bytes) -> Any:
        """Raises ``ValueError`` if this is not JSON, or nested deeper than Python can read."""
        try:
            return json.loads(stored)
        except RecursionError as error:
            raise ValueError("This is nested too deeply.") from error


class RedisCache(redis.RedisCache):
    """Django's Redis cache."""

    get_many = BaseCache.get_many  # by ``get``

    def get(self, key: str, default: object = None, version: int | None = None) -> Any:
        try:
            return super().get(key, default, version)
        except ValueError:
            return default


class DatabaseCache(db.DatabaseCache):
    """Django's database cache, on SQLite and PostgreSQL."""

    _table: str
    _cull: Callable[[str, CursorWrapper, datetime, int], None]

    get_many = BaseCache.get_many  # by ``get``

    def get(self, key: str, default: object = None, version: int | None = None) -> Any:
        name = self.make_and_validate_key(key, version=version)
        with connection.cursor() as cursor:
            cursor.execute(
                f"SELECT value FROM {self._quoted_table} WHERE expires >= %s AND cache_key = %s",
                [_adapted(timezone.now()), name],
            )
            row = cursor.fetchone()
        try:
            return JSONSerializer().loads(row[0]) if row else default
        except ValueError:
            return default

    def _base_set(self, mode: str, key: str, value: object, timeout: float | None) -> bool:
        """Writes one value in one statement; ``mode`` is ``set``, ``add`` or ``touch``.

        Returns False if ``add`` found a value, if ``touch`` found none, or if the database failed.
        As in Django's back end, a failed write to the cache is not an error.
        """
        text = JSONSerializer().dumps(value)
        until = self.get_backend_timeout(timeout)
        end = _adapted(NO_EXPIRY if until is None else datetime.fromtimestamp(until, tz=UTC))
        if mode == "touch":
            statement = f"UPDATE {self._quoted_table} SET expires = %s WHERE cache_key = %s"
            parameters = [end, key]
        else:
            statement = (
                f"INSERT INTO {self._quoted_table} AS kept (cache_key, value, expires)"
                " VALUES (%s, %s, %s) ON CONFLICT (cache_key)"
                " DO UPDATE SET value = excluded.value, expires = excluded.expires"
                " WHERE %s OR kept.expires < %s"
            )
            parameters = [key, text, end, mode == "set", _adapted(timezone.now())]
        self._cull_if_full()
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute(statement, parameters)
                return bool(cursor.rowcount)
        except DatabaseError:
            return False

    def _cull_if_full(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT COUNT(*) FROM {self._quoted_table}")
            (count,) = cursor.fetchone()
            if count > self._max_entries:
                self._cull(connection.alias, cursor, timezone.now(), count)

    @property
    def _quoted_table(self) -> str:
        return connection.ops.quote_name(self._table)


def _adapted(moment: datetime) -> Any:
    """Converts a moment for the database driver."""
    return connection.ops.adapt_datetimefield_value(moment)
