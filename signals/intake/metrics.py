"""The metrics of signals at /metrics. No label names a user, a desk, a bot or a token."""

from typing import Any

from prometheus_client import Counter, Histogram

from events.http.refusals import Refused
from signals.intake.incoming import IncomingSignal
from signals.intake.receive import receive
from tokens.choices import Source

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
# The outcomes of a signal that was not accepted: refused, or failed with an error.
REFUSED, FAILED = "refused", "failed"
SOURCES = frozenset(Source.values())
UNKNOWN = "unknown"


def receive_measured(incoming: IncomingSignal) -> dict[str, Any]:
    """Calls ``receive``, and counts and times it."""
    outcome = FAILED
    try:
        with INTAKE.time():
            answer = receive(incoming)
        outcome = answer["outcome"]
    except Refused:
        outcome = REFUSED
        raise
    finally:
        RECEIVED.labels(_source(incoming.body.get("source")), outcome).inc()
    return answer


def _source(value: Any) -> str:
    return value if isinstance(value, str) and value in SOURCES else UNKNOWN
