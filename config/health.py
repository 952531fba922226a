"""Whether the process is alive, and whether it can serve."""

import functools

from django.conf import settings
from django.core.cache import cache
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, JsonResponse
from limits.errors import StorageError
from redis.exceptions import RedisError

from desks import limits
from desks.pages import page
from events.models import Head

OK, AWAY = "ok", "away"
# The code has migrations that the database has not: migrate first, then start the code.
BEHIND = "behind"
# Without a shared store each process counts for itself, as with one that is away.
BY_ITSELF = "each process by itself"
UP = (OK, BY_ITSELF)


@page("GET")
def healthz(request: HttpRequest) -> JsonResponse:
    """Alive: asks nothing of anybody."""
    return JsonResponse({"alive": True})


@page("GET")
def readyz(request: HttpRequest) -> JsonResponse:
    """Ready: the database holds the log, as this code knows it.

    Without the store of the limits or the cache the service goes on, counting in each process or
    without what was cached: their state is told, and keeps nobody from being served.
    """
    parts = states()
    ready = parts["database"] == parts["migrations"] == OK
    return JsonResponse({"ready": ready, **parts}, status=200 if ready else 503)


def states() -> dict[str, str]:
    """Each part that the service stands on, and how it is."""
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
    """Raised, since what is raised is not remembered: they may be applied before the next look."""


@functools.cache
def _are_applied() -> bool:
    """True for good once it is: what is applied stays so. Raises while something is missing."""
    executor = MigrationExecutor(connection)
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        raise _NotApplied
    return True


def _limits() -> str:
    if not settings.LIMITS_URL:
        return BY_ITSELF
    try:
        return OK if limits.limiter(settings.LIMITS_URL).storage.check() else AWAY
    except StorageError:
        return AWAY


def _cache() -> str:
    try:
        cache.get("ready")
    except (DatabaseError, RedisError):
        return AWAY
    return OK
