"""What counts as a secret of an exchange (contract, section 6)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokens import formats
from tokens.exchange_secrets import holds_secret, is_secret, names_secret

pytestmark = pytest.mark.once

CONTAINED = (
    "apikey apisecret privatekey secretkey passphrase password seedphrase mnemonic clientsecret"
)
AT_THE_END = "secret accesskey accesstoken apitoken"
PEM = "-----BEGIN EC PRIVATE KEY-----\nMHc=\n-----END EC PRIVATE KEY-----"


@pytest.mark.parametrize("word", CONTAINED.split())
def test_a_name_that_contains_one_of_these_is_refused(word):
    for name in (word, word.upper(), f"my{word}", f"{word}2", f"x{word}x"):
        assert names_secret(name)
    assert names_secret("_-. ".join(word))
    assert not names_secret(word[:-1] + "0")


@pytest.mark.parametrize("word", AT_THE_END.split())
def test_a_name_that_ends_in_one_of_these_is_refused_and_one_that_begins_so_is_not(word):
    for name in (word, f"binance_{word}", f"X-{word.title()}", " ".join(word)):
        assert names_secret(name)
    assert not names_secret(f"{word}s")


@pytest.mark.parametrize("word", ["key", "sign", "otp"])
def test_a_name_that_is_one_of_these_is_refused_and_one_that_contains_it_is_not(word):
    for name in (word, word.upper(), "-".join(word), f" {word}."):
        assert names_secret(name)
    for name in (f"{word}s", f"my{word}", f"a_{word}"):
        assert not names_secret(name)


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
    assert names_secret(name)


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
def test_ordinary_names_are_let_through(name):
    assert not names_secret(name)


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
    assert holds_secret(value)


@pytest.mark.parametrize("prefix", ["svc_desk_", "svc_plat_", "svc_sign_"])
def test_a_credential_of_this_service_is_found_in_names_and_values(prefix):
    text = formats.new(prefix)
    assert holds_secret({"note": text})
    assert holds_secret({"note": [f"here: {text}."]})
    assert holds_secret({text: 1})
    assert not holds_secret({"note": text[:-1]})
    assert not holds_secret({"note": text[:-1] + ("0" if text[-1] != "0" else "1")})


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
def test_any_json_value_is_searched_without_a_fault(value):
    assert holds_secret(value) in (True, False)
    assert holds_secret({"outer": [value, {"api_key": value}]})
