"""Messages in the form of Standard Webhooks: their body and headers (contract, section 4)."""

import base64
import hmac
import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from events.times import to_rfc3339
from tokens.crypto.formats import WEBHOOK_SECRET

TEST = "subscription.test"  # the type of a test message; no event has this kind


class Message(NamedTuple):
    """A message and its id, which are the same on every attempt."""

    id: str
    body: bytes


def event_message(event: dict[str, Any], epoch: str) -> Message:
    """The message of an event, as ``serialize_event`` shows it to the subscriber.

    The id is that of the event and the log's epoch: after a restore that lost events, a position
    may be used again by another event.
    """
    body = {"type": event["kind"], "timestamp": event["at"], "data": event}
    return Message(f"{event['id']}_{epoch}", _encode(body))


def message_of_test(subscription_id: str, asked_at: datetime) -> Message:
    """The message that a subscription's owner asked for, to see whether the endpoint works."""
    asked = to_rfc3339(asked_at)
    body = {"type": TEST, "timestamp": asked, "data": {"id": subscription_id}}
    return Message(f"test_{subscription_id}_{int(asked_at.timestamp() * 1000)}", _encode(body))


def signed_headers(message: Message, secrets: Sequence[str], at: float) -> dict[str, str]:
    """The headers of an attempt at this Unix time, signed with each of the ``whsec_…`` secrets."""
    timestamp = str(int(at))
    signed = f"{message.id}.{timestamp}.".encode() + message.body
    return {
        "Content-Type": "application/json",
        "webhook-id": message.id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(_signature(secret, signed) for secret in secrets),
    }


def _signature(secret: str, signed: bytes) -> str:
    key = base64.b64decode(secret.removeprefix(WEBHOOK_SECRET))
    return "v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode()


def _encode(body: dict[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
