"""Whether the service is alive and can serve (/healthz, /readyz), and its metrics (/metrics)."""

import hmac
import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

from django.conf import settings
from django.core.cache import cache
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from limits.errors import StorageError
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    REGISTRY,
    CollectorRegistry,
    Counter,
    Gauge,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from redis.exceptions import RedisError

from events import confirmation, database_schema
from events.http import rate_limits
from events.http.refusals import NotFound
from events.http.web_pages import page
from events.models import Head
from signals.notices.sending import failing_mails, mail_lag_seconds
from signals.webhooks.runner.pending_events import lag_seconds, webhooks_by_state

OK, AWAY = "ok", "away"
# The database waits for a standby to confirm commits: nothing can be written.
UNCONFIRMED = "unconfirmed"
# The database has lost events: nothing is written until manage.py new_epoch.
HALTED = "halted"
# The database lacks what this release needs. Migrate first, then start the new release.
BEHIND = "behind"
# Without a shared store, or while it is down, each process counts separately.
BY_ITSELF = "each process by itself"
UP = (OK, BY_ITSELF)
READ_AGAIN_AFTER = 5.0


# No label names a user, a desk, a bot, a token or a path.
REQUESTS = Counter("signals_http_requests", "Requests, by route and status", ["route", "status"])
REFUSALS = Counter("signals_refusals", "Refusals, by code (contract, section 5)", ["code"])
UNAVAILABLE = Counter(
    "signals_unavailable", "Answers 503, by what was waited for in vain", ["waited_for"]
)
LIVE_SEATS = Gauge(
    "signals_live_seats",
    "Streams that the live server has room for",
    multiprocess_mode="livesum",
)

logger = logging.getLogger(__name__)

# --- Health --------------------------------------------------------------------------------------


@page("GET")
def healthz(request: HttpRequest) -> JsonResponse:
    """The process is alive. No other part is checked."""
    return JsonResponse({"alive": True})


@page("GET")
def readyz(request: HttpRequest) -> JsonResponse:
    """The service is ready: the database holds the log and has what this release needs.

    It confirms commits, and has lost no event.

    The service also runs without the limits' store or the cache. Their state is reported, but does
    not make the service unready.
    """
    parts = states()
    ready = parts["database"] == parts["migrations"] == OK
    return JsonResponse({"ready": ready, **parts}, status=200 if ready else 503)


def states() -> dict[str, str]:
    """Returns the state of each part that the service depends on."""
    database = _database()
    fits = database != AWAY and SCHEMA.fits()
    return {
        "database": HALTED if fits and _is_halted() else database,
        "migrations": AWAY if database == AWAY else OK if fits else BEHIND,
        "limits": _limits(),
        "cache": _cache(),
    }


def _database() -> str:
    try:
        if not Head.objects.exists():
            return AWAY
        return UNCONFIRMED if confirmation.is_missing() else OK
    except DatabaseError:
        SCHEMA.doubt()
        return AWAY


def _is_halted() -> bool:
    with suppress(DatabaseError):
        return Head.objects.filter(halted=True).exists()
    return False


class SchemaState:
    """Whether the database has what this release needs (``events.database_schema``).

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
            self._lacks = database_schema.lacks(connection)
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
        return OK if rate_limits.store(settings.LIMITS_URL).check() else AWAY
    except StorageError:
        return AWAY


def _cache() -> str:
    try:
        cache.get("ready")
    except (DatabaseError, RedisError):
        return AWAY
    return OK


# --- Metrics -------------------------------------------------------------------------------------


class StateCollector(Collector):
    """Metrics that are read on each request: which parts are up, the log's head, deliveries."""

    def collect(self) -> Iterator[Metric]:
        parts = states()
        up = GaugeMetricFamily("signals_part_up", "1 where a part serves", labels=["part"])
        for part, state in parts.items():
            up.add_metric([part], state in UP)
        yield up
        if parts["database"] != AWAY:
            with suppress(DatabaseError, Head.DoesNotExist):
                yield from _stored()


def _stored() -> Iterator[Metric]:
    """What the database says."""
    head = Head.objects.get()
    yield GaugeMetricFamily(
        "signals_log_head", "The newest position of the log", value=head.position
    )
    yield GaugeMetricFamily(
        "signals_log_halted",
        "1 if the log was found to have lost events, so that nothing is written",
        value=head.halted,
    )
    webhooks = GaugeMetricFamily("signals_subscriptions", "Webhooks, by state", labels=["state"])
    for state, count in webhooks_by_state().items():
        webhooks.add_metric([state], count)
    yield webhooks
    yield GaugeMetricFamily(
        "signals_delivery_lag_seconds",
        "The age of the oldest event that waits for a runner, for webhooks that get all events and "
        "got none in the last two minutes; of a desk's, its own events",
        value=lag_seconds(),
    )
    yield GaugeMetricFamily(
        "signals_mail_lag_seconds",
        "How long the oldest mail that is due has waited, except for those that are sent last",
        value=mail_lag_seconds(),
    )
    yield GaugeMetricFamily(
        "signals_mails_failing",
        "Mails that failed at least once, and are tried again",
        value=failing_mails(),
    )


@page("GET")
def metrics(request: HttpRequest) -> HttpResponse:
    """Returns the metrics of all workers. Without the token, the page does not exist."""
    if not _may_read(request.headers.get("Authorization", "")):
        raise NotFound
    state = CollectorRegistry()
    state.register(StateCollector())
    return HttpResponse(
        generate_latest(_counted()) + generate_latest(state), content_type=CONTENT_TYPE_LATEST
    )


def _may_read(authorization: str) -> bool:
    expected = f"Bearer {settings.METRICS_TOKEN}"
    presented = hmac.compare_digest(authorization.encode(), expected.encode())
    return bool(settings.METRICS_TOKEN) and presented


def _counted() -> CollectorRegistry:
    """Returns the registry of this process, or of all workers of the server."""
    if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
        return REGISTRY
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return registry
