"""The metrics of signals at /metrics. No label names a user, a desk, a bot or a token."""

from prometheus_client import Counter, Histogram

RECEIVED = Counter(
    "signals_received",
    "Signals from authorised senders, by source and outcome",
    ["source", "outcome"],
)
INTAKE = Histogram(
    "signals_intake_seconds",
    "Seconds from an authorised body to its outcome, including the wait for the log's lock",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5),
)
BATCH = Histogram(
    "signals_batch_size",
    "Signals and refusals that were written in one turn at the log",
    buckets=(1, 2, 4, 8, 16, 32, 64),
)
LOCK = Histogram(
    "signals_lock_seconds",
    "Seconds that a batch held the log's lock, from its first statement after it to the commit",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5),
)
# The outcomes of a signal that was not accepted: refused, or failed with an error.
REFUSED, FAILED = "refused", "failed"
UNKNOWN = "unknown"
