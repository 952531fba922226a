"""The cache: in Redis or in a table, with JSON for pickle.

Django's back ends unpickle values, so anyone who can write to Redis or to the table could run code
in the service. Of its database cache the methods that pickle are replaced;
``tests/config/test_caches.py`` plants pickles in both. What is not JSON is read as if it were not
there.
"""

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import redis
from django.core.cache import BaseCache
from django.core.cache.backends import db
from django.db import DatabaseError, connection, connections
from django.db.backends.utils import CursorWrapper
from django.utils import timezone

from events.confirmation import unconfirmed
from events.databases import written

USUAL = 300  # seconds that a value stays, unless its writer says more
NO_EXPIRY = datetime(9999, 12, 31, tzinfo=UTC)


def read_json(stored: str | bytes | None, default: object) -> Any:
    """Returns the value that was stored; ``default`` for nothing, and for what is not JSON."""
    try:
        return default if stored is None else json.loads(stored)
    except (ValueError, RecursionError):  # the latter: it is nested deeper than Python can read
        return default


class RedisCache(BaseCache):
    """The cache in Redis. ``OPTIONS`` are those of the connections."""

    def __init__(self, url: str, params: dict[str, Any]) -> None:
        super().__init__(params)
        self._client = redis.Redis.from_url(url, **params["OPTIONS"])

    def get(self, key: str, default: object = None, version: int | None = None) -> Any:
        stored: Any = self._client.get(self.make_and_validate_key(key, version))
        return read_json(stored, default)

    def set(
        self, key: str, value: object, timeout: float | None = USUAL, version: int | None = None
    ) -> None:
        name, end = self.make_and_validate_key(key, version), self._left(timeout)
        self._client.set(name, json.dumps(value), px=end)

    def add(
        self, key: str, value: object, timeout: float | None = USUAL, version: int | None = None
    ) -> bool:
        name, end = self.make_and_validate_key(key, version), self._left(timeout)
        return bool(self._client.set(name, json.dumps(value), px=end, nx=True))

    def delete(self, key: str, version: int | None = None) -> bool:
        return bool(self._client.delete(self.make_and_validate_key(key, version)))

    def clear(self) -> None:
        self._client.flushdb()

    def _left(self, timeout: float | None) -> int | None:
        """How long a value stays, in milliseconds; None for one without an end.

        Redis takes no less than one.
        """
        until = self.get_backend_timeout(timeout)
        return None if until is None else max(1, round((until - time.time()) * 1000))


class DatabaseCache(db.DatabaseCache):
    """Django's database cache, on SQLite and PostgreSQL."""

    _table: str
    _cull: Callable[[str, CursorWrapper, datetime, int], None]

    get_many = BaseCache.get_many  # by ``get``
    touch = BaseCache.touch  # which raises ``NotImplementedError``: nobody needs it

    def get(self, key: str, default: object = None, version: int | None = None) -> Any:
        name = self.make_and_validate_key(key, version=version)
        with connection.cursor() as cursor:
            cursor.execute(
                f"SELECT value FROM {self._quoted_table} WHERE expires >= %s AND cache_key = %s",
                [_adapted(timezone.now()), name],
            )
            row = cursor.fetchone()
        return read_json(row[0] if row else None, default)

    def _base_set(self, mode: str, key: str, value: object, timeout: float | None) -> bool:
        """Writes one value in one statement; ``mode`` is ``set`` or ``add``.

        Returns False if ``add`` found a value, or if the database failed. As in Django's back end,
        a failed write to the cache is not an error. It waits for no standby: while none confirms,
        wrong passwords must still be counted. The database is the primary, also if a standby is
        read.
        """
        until = self.get_backend_timeout(timeout)
        end = NO_EXPIRY if until is None else datetime.fromtimestamp(until, tz=UTC)
        statement = (
            f"INSERT INTO {self._quoted_table} AS kept (cache_key, value, expires)"
            " VALUES (%s, %s, %s) ON CONFLICT (cache_key)"
            " DO UPDATE SET value = excluded.value, expires = excluded.expires"
            " WHERE %s OR kept.expires < %s"
        )
        now = _adapted(timezone.now())
        parameters = [key, json.dumps(value), _adapted(end), mode == "set", now]
        self._cull_if_full()
        try:
            with unconfirmed(), connections[written()].cursor() as cursor:
                cursor.execute(statement, parameters)
                return bool(cursor.rowcount)
        except DatabaseError:
            return False

    def _cull_if_full(self) -> None:
        with connections[written()].cursor() as cursor:
            cursor.execute(f"SELECT COUNT(*) FROM {self._quoted_table}")
            (count,) = cursor.fetchone()
            if count > self._max_entries:
                with unconfirmed():
                    self._cull(written(), cursor, timezone.now(), count)

    @property
    def _quoted_table(self) -> str:
        return connection.ops.quote_name(self._table)


def _adapted(moment: datetime) -> Any:
    """Converts a moment for the database driver."""
    return connection.ops.adapt_datetimefield_value(moment)
