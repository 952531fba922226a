"""Health checks: is the process alive, and can it serve requests?"""

import logging
import threading
import time

from django.conf import settings
from django.core.cache import cache
from django.db import DatabaseError, connection
from django.http import HttpRequest, JsonResponse
from limits.errors import StorageError
from redis.exceptions import RedisError

from events import schema
from events.http import limits
from events.http.pages import page
from events.models import Head

OK, AWAY = "ok", "away"
# The database lacks what this release needs. Migrate first, then start the new release.
BEHIND = "behind"
# Without a shared store, or while it is down, each process counts separately.
BY_ITSELF = "each process by itself"
UP = (OK, BY_ITSELF)
READ_AGAIN_AFTER = 5.0

logger = logging.getLogger(__name__)


@page("GET")
def healthz(request: HttpRequest) -> JsonResponse:
    """The process is alive. No other part is checked."""
    return JsonResponse({"alive": True})


@page("GET")
def readyz(request: HttpRequest) -> JsonResponse:
    """The service is ready: the database holds the log and has what this release needs.

    The service also runs without the limits' store or the cache. Their state is reported, but does
    not make the service unready.
    """
    parts = states()
    ready = parts["database"] == parts["migrations"] == OK
    return JsonResponse({"ready": ready, **parts}, status=200 if ready else 503)


def states() -> dict[str, str]:
    """Returns the state of each part that the service depends on."""
    database = _database()
    return {
        "database": database,
        "migrations": (OK if SCHEMA.fits() else BEHIND) if database == OK else AWAY,
        "limits": _limits(),
        "cache": _cache(),
    }


def _database() -> str:
    try:
        return OK if Head.objects.exists() else AWAY
    except DatabaseError:
        SCHEMA.doubt()
        return AWAY


class SchemaState:
    """Whether the database has what this release needs (``events.schema``).

    It is read when it is first asked for. After that it is read again only if something was missing
    or a statement has failed since, and at most once in ``READ_AGAIN_AFTER`` seconds.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lacks: list[str] | None = None
        self._is_doubted = True
        self._read_at = -READ_AGAIN_AFTER

    def doubt(self) -> None:
        """A statement failed: the database may have changed."""
        self._is_doubted = True

    def fits(self) -> bool:
        with self._lock:
            if self._is_doubted and time.monotonic() >= self._read_at + READ_AGAIN_AFTER:
                self._read()
            return self._lacks == []

    def _read(self) -> None:
        self._read_at = time.monotonic()
        self._is_doubted = False
        before = self._lacks
        try:
            self._lacks = schema.lacks(connection)
        except DatabaseError:
            self._is_doubted = True  # what was read before counts until the next attempt
            return
        if self._lacks:
            self._is_doubted = True
            if self._lacks != before:
                logger.error("The database lacks what this release needs: %s", self._lacks)


SCHEMA = SchemaState()


def _limits() -> str:
    if not settings.LIMITS_URL:
        return BY_ITSELF
    try:
        return OK if limits.store(settings.LIMITS_URL).check() else AWAY
    except StorageError:
        return AWAY


def _cache() -> str:
    try:
        cache.get("ready")
    except (DatabaseError, RedisError):
        return AWAY
    return OK
