"""Messages in the form of Standard Webhooks: their body and headers (contract, section 4)."""

import base64
import hmac
import json
import secrets as randomness
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Literal, NamedTuple, TypedDict

from desks.ids import SubscriptionId
from events.feed import EventRecord, KindName
from events.json_schema import DateTime, Example, pattern
from events.kinds import Kind
from events.times import to_rfc3339
from tokens.crypto.formats import WEBHOOK_SECRET

# The type of a test message. No event has this kind.
TEST: Literal["subscription.test"] = "subscription.test"


class EventMessage(TypedDict):
    """What an endpoint is sent of an event."""

    type: Annotated[KindName, "The event's kind.", Example(Kind.DESK_CONNECTED.value)]
    timestamp: Annotated[DateTime, "The event's time."]
    data: Annotated[EventRecord, "The event, as the feed shows it to the webhook's owner."]


class Challenge(TypedDict):
    """What a test is about."""

    id: Annotated[SubscriptionId, "The subscription."]
    challenge: Annotated[str, "Random text, new on each attempt.", Example("5f0c4a7be2d14e0b")]


class ChallengeMessage(TypedDict):
    """A test, for which the webhook's owner asked. It is no event of the log."""

    type: Literal["subscription.test"]
    timestamp: Annotated[DateTime, "When it was asked for."]
    data: Challenge


class ChallengeAnswer(TypedDict):
    """The answer to a test: the proof that the endpoint knows the secret."""

    challenge: Annotated[str, pattern("[0-9a-f]{64}"), "The HMAC-SHA256 of the challenge, in hex."]


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
    body: EventMessage = {"type": event["kind"], "timestamp": event["at"], "data": event}
    return Message(event["position"], f"{event['id']}_{epoch}", _encode(body))


def new_challenge() -> str:
    """A random challenge for one attempt of a test. Nobody can prepare an answer to it."""
    return randomness.token_hex(32)


def message_of_test(webhook_id: str, asked_at: datetime, challenge: str) -> Message:
    """The message that a webhook's owner asked for, to see whether the endpoint works.

    Unlike an event's, its body is another one on each attempt, because the challenge is.
    """
    data: Challenge = {"id": webhook_id, "challenge": challenge}
    body: ChallengeMessage = {"type": TEST, "timestamp": to_rfc3339(asked_at), "data": data}
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
