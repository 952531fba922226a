"""Verifies the webhooks that the service sends (Standard Webhooks).

    event = verify_webhook(request.body, request.headers, "whsec_…")
    return Response(webhook_answer(event, "whsec_…"), status=200)

Pass the body as the bytes that arrived. A message can arrive more than once: ``webhook-id`` is then
the same. The answer proves to a test that you know the secret; events need none.
"""

import base64
import hmac
import json
import time
from collections.abc import Mapping

from .engine import JsonObject

TOLERANCE = 300  # seconds by which the two clocks may differ
PREFIX = "whsec_"
MAX_DIGITS = 12  # of a timestamp
TEST = "subscription.test"


class InvalidWebhookError(Exception):
    """The message does not come from the service, or it is too old."""


def verify_webhook(
    body: bytes, headers: Mapping[str, str], secret: str, *, tolerance: int = TOLERANCE
) -> JsonObject:
    """Returns the message: ``type``, ``timestamp`` and ``data``.

    Raises ``InvalidWebhookError`` if no signature is valid, or if the time of the message differs
    from this clock by more than ``tolerance`` seconds.
    """
    given = {name.lower(): value for name, value in headers.items()}
    message_id = given.get("webhook-id", "")
    timestamp = given.get("webhook-timestamp", "")
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= MAX_DIGITS):
        raise InvalidWebhookError("The message has no timestamp.")
    if abs(time.time() - int(timestamp)) > tolerance:
        raise InvalidWebhookError("The message is too old, or a clock is wrong.")
    signed = f"{message_id}.{timestamp}.".encode(errors="replace") + body
    expected = b"v1," + base64.b64encode(hmac.digest(_key(secret), signed, "sha256"))
    signatures = given.get("webhook-signature", "").encode(errors="replace").split()
    if not any(hmac.compare_digest(expected, signature) for signature in signatures):
        raise InvalidWebhookError("No signature of the message is valid.")
    message: JsonObject = json.loads(body)
    return message


def webhook_answer(message: JsonObject, secret: str) -> bytes:
    """The body with which to answer a message that was verified: empty, but JSON for a test.

    Answer it with status 200. ``secret`` is the one that verified the message.
    """
    if message["type"] != TEST:
        return b""
    proof = hmac.digest(_key(secret), message["data"]["challenge"].encode(), "sha256")
    return json.dumps({"challenge": proof.hex()}).encode()


def _key(secret: str) -> bytes:
    return base64.b64decode(secret.removeprefix(PREFIX))
