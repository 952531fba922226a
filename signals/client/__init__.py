"""A client for the engine: pulls desks, deploys, fans out, follows the feed (contract, section 4).

    with Engine("https://signals.example", token) as engine:
        for desk in engine.desks(ready=True): ...
        engine.fan_out(card, nonce="bar-2026-11-20T09:30")
        for event in engine.follow(Path("cursor")): ...

    copy = DeskCopy()  # of all desks: copy.desks[user_id]
    copy.refresh(engine)  # all desks the first time, then what changed

    event = verify_webhook(request.body, request.headers, "whsec_…")
    answer = webhook_answer(event, "whsec_…")  # the body of your answer, with status 200

This folder needs httpx2 and nothing else of this repository. Every call is safe to repeat: reads
change nothing, and the service accepts a nonce only once. So if a response is lost, or the service
is unavailable or busy, the client retries until ``timeout``. Derive the nonce from what the signal
is about, such as a bar or an order, so that the engine sends the same nonce after a crash.
"""

from .data import (
    Accepted,
    Bot,
    Card,
    Checked,
    ClientError,
    Desk,
    DeskPage,
    Event,
    EventFilter,
    EventSearch,
    Page,
    Refusal,
    RemovedDesk,
    UnreachableError,
)
from .engine import HOOK, DeskCopy, Engine
from .webhooks import InvalidWebhookError, verify_webhook, webhook_answer

__all__ = [
    "HOOK",
    "Accepted",
    "Bot",
    "Card",
    "Checked",
    "ClientError",
    "Desk",
    "DeskCopy",
    "DeskPage",
    "Engine",
    "Event",
    "EventFilter",
    "EventSearch",
    "InvalidWebhookError",
    "Page",
    "Refusal",
    "RemovedDesk",
    "UnreachableError",
    "verify_webhook",
    "webhook_answer",
]
