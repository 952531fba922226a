"""/metrics: metrics in Prometheus' format, for callers with ``METRICS_TOKEN``."""

import hmac
import os
from collections.abc import Iterator
from contextlib import suppress

from django.conf import settings
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from config.monitoring.health import UP, states
from events.http.pages import page
from events.http.refusals import NotFound
from events.models import Head
from signals.webhooks.metrics import lag_seconds, subscriptions_by_state


class Now(Collector):
    """Metrics that are read on each request: which parts are up, the log's head, deliveries."""

    def collect(self) -> Iterator[Metric]:
        parts = states()
        up = GaugeMetricFamily("signals_part_up", "1 where a part serves", labels=["part"])
        for part, state in parts.items():
            up.add_metric([part], state in UP)
        yield up
        if parts["database"] in UP:
            with suppress(DatabaseError, Head.DoesNotExist):
                yield _head()
                yield _subscriptions()
                yield _lag()


def _head() -> Metric:
    position = Head.objects.values_list("position", flat=True).get()
    return GaugeMetricFamily("signals_log_head", "The newest position of the log", value=position)


def _subscriptions() -> Metric:
    found = GaugeMetricFamily("signals_subscriptions", "Webhooks, by state", labels=["state"])
    for state, count in subscriptions_by_state().items():
        found.add_metric([state], count)
    return found


def _lag() -> Metric:
    return GaugeMetricFamily(
        "signals_delivery_lag_seconds",
        "The age of the oldest event that waits for a runner of webhooks",
        value=lag_seconds(),
    )


@page("GET")
def metrics(request: HttpRequest) -> HttpResponse:
    """Returns the metrics of all workers. Without the token, the page does not exist."""
    if not _may_read(request.headers.get("Authorization", "")):
        raise NotFound
    now = CollectorRegistry()
    now.register(Now())
    return HttpResponse(
        generate_latest(_counted()) + generate_latest(now), content_type=CONTENT_TYPE_LATEST
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
