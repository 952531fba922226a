"""The metrics of signals at /metrics. No label names a user, a desk, a bot or a token."""

import functools
from collections.abc import Callable

from prometheus_client import Counter, Histogram

from events.http.refusals import Refused
from signals.intake.incoming import IncomingSignal
from signals.intake.models import Accepted

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


def measured(receive: Callable[[IncomingSignal], Accepted]) -> Callable[..., Accepted]:
    """Decorates ``receive``: counts and times its calls."""

    @functools.wraps(receive)
    def receive_measured(incoming: IncomingSignal) -> Accepted:
        outcome = FAILED
        try:
            with INTAKE.time():
                answer = receive(incoming)
            outcome = answer["outcome"]
        except Refused:
            outcome = REFUSED
            raise
        finally:
            RECEIVED.labels(incoming.source or UNKNOWN, outcome).inc()
        return answer

    return receive_measured
