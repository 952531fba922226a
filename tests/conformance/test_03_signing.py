"""Section 3: how a signal is signed, and who authorises which source."""

import shutil
import subprocess
import time

import pytest

from tests.conformance.client import (
    EVENTS,
    HOOK,
    ME,
    NO_BOT,
    assert_refused,
    bearer,
    code,
    signature,
    signed,
    without_id,
    written,
)
from tests.conformance.credentials import credential

pytestmark = pytest.mark.once

TIME, SIGNATURE = "X-SVC-Timestamp", "X-SVC-Signature"


def now():
    return int(time.time())


def push_raw(service, body, headers, token=None):
    return service.push(body, token, headers=headers)


# --- The signature -------------------------------------------------------------------------------


def test_openssl_makes_the_signature(service):
    """Section 3: HMAC-SHA256 with the bytes of the secret's text, over timestamp + . + body."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not here.")
    raw, moment = written(service.to_desk()), str(now())
    made = subprocess.run(
        [openssl, "dgst", "-sha256", "-hmac", service.floor],
        input=moment.encode() + b"." + raw,
        capture_output=True,
        check=True,
    )
    hexadecimal = made.stdout.decode().split()[-1]
    headers = {TIME: moment, SIGNATURE: f"v1={hexadecimal}"}
    assert push_raw(service, raw, headers).status_code == 200


def test_the_raw_bytes_are_signed(service):
    """Section 3: with the timestamp. One byte more that means the same is another message."""
    raw, moment = written(service.to_desk()), now()
    headers = signed(service.floor, body=raw, at=moment)
    assert_refused(push_raw(service, raw + b" ", headers), 401, "signature_invalid")
    later = {**headers, TIME: str(moment + 1)}
    assert_refused(push_raw(service, raw, later), 401, "signature_invalid")
    assert push_raw(service, raw, headers).status_code == 200


@pytest.mark.parametrize("place", [0, 2, 4])
def test_of_several_signatures_one_valid_one_is_enough(service, place):
    """Section 3: at most five, separated by commas."""
    secrets = [credential("svc_sign_") for _ in range(5)]
    secrets[place] = service.floor
    raw = written(service.to_desk())
    assert push_raw(service, raw, signed(*secrets, body=raw)).status_code == 200


@pytest.mark.parametrize("form", ["v0=00,{}", "{},v2=00", "v0=x,{},v2=y,v3=z"])
def test_signatures_of_other_schemes_are_passed_over(service, form):
    """Section 3: one valid v1 among at most five is enough."""
    raw = written(service.to_desk())
    headers = signed(service.floor, body=raw)
    headers[SIGNATURE] = form.format(headers[SIGNATURE])
    assert push_raw(service, raw, headers).status_code == 200
    headers[SIGNATURE] += ",v4=00" * 4
    assert_refused(push_raw(service, raw, headers), 401, "signature_invalid")


@pytest.mark.parametrize(
    "change", [str.upper, lambda good: good[3:], lambda good: f"{good}, {good}"]
)
def test_a_signature_of_another_form_is_a_401(service, change):
    """Section 3: v1= and lower-case hex, no spaces; malformed headers are never an error."""
    raw, moment = written(service.to_desk()), now()
    headers = {TIME: str(moment), SIGNATURE: change(signature(service.floor, moment, raw))}
    assert_refused(push_raw(service, raw, headers), 401, "signature_invalid")


# --- The timestamp -------------------------------------------------------------------------------


def push_at(service, away):
    """Signs so many seconds away from now. Again if it was on its way for most of ten seconds."""
    while True:
        raw, began = written(service.to_desk()), time.monotonic()
        answer = push_raw(service, raw, signed(service.floor, body=raw, at=now() + away))
        if time.monotonic() - began < 8:
            return answer


@pytest.mark.parametrize("away", [-290, -60, 60, 290])
def test_a_timestamp_within_300_seconds_is_taken(service, away):
    """Section 3: old or ahead."""
    assert push_at(service, away).status_code == 200


@pytest.mark.parametrize("away", [-310, -86400, 310, 86400])
def test_a_timestamp_beyond_300_seconds_is_refused_with_the_servers_time(service, away):
    """Section 3: a refusal for it tells serverTime in Unix seconds."""
    body = assert_refused(push_at(service, away), 401, "timestamp_invalid")
    assert isinstance(body["serverTime"], int)
    assert abs(body["serverTime"] - now()) <= 300


@pytest.mark.parametrize("text", ["", "123456789", "1763630000.0"])
def test_a_timestamp_is_exactly_10_digits(service, text):
    raw = written(service.to_desk())
    headers = {TIME: text, SIGNATURE: signature(service.floor, text, raw)}
    body = assert_refused(push_raw(service, raw, headers), 401, "timestamp_invalid")
    assert "serverTime" in body


# --- Who authorises ------------------------------------------------------------------------------


def test_tradingview_is_not_authorised_by_a_bearer(service):
    """Section 3: a Bearer token does not replace the signature."""
    answer = service.push(service.tradingview(), service.platform)
    assert_refused(answer, 401, "signature_missing")


@pytest.mark.parametrize("which", ["floor", "nox"])
def test_tradingview_is_not_authorised_by_a_shared_secret(service, which):
    """Section 3, the table."""
    secret = getattr(service, which)
    answer = service.push(service.tradingview(), secret=secret)
    assert_refused(answer, 401, "signature_invalid")


def test_floor_is_authorised_by_a_writing_token_or_the_floor_secret(service):
    """Section 3, the table."""
    assert service.push(service.to_desk(), service.platform).status_code == 200
    assert service.push(service.to_desk(), secret=service.floor).status_code == 200


def test_nox_is_authorised_by_a_writing_token_or_by_its_secret(service):
    """Section 3: the Floor's, while no Nox secret was ever generated."""
    assert service.push(service.of_nox(), service.platform).status_code == 200
    assert service.push(service.of_nox(), secret=service.nox).status_code == 200


@pytest.mark.parametrize("shape", ["to_desk", "of_nox"])
def test_a_reading_token_does_not_authorise_but_beside_a_signature_it_does_not_matter(
    service, shape
):
    """Section 3: scope is asked only of the one that authorises."""
    body = getattr(service, shape)()
    assert_refused(service.push(body, service.reader), 403, "scope_missing")
    secret = service.nox if shape == "of_nox" else service.floor
    assert service.push(body, service.reader, secret=secret).status_code == 200


def test_what_is_presented_must_be_valid(service):
    """Section 3: even where the other would do."""
    raw = written(service.to_desk())
    wrong = signed(credential("svc_sign_"), body=raw)
    assert_refused(push_raw(service, raw, wrong, service.platform), 401, "signature_invalid")
    unknown = bearer(credential("svc_plat_"))
    right = signed(service.floor, body=raw)
    assert_refused(push_raw(service, raw, {**right, **unknown}), 401, "token_invalid")
    assert push_raw(service, raw, right, service.platform).status_code == 200


def test_nothing_presented(service):
    """Section 3: credentials_missing."""
    for body in (service.to_desk(), service.tradingview(), service.of_nox(), b"", b"x"):
        assert_refused(service.push(body), 401, "credentials_missing")


@pytest.mark.parametrize("alone", [TIME, SIGNATURE])
def test_one_of_the_two_signing_headers_alone(service, alone):
    """Section 3: signature_missing, also beside a Bearer that would do."""
    raw = written(service.to_desk())
    headers = {alone: signed(service.floor, body=raw)[alone]}
    assert_refused(push_raw(service, raw, headers), 401, "signature_missing")
    assert_refused(push_raw(service, raw, headers, service.platform), 401, "signature_missing")


@pytest.mark.parametrize(
    "header", ["Basic dTpw", "Bearer", "Bearer {token},Bearer {token}", "Bearer \u00e9"]
)
def test_another_scheme_than_bearer_or_a_malformed_one_is_token_invalid(service, header):
    """Section 3: a 401, never an error."""
    value = header.format(token=service.platform).encode("latin-1")
    for path in (EVENTS, ME):
        answer = service.http.get(path, headers={"Authorization": value})
        assert_refused(answer, 401, "token_invalid")
    answer = service.http.post(HOOK, content=b"{}", headers={"Authorization": value})
    assert_refused(answer, 401, "token_invalid")


@pytest.mark.parametrize("scheme", ["Bearer ", "bearer  ", "BEARER" + " " * 9])
def test_the_scheme_is_read_in_any_case_and_one_or_more_spaces_follow_it(service, scheme):
    """Section 3, and RFC 9110."""
    headers = {"Authorization": f"{scheme}{service.platform}"}
    assert service.http.get(EVENTS, headers=headers).status_code == 200


def test_signing_headers_mean_nothing_off_the_hook(service):
    nonsense = {TIME: "x", SIGNATURE: "y"}
    assert service.get(ME, service.desk_token, headers=nonsense).status_code == 200
    assert service.deploy(service.desk, service.one_desk(), headers=nonsense).status_code == 200
    raw = written(service.one_desk())
    path = f"/api/v1/desks/{service.desk}/signal"
    signed_alone = service.send("POST", path, raw, secret=service.floor)
    assert_refused(signed_alone, 401, "credentials_missing")


def test_an_unknown_bot_answers_exactly_as_a_wrong_signature_does(service):
    """Section 3: nobody learns which bots there are."""
    wrong = credential("svc_sign_")
    known = service.push(service.tradingview(), secret=wrong)
    assert_refused(known, 401, "signature_invalid")
    for bot_id in (NO_BOT, "bot_x", "", None, 7, ["x"], {"a": 1}, "b" * 5000):
        unknown = service.push(service.tradingview(botId=bot_id), secret=wrong)
        assert without_id(unknown) == without_id(known), bot_id


@pytest.mark.parametrize("source", [None, "other"])
def test_on_the_hook_with_a_signature_a_body_whose_source_cannot_be_read(service, source):
    """Section 5, order: malformed or signature_invalid."""
    body = service.to_desk(source=source)
    assert_refused(service.push(body, secret=service.floor), 401, "signature_invalid")
    assert_refused(service.push(b"[]", secret=service.floor), 400, "malformed")


# --- Once there is a Nox secret ------------------------------------------------------------------


def test_once_there_is_a_nox_secret_the_floor_secret_does_not_sign_nox(nox_service):
    """Sections 3 and 5: floor_secret_refused. Each secret signs its own, and a token signs nox."""
    nox = nox_service.seed["noxSecret"]
    assert nox_service.push(nox_service.of_nox(), secret=nox).status_code == 200
    floors = nox_service.push(nox_service.to_desk(), secret=nox)
    assert_refused(floors, 401, "signature_invalid")
    answer = nox_service.push(nox_service.of_nox(), secret=nox_service.floor)
    assert_refused(answer, 401, "floor_secret_refused")
    assert nox_service.push(nox_service.to_desk(), secret=nox_service.floor).status_code == 200
    assert code(nox_service.push(nox_service.of_nox(), nox_service.platform)) == "ok"
    wrong = nox_service.push(nox_service.of_nox(), secret=credential("svc_sign_"))
    assert_refused(wrong, 401, "signature_invalid")
