"""The feed's metric at /metrics: the number of waiting readers."""

from prometheus_client import Gauge

WAITING_READERS = Gauge(
    "signals_waiting_readers",
    "Readers of the feed that wait for events",
    multiprocess_mode="livesum",
)
