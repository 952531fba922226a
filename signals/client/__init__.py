"""A client for the engine: pulls desks, deploys, fans out, follows the feed (contract, section 4).

    with Engine("https://signals.example", token) as engine:
        for desk in engine.desks(ready=True): ...
        engine.fan_out(card, nonce="bar-2026-11-20T09:30")
        for event in engine.follow(Path("cursor")): ...

This folder needs httpx and nothing else of this repository. Every call is safe to repeat: reads
change nothing, and the service accepts a nonce only once. So if a response is lost, or the service
is unavailable or busy, the client retries until ``timeout``. Derive the nonce from what the signal
is about, such as a bar or an order, so that the engine sends the same nonce after a crash.
"""

from .data import (
    Accepted,
    Card,
    ClientError,
    Desk,
    Event,
    Page,
    Refusal,
    UnreachableError,
)
from .engine import HOOK, Engine

__all__ = [
    "HOOK",
    "Accepted",
    "Card",
    "ClientError",
    "Desk",
    "Engine",
    "Event",
    "Page",
    "Refusal",
    "UnreachableError",
]
