"""Random input: changed bits, headers and bodies are refused and never cause a server error."""

import json
import random
import time

import pytest
from django.db import connection  # noqa: F401 - for skipif
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rest_framework.request import Request
from rest_framework.test import APIRequestFactory

from events.http.refusals import Refused, Unauthenticated
from signals.intake.authentication import SignerAuthentication
from signals.intake.models import Signal
from tests.client import HOOK, push, written
from tests.factories import a_platform_token
from tests.signals.bodies import tradingview
from tokens.crypto import formats, signing

pytestmark = [pytest.mark.django_db, pytest.mark.once, pytest.mark.slow]

MANY = 10_000
CODES = {(refusal.status, refusal.code) for refusal in Refused.registry() if refusal.status < 500}


def flipped(raw: bytes, bit: int) -> bytes:
    """The same bytes with one bit changed."""
    changed = bytearray(raw)
    changed[bit // 8] ^= 1 << (bit % 8)
    return bytes(changed)


@pytest.mark.parametrize("part", ["body", "timestamp", "signature"])
def test_a_signed_push_with_one_changed_bit_is_refused(bot, part):
    now = int(time.time())
    body = written(tradingview(bot))
    sent = {
        "body": body,
        "timestamp": str(now).encode(),
        "signature": signing.sign(bot.secret, now, body).encode(),
    }
    for bit in range(0, 8 * len(sent[part]), 9):  # one of each byte, and each of the eight
        each = {**sent, part: flipped(sent[part], bit)}
        headers = {
            signing.TIMESTAMP_HEADER: each["timestamp"].decode("latin-1"),
            signing.SIGNATURE_HEADER: each["signature"].decode("latin-1"),
        }
        answer = push(each["body"], headers=headers)
        assert answer.status_code in (400, 401), (part, bit)
    assert not Signal.objects.exists()


def made_up_headers(dice: random.Random) -> dict[str, str]:
    """Almost valid credential headers: at least one is wrong."""
    noise = "".join(chr(dice.randrange(1, 256)) for _ in range(dice.randrange(60)))
    token = formats.new(dice.choice([formats.DESK_TOKEN, formats.PLATFORM_TOKEN]))
    place = dice.randrange(len(token))
    mistyped = token[:place] + dice.choice(".-é\t") + token[place + 1 :]
    authorization = [
        noise,
        f"Bearer {noise}",
        f"Bearer {mistyped}",
        f"Basic {token}",
        f"Bearer {token},{token}",
        f"Bearer {token}"[: dice.randrange(60)],
        token,
    ]
    signature = f"v1={dice.getrandbits(256):064x}"
    signatures = [noise, signature[:-1], signature.upper(), f"{signature}, {signature}", ""]
    timestamps = [noise, str(dice.randrange(10**9)), "+763630000", "", " 1763630000", "1e9"]
    kind = dice.randrange(3)
    if kind == 0:
        return {"HTTP_AUTHORIZATION": dice.choice(authorization)}
    if kind == 1:
        return {"HTTP_X_SVC_TIMESTAMP": dice.choice(timestamps)}
    return {
        "HTTP_X_SVC_TIMESTAMP": str(int(time.time())),
        "HTTP_X_SVC_SIGNATURE": dice.choice(signatures),
    }


@pytest.mark.skipif("connection.vendor != 'sqlite'", reason="it asks no database: once is enough")
def test_made_up_credential_headers_are_401_without_a_query(django_assert_num_queries):
    dice, authentication = random.Random(20261120), SignerAuthentication()
    blank = APIRequestFactory().post(HOOK, b"{}", content_type="application/json")
    whole = dict(blank.META)
    with django_assert_num_queries(0):
        for _ in range(MANY):
            blank.META = {**whole, **made_up_headers(dice)}
            blank.__dict__.pop("headers", None)
            try:
                authentication.authenticate(Request(blank))
            except Unauthenticated:
                continue
            pytest.fail(f"Let in with {blank.META}")


@settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    body=st.binary(max_size=300)
    | st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    ).map(lambda value: json.dumps(value).encode())
)
def test_any_bytes_as_a_body_get_a_documented_response(card, body):
    answer = push(body, a_platform_token())
    assert (answer.status_code, answer.json()["code"]) in CODES
    assert not Signal.objects.exists()
