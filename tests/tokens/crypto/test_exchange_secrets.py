"""Detection of exchange secrets (contract, section 6), by the service and by both relays.

``exchange_secrets.json`` holds texts, names of fields, members and malformed messages that are
refused, and others that are accepted. Every search gets the same answers.
"""

import importlib.util
import json
import re
import subprocess
import time
from pathlib import Path

import pytest
from django.http import HttpResponse
from django.test import RequestFactory
from hypothesis import given
from hypothesis import strategies as st

from config.middleware import ValidateForms
from tests.relays import NODE, RELAY, WORKER
from tokens.crypto import exchange_secrets, formats
from tokens.crypto.exchange_secrets import (
    body_contains_secret,
    contains_secret,
    is_secret,
    is_secret_name,
    malformed_contains_secret,
    text_contains_secret,
)

pytestmark = pytest.mark.once

CORPUS = json.loads(Path(__file__).with_name("exchange_secrets.json").read_text())
SECTION = re.compile("# --- The search for secrets -+\n.*# --- End of the search", re.DOTALL)
NAME_PARTS = (
    "apikey apisecret privatekey secretkey passphrase password seedphrase mnemonic clientsecret"
    " passwd pwd privkey credential recoveryphrase"
)
NAME_ENDINGS = "secret accesskey accesstoken apitoken authtoken binancekey walletkey"
PEM = "-----BEGIN EC PRIVATE KEY-----\nMHc=\n-----END EC PRIVATE KEY-----"


# --- The corpus -----------------------------------------------------------------------------------


def relay_module():
    spec = importlib.util.spec_from_file_location("relay", RELAY)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def wrong(contains, text_contains, malformed_contains):
    """The entries of the corpus that get another answer than they should."""
    searches = {
        "texts": text_contains,
        "names": lambda name: contains({name: "x"}),
        "members": contains,
        "malformed": malformed_contains,
    }
    return [
        (kind, entry)
        for kind, search in searches.items()
        for expected in ("refused", "accepted")
        for entry in CORPUS[kind][expected]
        if search(entry) is not (expected == "refused")
    ]


def test_the_service_answers_the_corpus():
    assert wrong(contains_secret, text_contains_secret, malformed_contains_secret) == []


def test_a_value_of_a_field_is_searched_as_text_is():
    def noted(text):
        return contains_secret({"note": [text]})

    assert wrong(contains_secret, noted, malformed_contains_secret) == []


def test_relay_py_answers_the_corpus():
    relay = relay_module()

    def message(value):
        return relay.looks_secret(json.dumps(value).encode())

    def noted(text):
        return message({"note": text})

    assert wrong(message, noted, lambda text: relay.looks_secret(text.encode())) == []


@pytest.mark.skipif(not NODE, reason="node is not installed")
def test_the_worker_answers_the_corpus(tmp_path):
    entries = [
        (kind, expected, entry if kind == "malformed" else json.dumps(body_of(kind, entry)))
        for kind, sorted_by in CORPUS.items()
        for expected, some in sorted_by.items()
        for entry in some
    ]
    answers = of_worker(tmp_path, "looksSecret", [text for _, _, text in entries])
    assert [
        entry
        for entry, answer in zip(entries, answers, strict=True)
        if answer is not (entry[1] == "refused")
    ] == []


def body_of(kind, entry):
    return {"names": {str(entry): "x"}, "texts": {"note": entry}}.get(kind, entry)


def of_worker(folder, function, texts):
    """What a function of relay.worker.js returns for the bytes of each text."""
    (folder / "texts.json").write_text(json.dumps(texts))
    (folder / "worker.mjs").write_text(WORKER.read_text() + f"\nexport {{ {function} }};\n")
    script = (
        'import { readFileSync } from "node:fs";'
        f'import {{ {function} as asked }} from "./worker.mjs";'
        'const texts = JSON.parse(readFileSync("texts.json", "utf8"));'
        "const bytes = (text) => new TextEncoder().encode(text);"
        "console.log(JSON.stringify(texts.map((text) => asked(bytes(text)))));"
    )
    ran = subprocess.run(
        [str(NODE), "--input-type=module", "-e", script],
        cwd=folder,
        capture_output=True,
        check=True,
        timeout=300,
    )
    return json.loads(ran.stdout)


def test_the_form_of_every_page_answers_the_corpus():
    middleware = ValidateForms(lambda request: HttpResponse())

    def refuses(text):
        request = RequestFactory().post("/bots", {"name": text})
        answer = middleware.process_view(request, None, (), {})
        return answer is not None and answer.status_code == 422

    texts = CORPUS["texts"]
    assert [text for text in texts["refused"] if not refuses(text)] == []
    assert [text for text in texts["accepted"] if refuses(text)] == []


def test_an_address_may_hold_a_key_of_the_service_that_it_leads_to():
    middleware = ValidateForms(lambda request: HttpResponse())
    for value, refused in (
        (
            "https://chat.example/v1/messages?key=AIzaSyA1b2C3d4E5f6G7h8&token=Zx81kQ02mVb7PqL3",
            False,
        ),
        (f"https://hooks.example/{formats.new(formats.DESK_TOKEN)}", True),
        (f"https://hooks.example/?{PEM}", True),
    ):
        request = RequestFactory().post("/webhooks/new", {"url": value})
        answer = middleware.process_view(request, None, (), {})
        assert (answer is not None) is refused
        assert body_contains_secret({"url": value}) is refused


def test_relay_py_repeats_the_search_word_for_word():
    own, copied = (
        SECTION.search(Path(file).read_text())[0] for file in (exchange_secrets.__file__, RELAY)
    )
    assert copied == own


def test_the_worker_has_the_same_patterns():
    """Each pattern of the search stands in the worker, in pieces of String.raw."""
    worker = dict(
        re.findall(r"^const ([A-Z_]+) = new RegExp\((.*?)\);$", WORKER.read_text(), re.M | re.S)
    )
    patterns = {
        name: value.pattern
        for name, value in vars(exchange_secrets).items()
        if isinstance(value, re.Pattern)
    }
    assert {
        name: "".join(re.findall("String\\.raw`([^`]*)`", text)) for name, text in worker.items()
    } == patterns


# --- The time -------------------------------------------------------------------------------------

LONG = [
    *("a", " ", ":", '"', "key ", "key:", "seed:", "secret", "secret is ", "api key a ", "\\u0061"),
    *("mnemonic: abandon ", "-----BEGIN ", "key=%3d", "key: a1 ", "key:a1a1a1 ", "\u00e9", "[a]"),
    "\u0316\u0301",  # combining marks that change their order
]


@pytest.mark.parametrize("text", LONG)
@pytest.mark.parametrize("search", [text_contains_secret, malformed_contains_secret])
def test_a_search_takes_linear_time(text, search):
    """The longest body takes about eight times as long as an eighth of it, not 64 times."""

    def seconds(length):
        long = (text * length)[:length]
        return min(_cpu_seconds(search, long) for _ in range(3))

    assert seconds(65_536) < 24 * max(seconds(8_192), 0.0005)


def _cpu_seconds(search, text):
    began = time.process_time()
    search(text)
    return time.process_time() - began


# --- Names and values -----------------------------------------------------------------------------


@pytest.mark.parametrize("word", NAME_PARTS.split())
def test_a_name_that_contains_one_of_these_is_refused(word):
    for name in (word, word.upper(), f"my{word}", f"{word}2", f"x{word}x"):
        assert is_secret_name(name)
    assert is_secret_name("_-. ".join(word))
    assert not is_secret_name(word[:-1] + "0")


@pytest.mark.parametrize("word", NAME_ENDINGS.split())
def test_a_name_that_ends_in_one_of_these_is_refused_and_one_that_begins_so_is_not(word):
    for name in (word, f"binance_{word}", f"X-{word.title()}", " ".join(word), f"{word}s_1"):
        assert is_secret_name(name)
    assert not is_secret_name(f"{word}ary")


@pytest.mark.parametrize("word", ["key", "sign", "otp"])
def test_a_name_that_is_one_of_these_is_refused_and_one_that_contains_it_is_not(word):
    for name in (word, word.upper(), "-".join(word), f" {word}.", f"{word}_1"):
        assert is_secret_name(name)
    for name in (f"{word}ed", f"my{word}", f"a_{word}", f"{word}_level"):
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
