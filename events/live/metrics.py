"""What /metrics counts of streams and of readers that wait."""

from prometheus_client import Counter, Gauge, Histogram

READERS = Gauge(
    "signals_live_readers",
    "Readers of the hub: open streams, and requests that wait",
    multiprocess_mode="livesum",
)
TOPICS = Gauge(
    "signals_live_topics", "Topics that any reader sees now", multiprocess_mode="livesum"
)
SLOTS = Gauge(
    "signals_waiting_readers",
    "Threads that a waiting request or a stream occupies",
    multiprocess_mode="livesum",
)
WRITTEN = Counter("signals_live_written_bytes", "Bytes written to streams")
CUT = Counter("signals_live_cut_readers", "Streams cut because the reader did not take its data")
LAG = Histogram(
    "signals_live_lag_seconds",
    "From the time of an event to its write to a stream",
    buckets=(0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30),
)
