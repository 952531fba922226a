"""Counters of requests. No label names a user, a desk, a bot, a token or a path."""

from prometheus_client import Counter

REQUESTS = Counter("signals_http_requests", "Requests, by route and status", ["route", "status"])
REFUSALS = Counter("signals_refusals", "Refusals, by code (contract, section 5)", ["code"])
