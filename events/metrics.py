"""The number of readers that wait: what the log's own room tells of itself at /metrics."""

from prometheus_client import Gauge

WAITING_READERS = Gauge(
    "signals_waiting_readers",
    "Readers of the feed that wait for news",
    multiprocess_mode="livesum",
)
