"""Health checks: is the process alive, and can it serve requests?"""

import functools

from django.conf import settings
from django.core.cache import cache
from django.db import DatabaseError
from django.http import HttpRequest, JsonResponse
from limits.errors import StorageError
from redis.exceptions import RedisError

from events.http import limits
from events.management.log_command import is_migrated
from events.models import Head
from signals.pages.access import page

OK, AWAY = "ok", "away"
# The database lacks migrations of this code. Migrate first, then start the code.
BEHIND = "behind"
# Without a shared store, or while it is down, each process counts separately.
BY_ITSELF = "each process by itself"
UP = (OK, BY_ITSELF)


@page("GET")
def healthz(request: HttpRequest) -> JsonResponse:
    """The process is alive. No other part is checked."""
    return JsonResponse({"alive": True})


@page("GET")
def readyz(request: HttpRequest) -> JsonResponse:
    """The service is ready: the database holds the log and has all migrations.

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
        "migrations": _migrations() if database == OK else AWAY,
        "limits": _limits(),
        "cache": _cache(),
    }


def _database() -> str:
    try:
        return OK if Head.objects.exists() else AWAY
    except DatabaseError:
        return AWAY


def _migrations() -> str:
    try:
        return OK if _are_applied() else BEHIND
    except (DatabaseError, _NotApplied):
        return BEHIND


class _NotApplied(Exception):
    """Raised so that ``functools.cache`` does not store it: migrations may be applied later."""


@functools.cache
def _are_applied() -> bool:
    """Returns True once all migrations are applied, which is cached. Raises until then."""
    if not is_migrated():
        raise _NotApplied
    return True


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
