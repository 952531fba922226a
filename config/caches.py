"""The two cache back ends. Values are plain JSON; any other stored value counts as a miss.

Django's own back ends unpickle values, so anyone who can write to Redis or to the table could run
code in the service.
"""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from django.core.cache.backends import db, redis
from django.core.cache.backends.base import DEFAULT_TIMEOUT, BaseCache
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

# By the scheme of CACHE_URL.
BACKENDS: Mapping[str, str] = {
    "dbcache": "config.caches.DatabaseCache",
    "rediscache": "config.caches.RedisCache",
}
NO_EXPIRY = datetime(9999, 12, 31, tzinfo=UTC)


def dumps(value: object) -> str:
    """Returns the value as JSON. Raises ``TypeError`` if JSON cannot represent it."""
    return json.dumps(value)


def readable(stored: Iterable[tuple[str, str | bytes | None]]) -> dict[str, Any]:
    """Returns the values by key, without those that are missing or not JSON."""
    values: dict[str, Any] = {}
    for key, text in stored:
        if text is not None:
            # A planted value may be any bytes, or nested deeper than Python's recursion limit.
            with suppress(ValueError, RecursionError):
                values[key] = json.loads(text)
    return values


class JSONSerializer:
    """The serializer for writes to Redis. Reads use ``readable``."""

    def dumps(self, value: object) -> str:
        return dumps(value)


class JSONRedisClient(redis.RedisCacheClient):
    def __init__(self, servers: Any, **options: Any) -> None:
        super().__init__(servers, **{**options, "serializer": JSONSerializer})

    def get(self, key: Any, default: Any) -> Any:
        # MGET, because GET fails for a key that holds a list or a hash.
        return self.get_many([key]).get(key, default)

    def get_many(self, keys: Iterable[Any]) -> dict[Any, Any]:
        names = list(keys)
        texts: Any = self.get_client(None).mget(names)
        return readable(zip(names, texts, strict=True))


class RedisCache(redis.RedisCache):
    """Django's Redis cache, with JSON instead of pickle."""

    has_key = BaseCache.has_key

    def __init__(self, server: Any, params: dict[str, Any]) -> None:
        super().__init__(server, params)
        self._class = JSONRedisClient


class DatabaseCache(db.DatabaseCache):
    """Django's database cache, with JSON instead of pickle, on SQLite and PostgreSQL."""

    _table: str
    _cull: Any
    has_key = BaseCache.has_key

    def get_many(self, keys: Iterable[str], version: int | None = None) -> dict[str, Any]:
        names = {self.make_and_validate_key(key, version=version): key for key in keys}
        if not names:
            return {}
        with connection.cursor() as cursor:
            cursor.execute(
                f"SELECT cache_key, value FROM {self._quoted_table}"
                f" WHERE expires >= %s AND cache_key IN ({', '.join(['%s'] * len(names))})",
                [_adapted(timezone.now()), *names],
            )
            return readable((names[key], text) for key, text in cursor.fetchall())

    def _base_set(
        self, mode: str, key: str, value: Any, timeout: float | None = DEFAULT_TIMEOUT
    ) -> bool:
        """Writes one value in one statement; ``mode`` is ``set``, ``add`` or ``touch``.

        Returns False if ``add`` found a value, if ``touch`` found none, or if the database failed.
        As in Django's back end, a failed write to the cache is not an error.
        """
        statement, parameters = self._statement(mode, key, dumps(value), self._end(timeout))
        self._cull_if_full()
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute(statement, parameters)
                return bool(cursor.rowcount)
        except DatabaseError:
            return False

    def _statement(self, mode: str, key: str, text: str, end: Any) -> tuple[str, list[Any]]:
        table = self._quoted_table
        if mode == "touch":
            return f"UPDATE {table} SET expires = %s WHERE cache_key = %s", [end, key]
        statement = (
            f"INSERT INTO {table} (cache_key, value, expires) VALUES (%s, %s, %s)"
            " ON CONFLICT (cache_key)"
            " DO UPDATE SET value = excluded.value, expires = excluded.expires"
        )
        if mode == "set":
            return statement, [key, text, end]
        return f"{statement} WHERE {table}.expires < %s", [key, text, end, _adapted(timezone.now())]

    def _cull_if_full(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT COUNT(*) FROM {self._quoted_table}")
            (count,) = cursor.fetchone()
            if count > self._max_entries:
                self._cull(connection.alias, cursor, timezone.now(), count)

    def _end(self, timeout: float | None) -> Any:
        """Returns when a value with this timeout in seconds expires, as a database value."""
        until = self.get_backend_timeout(timeout)
        return _adapted(datetime.fromtimestamp(until, tz=UTC) if until is not None else NO_EXPIRY)

    @property
    def _quoted_table(self) -> str:
        return connection.ops.quote_name(self._table)


def _adapted(moment: datetime) -> Any:
    """Converts a moment for the database driver."""
    return connection.ops.adapt_datetimefield_value(moment)
