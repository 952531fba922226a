"""Detection of exchange secrets (contract, section 6)."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokens.crypto import formats
from tokens.crypto.exchange_secrets import (
    contains_secret,
    is_secret,
    is_secret_name,
    text_contains_secret,
)

pytestmark = pytest.mark.once

NAME_PARTS = (
    "apikey apisecret privatekey secretkey passphrase password seedphrase mnemonic clientsecret"
)
NAME_ENDINGS = "secret accesskey accesstoken apitoken"
PEM = "-----BEGIN EC PRIVATE KEY-----\nMHc=\n-----END EC PRIVATE KEY-----"


@pytest.mark.parametrize(
    "text",
    [
        '{"apiKey": 1',
        "{'api_key' : 1}",
        "apiKey=1",
        "key: 1",
        '"{\\"otp\\": 1}"',
        '"\\u0061piKey": 1',
        f"see {PEM}",
    ],
)
def test_a_secret_is_found_in_text_that_is_not_json(text):
    assert text_contains_secret(text)


def test_a_credential_of_this_service_is_found_in_text():
    assert text_contains_secret(f"see {formats.new(formats.DESK_TOKEN)}")


@pytest.mark.parametrize(
    "text", ["", ":", "{", '{"pair": "apiKey"', "keyed: 1", "apiKey", '{"nonce": "a", "elected"}']
)
def test_text_without_a_secret_is_accepted(text):
    assert not text_contains_secret(text)


@pytest.mark.parametrize("text", ["a" * 65_536, " " * 65_536, ":" * 65_536, '"' * 65_536])
def test_a_long_text_is_searched_quickly(text):
    began = time.process_time()
    assert not text_contains_secret(text)
    assert time.process_time() - began < 1


@pytest.mark.parametrize("word", NAME_PARTS.split())
def test_a_name_that_contains_one_of_these_is_refused(word):
    for name in (word, word.upper(), f"my{word}", f"{word}2", f"x{word}x"):
        assert is_secret_name(name)
    assert is_secret_name("_-. ".join(word))
    assert not is_secret_name(word[:-1] + "0")


@pytest.mark.parametrize("word", NAME_ENDINGS.split())
def test_a_name_that_ends_in_one_of_these_is_refused_and_one_that_begins_so_is_not(word):
    for name in (word, f"binance_{word}", f"X-{word.title()}", " ".join(word)):
        assert is_secret_name(name)
    assert not is_secret_name(f"{word}s")


@pytest.mark.parametrize("word", ["key", "sign", "otp"])
def test_a_name_that_is_one_of_these_is_refused_and_one_that_contains_it_is_not(word):
    for name in (word, word.upper(), "-".join(word), f" {word}."):
        assert is_secret_name(name)
    for name in (f"{word}s", f"my{word}", f"a_{word}"):
        assert not is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "api_key",
        "API-Key",
        "Api.Key",
        "api key",
        "x_api__key",
        "Secret",
        "client-secret",
        "passWord",
        "access_token",
        "ACCESS.KEY",
        "seed phrase",
        "O.T.P",
    ],
)
def test_names_are_compared_in_lower_case_without_separators(name):
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "pair",
        "direction",
        "nonce",
        "source",
        "rationale",
        "secretary",
        "keyboard",
        "signal",
        "token",
        "signature",
        "monkey",
        "action_id",
        "decision_ref",
        "",
    ],
)
def test_ordinary_names_are_accepted(name):
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    "value",
    [
        {"apiKey": None},
        {"a": {"b": {"c": [{"secret": 1}]}}},
        [[[{"otp": ""}]]],
        {"a": [1, [2, [3, {"x-passphrase": {}}]]]},
        PEM,
        {"note": f"see {PEM}"},
        {PEM: 1},
        ["x", ["y", PEM]],
    ],
)
def test_a_secret_is_found_at_any_depth_in_names_and_values(value):
    assert contains_secret(value)


@pytest.mark.parametrize("prefix", ["svc_desk_", "svc_plat_", "svc_sign_"])
def test_a_credential_of_this_service_is_found_in_names_and_values(prefix):
    text = formats.new(prefix)
    assert contains_secret({"note": text})
    assert contains_secret({"note": [f"here: {text}."]})
    assert contains_secret({text: 1})
    assert not contains_secret({"note": text[:-1]})
    assert not contains_secret({"note": text[:-1] + ("0" if text[-1] != "0" else "1")})


@pytest.mark.parametrize("kind", ["", "RSA ", "EC ", "DSA ", "OPENSSH ", "ENCRYPTED "])
def test_a_pem_private_key_of_any_kind_is_found_and_a_public_one_is_not(kind):
    assert is_secret(f"-----BEGIN {kind}PRIVATE KEY-----")
    assert not is_secret(f"-----BEGIN {kind}PUBLIC KEY-----")
    assert not is_secret("-----BEGIN CERTIFICATE-----")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(json_values)
def test_every_json_value_can_be_searched(value):
    assert contains_secret(value) in (True, False)
    assert contains_secret({"outer": [value, {"api_key": value}]})
