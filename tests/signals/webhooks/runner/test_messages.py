"""Messages are signed as Standard Webhooks says: other people's code verifies them."""

import base64
import json
from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from events.feed import EventRecord
from signals.client.webhooks import InvalidWebhookError, verify_webhook, webhook_answer
from signals.webhooks.messages import (
    event_message,
    is_proof,
    message_of_test,
    new_challenge,
    signed_headers,
)

pytestmark = pytest.mark.once

SECRET, OTHER = ("whsec_" + base64.b64encode(bytes([n]) * 30).decode() for n in (1, 2))
EVENT: EventRecord = {
    "id": "evt_12",
    "position": 12,
    "kind": "card.retired",
    "at": "2026-11-20T09:30:00.000Z",
    "actor": None,
    "userId": None,
    "signal": None,
    "data": {"name": "Größe ✓"},
}
NOW = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)
MESSAGE = event_message(EVENT, "ab12cd34")


def theirs(body, headers, secret):
    return Webhook(secret).verify(body, headers)


@pytest.fixture(autouse=True)
def at_that_time():
    """Both verifiers compare with the clock."""
    with time_machine.travel(NOW, tick=False):
        yield


@pytest.mark.parametrize("verify", [verify_webhook, theirs])
class TestVerified:
    def test_a_message_is_verified_and_says_what_happened(self, verify):
        headers = signed_headers(MESSAGE, [SECRET], NOW.timestamp())
        found = verify(MESSAGE.body, headers, SECRET)
        event = {**EVENT, "data": {"name": "Größe ✓"}}
        assert found == {"type": "card.retired", "timestamp": EVENT["at"], "data": event}

    def test_during_an_overlap_either_secret_verifies(self, verify):
        headers = signed_headers(MESSAGE, [SECRET, OTHER], NOW.timestamp())
        assert len(headers["webhook-signature"].split(" ")) == 2
        for secret in (SECRET, OTHER):
            assert verify(MESSAGE.body, headers, secret)

    @pytest.mark.parametrize("changed", ["body", "id", "time", "secret", "signature", "age"])
    def test_anything_else_is_refused(self, verify, changed):
        age = timedelta(minutes=6) if changed == "age" else timedelta()
        headers = signed_headers(MESSAGE, [SECRET], (NOW - age).timestamp())
        body, secret = MESSAGE.body, SECRET
        if changed == "body":
            body = body.replace(b"12", b"13")
        elif changed == "id":
            headers["webhook-id"] += "0"
        elif changed == "time":
            headers["webhook-timestamp"] = str(int(headers["webhook-timestamp"]) + 1)
        elif changed == "secret":
            secret = OTHER
        elif changed == "signature":
            headers["webhook-signature"] = headers["webhook-signature"].replace("v1,", "v2,")
        with pytest.raises((InvalidWebhookError, WebhookVerificationError)):
            verify(body, headers, secret)


# A byte of a header that is no ASCII, as servers pass it on that decode with surrogateescape.
ESCAPED = "\udcff"


@pytest.mark.parametrize("header", ["", "ä", ESCAPED, f"evt_12_ab12cd34{ESCAPED}"])
def test_a_malformed_id_is_refused(header):
    headers = {**signed_headers(MESSAGE, [SECRET], NOW.timestamp()), "webhook-id": header}
    with pytest.raises(InvalidWebhookError):
        verify_webhook(MESSAGE.body, headers, SECRET)


@pytest.mark.parametrize("body", [b"", b"\xff", MESSAGE.body + b"\xff", b"[" * 100_000])
def test_a_malformed_body_is_refused(body):
    headers = signed_headers(MESSAGE, [SECRET], NOW.timestamp())
    with pytest.raises(InvalidWebhookError):
        verify_webhook(body, headers, SECRET)


@pytest.mark.parametrize(
    "header", ["", "v1", "v1,", "v1,%%%", "v1,ä", f"v1,{ESCAPED}", "x" * 10_000, "v1a,AAAA"]
)
def test_a_malformed_signature_is_refused(header):
    headers = {**signed_headers(MESSAGE, [SECRET], NOW.timestamp()), "webhook-signature": header}
    with pytest.raises(InvalidWebhookError):
        verify_webhook(MESSAGE.body, headers, SECRET)


@pytest.mark.parametrize("header", ["", "soon", "-1", "1.5", "٣", ESCAPED, "9" * 5000])
def test_a_malformed_timestamp_is_refused(header):
    headers = {**signed_headers(MESSAGE, [SECRET], NOW.timestamp()), "webhook-timestamp": header}
    with pytest.raises(InvalidWebhookError):
        verify_webhook(MESSAGE.body, headers, SECRET)


def test_the_id_is_the_same_on_every_attempt_and_the_timestamp_is_of_the_attempt():
    first = signed_headers(MESSAGE, [SECRET], NOW.timestamp())
    second = signed_headers(MESSAGE, [SECRET], NOW.timestamp() + 5)
    assert first["webhook-id"] == second["webhook-id"] == "evt_12_ab12cd34"
    assert int(second["webhook-timestamp"]) - int(first["webhook-timestamp"]) == 5
    assert first["webhook-signature"] != second["webhook-signature"]


def test_header_names_may_be_in_any_case():
    headers = signed_headers(MESSAGE, [SECRET], NOW.timestamp())
    assert verify_webhook(MESSAGE.body, {k.title(): v for k, v in headers.items()}, SECRET)


def test_a_test_message_has_the_subscription_and_the_challenge_only():
    message = message_of_test("sub_1", NOW, "c4a1")
    assert json.loads(message.body)["data"] == {"id": "sub_1", "challenge": "c4a1"}
    headers = signed_headers(message, [SECRET], NOW.timestamp())
    assert theirs(message.body, headers, SECRET)["type"] == "subscription.test"


def test_every_challenge_is_another_one():
    found = {new_challenge() for _ in range(100)}
    assert len(found) == 100
    assert {len(one) for one in found} == {64}


@pytest.mark.parametrize("secret", [SECRET, OTHER])
def test_the_clients_answer_proves_each_secret_of_an_overlap(secret):
    message = {"type": "subscription.test", "data": {"id": "sub_1", "challenge": "c4a1"}}
    answer = webhook_answer(message, secret)
    assert is_proof(answer, "c4a1", [SECRET, OTHER])
    assert not is_proof(answer, "c4a2", [SECRET, OTHER])
    assert not is_proof(answer, "c4a1", [OTHER if secret == SECRET else SECRET])
    assert webhook_answer({"type": "signal.filled", "data": {}}, secret) == b""


PROOF = json.loads(
    webhook_answer({"type": "subscription.test", "data": {"challenge": "c4a1"}}, SECRET)
)["challenge"]


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"ok",
        b"\xff",
        b"[" * 1024,
        b"null",
        b"7",
        b"[]",
        b"{}",
        b'{"challenge": "c4a1"}',
        b'{"challenge": null}',
        b'{"challenge": ["c4a1"]}',
        b'{"challenge": "\\ud800"}',
        b'{"challenge": ""}',
        message_of_test("sub_1", NOW, "c4a1").body,
        json.dumps({"challenge": PROOF.upper()}).encode(),
        json.dumps({"challenge": PROOF[:-1]}).encode(),
        json.dumps({"proof": PROOF}).encode(),
        json.dumps(PROOF).encode(),
        json.dumps({"challenge": PROOF, "more": "x" * 1024}).encode()[:1024],
    ],
)
def test_nothing_else_is_a_proof(answer):
    assert not is_proof(answer, "c4a1", [SECRET])
