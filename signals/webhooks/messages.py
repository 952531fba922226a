"""Messages in the form of Standard Webhooks: their body and headers (contract, section 4)."""

import base64
import hmac
import json
import secrets as randomness
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from events.feed import EventRecord
from events.times import to_rfc3339
from tokens.crypto.formats import WEBHOOK_SECRET

TEST = "subscription.test"  # the type of a test message; no event has this kind


class Message(NamedTuple):
    """A message and its id, which are the same on every attempt. ``position`` is 0 for a test."""

    position: int
    id: str
    body: bytes


def event_message(event: EventRecord, epoch: str) -> Message:
    """The message of an event, as ``serialize_event`` shows it to the subscriber.

    The id is that of the event and the log's epoch: after a restore that lost events, a position
    may be used again by another event.
    """
    body = {"type": event["kind"], "timestamp": event["at"], "data": event}
    return Message(event["position"], f"{event['id']}_{epoch}", _encode(body))


def new_challenge() -> str:
    """A random challenge for one attempt of a test. Nobody can prepare an answer to it."""
    return randomness.token_hex(32)


def message_of_test(webhook_id: str, asked_at: datetime, challenge: str) -> Message:
    """The message that a webhook's owner asked for, to see whether the endpoint works.

    Unlike an event's, its body is another one on each attempt, because the challenge is.
    """
    asked, data = to_rfc3339(asked_at), {"id": webhook_id, "challenge": challenge}
    body = {"type": TEST, "timestamp": asked, "data": data}
    message_id = f"test_{webhook_id}_{int(asked_at.timestamp() * 1000)}"
    return Message(0, message_id, _encode(body))


def is_proof(answer: bytes, challenge: str, secrets: Sequence[str]) -> bool:
    """Whether the answer to a test proves that the endpoint knows one of the ``whsec_…`` secrets.

    It is JSON: an object whose ``challenge`` is the HMAC-SHA256 of the challenge in lower-case hex.
    """
    try:
        found = json.loads(answer)
    except (ValueError, RecursionError):
        return False
    given = found.get("challenge") if isinstance(found, dict) else None
    if not isinstance(given, str):
        return False
    text, signed = given.encode(errors="replace"), challenge.encode()
    proofs = [hmac.digest(_key(secret), signed, "sha256").hex().encode() for secret in secrets]
    return any(hmac.compare_digest(proof, text) for proof in proofs)


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
    return "v1," + base64.b64encode(hmac.digest(_key(secret), signed, "sha256")).decode()


def _key(secret: str) -> bytes:
    return base64.b64decode(secret.removeprefix(WEBHOOK_SECRET))


def _encode(body: Mapping[str, object]) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
