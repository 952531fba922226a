"""Signing and verifying (contract, section 3)."""

import subprocess

import pytest
import time_machine
from hypothesis import given
from hypothesis import strategies as st

from tests.client import code, push, signed, written
from tests.signals.bodies import tradingview
from tokens.crypto import signing

pytestmark = pytest.mark.once

NOW = 1763630000
SECRET = "svc_sign_" + "a" * 49


def openssl(secret: str, timestamp: str, body: bytes) -> str:
    """The signature that the contract's shell command makes."""
    made = subprocess.run(
        ["openssl", "dgst", "-sha256", "-hmac", secret],
        input=timestamp.encode() + b"." + body,
        capture_output=True,
        check=True,
    )
    return "v1=" + made.stdout.decode().strip().rpartition("= ")[2]


@pytest.mark.parametrize(
    "body", [b"", b"{}", b'{"nonce": "\xc3\xa9"}', b"\x00\xff\r\n", b"x" * 999]
)
def test_openssl_makes_the_same_signature(body):
    assert signing.sign(SECRET, NOW, body) == openssl(SECRET, str(NOW), body)


@given(st.binary(max_size=80), st.integers(10**9, 10**10 - 1))
def test_a_signature_verifies_only_with_the_same_body_time_and_secret(body, at):
    signature = signing.sign(SECRET, at, body)
    assert signing.verifies([SECRET], at, [signature], body)
    assert not signing.verifies([SECRET], at, [signature], body + b" ")
    assert not signing.verifies([SECRET], at - 1, [signature], body)
    assert not signing.verifies([SECRET + "b"], at, [signature], body)
    assert not signing.verifies([], at, [signature], body)


@pytest.mark.parametrize("place", range(5))
def test_one_of_five_signatures_and_one_of_two_secrets_is_enough(place):
    signatures = [signing.sign("another secret", NOW, b"{}")] * 5
    signatures[place] = signing.sign(SECRET, NOW, b"{}")
    assert signing.verifies([SECRET, "a third secret"], NOW, signatures, b"{}")
    assert signing.verifies(["a third secret", SECRET], NOW, signatures, b"{}")


@pytest.mark.parametrize(
    "form",
    ["v0=00,{}", "{},v2=00", "v0=A+/_-.=,v01=x,{},v11=1,v999=z", "v2=" + "0" * 256 + ",{}"],
)
def test_signatures_of_other_schemes_are_ignored(bot, form):
    body = written(tradingview(bot))
    headers = signed(bot.secret, body=body)
    headers["X-SVC-Signature"] = form.format(headers["X-SVC-Signature"])
    assert code(push(body, headers=headers)) == "ok"


def test_signatures_of_other_schemes_count_towards_the_five(bot):
    body = written(tradingview(bot))
    headers = signed(bot.secret, body=body)
    headers["X-SVC-Signature"] += ",v0=00" * 5
    assert code(push(body, headers=headers)) == "signature_invalid"


def test_a_signature_of_another_scheme_is_not_verified_as_v1(bot):
    body = written(tradingview(bot))
    headers = signed("another secret", body=body)
    right = signing.sign(bot.secret, int(headers["X-SVC-Timestamp"]), body)
    headers["X-SVC-Signature"] += f",{right.replace('v1=', 'v2=')}"
    assert code(push(body, headers=headers)) == "signature_invalid"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda value: f" {value}",
        lambda value: f"{value} ",
        lambda value: f"{value}, {value}",
        lambda value: f"{value} ,{value}",
        lambda value: f"{value},",
        lambda value: f",{value}",
        lambda value: value.upper(),
        lambda value: value.replace("v1=", "V1="),
        lambda value: value.replace("v1=", "v2="),
        lambda value: value.removeprefix("v1="),
        lambda value: value[:-1],
        lambda value: f"{value}0",
        lambda value: f"{value};{value}",
        lambda value: f"{value},v2=",
        lambda value: f"{value},v2=0 0",
        lambda value: f"{value},v2",
        lambda value: f"{value},w2=00",
        lambda value: f"{value},v=00",
        lambda value: f"{value},v1=00",
        lambda value: f"v0=00,{value},,v2=00",
        lambda value: f"{value},v2={'0' * 257}",
        lambda value: "v0=00,v2=00",
        lambda value: "",
        lambda value: "v1=",
        lambda value: "v1=" + "é" * 64,
        lambda value: "v1=" + "٣" * 64,
        lambda value: f"{value}\x00",
        lambda value: f"{value}\n",
        lambda value: "v1=" + "f" * 100_000,
    ],
)
def test_a_malformed_signature_header_is_refused(bot, spoil):
    body = written(tradingview(bot))
    headers = signed(bot.secret, body=body)
    headers["X-SVC-Signature"] = spoil(headers["X-SVC-Signature"])
    response = push(body, headers=headers)
    assert (response.status_code, code(response)) == (401, "signature_invalid")


@pytest.mark.parametrize("away", [-300, -299, 0, 299, 300])
def test_a_timestamp_within_300_seconds_is_accepted(bot, away):
    with time_machine.travel(NOW, tick=False):
        body = written(tradingview(bot))
        assert code(push(body, headers=signed(bot.secret, body=body, at=NOW + away))) == "ok"


@pytest.mark.parametrize("away", [-301, 301, -NOW + 10**9, 10**10 - 1 - NOW])
def test_a_timestamp_beyond_300_seconds_is_refused_with_the_server_time(bot, away):
    with time_machine.travel(NOW, tick=False):
        body = written(tradingview(bot))
        response = push(body, headers=signed(bot.secret, body=body, at=NOW + away))
    assert (response.status_code, code(response)) == (401, "timestamp_invalid")
    assert response.json()["serverTime"] == NOW


def test_the_tolerance_is_a_setting(bot, settings):
    settings.TIMESTAMP_TOLERANCE = 10
    with time_machine.travel(NOW, tick=False):
        body = written(tradingview(bot))
        headers = signed(bot.secret, body=body, at=NOW - 11)
        assert code(push(body, headers=headers)) == "timestamp_invalid"


@pytest.mark.parametrize(
    "timestamp",
    [
        "",
        "0",
        "176363000",
        "17636300000",
        "1763630000.0",
        "+763630000",
        "-763630000",
        " 1763630000",
        "1763630000 ",
        "1763630000\n",
        "0x69206A30",
        "1_76363000",
        "١٧٦٣٦٣٠٠٠٠",
        "1763630000000",
        "2025-11-20T09:13:20Z",
        "\x00",
        "1" * 5000,
    ],
)
def test_a_timestamp_that_is_not_ten_digits_is_refused_with_the_server_time(bot, timestamp):
    body = written(tradingview(bot))
    with time_machine.travel(NOW, tick=False):
        headers = {**signed(bot.secret, body=body), "X-SVC-Timestamp": timestamp}
        response = push(body, headers=headers)
    assert (response.status_code, code(response)) == (401, "timestamp_invalid")
    assert response.json()["serverTime"] == NOW
