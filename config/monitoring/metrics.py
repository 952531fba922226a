"""Counters of requests, and the room of the live server.

No label names a user, a desk, a bot, a token or a path.
"""

from prometheus_client import Counter, Gauge

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
