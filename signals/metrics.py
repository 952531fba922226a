"""What /metrics tells of signals. No label names a user, a desk, a bot or a token."""

from typing import Any

from prometheus_client import Counter, Histogram

from events.refusals import Refused
from signals import intake
from signals.received import Received
from tokens.models import Source

RECEIVED = Counter(
    "signals_received",
    "Signals whose sender was authorised, by source and by what became of them",
    ["source", "outcome"],
)
INTAKE = Histogram(
    "signals_intake_seconds",
    "From an authorised body to its outcome, the log's lock included",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5),
)
# Outcomes of a signal that was not accepted: by the law, or for lack of a database.
REFUSED, FAILED = "refused", "failed"
SOURCES = frozenset(Source.values)
UNKNOWN = "unknown"


def receive(received: Received) -> dict[str, Any]:
    """The intake, counted and timed."""
    outcome = FAILED
    try:
        with INTAKE.time():
            answer = intake.receive(received)
        outcome = answer["outcome"]
    except Refused:
        outcome = REFUSED
        raise
    finally:
        RECEIVED.labels(_source(received.body.get("source")), outcome).inc()
    return answer


def _source(said: Any) -> str:
    return said if isinstance(said, str) and said in SOURCES else UNKNOWN
