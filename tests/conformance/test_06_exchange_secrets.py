"""Section 6: what counts as an exchange secret, and that nothing of it stays."""

import pytest

from tests.conformance.browser import SIGN_IN, Browser
from tests.conformance.client import assert_refused
from tests.conformance.credentials import credential
from tests.conformance.witness import EXCHANGE_SECRET as VALUE
from tests.conformance.witness import PEM

pytestmark = pytest.mark.once


def full_width(text):
    """The text in the letters of East Asian type, which Unicode counts as the same letters."""
    return "".join(chr(ord(letter) + 0xFEE0) if letter != " " else letter for letter in text)


# A name contains one of the words, ends in one, or is one, however it is written.
NAMES = ["myApiKeyOf2024", "binanceSecret", "otp", "k_e_y", "A p i.K-e_y", full_width("API_KEY")]
NAMES += ["api\u200bKey", "secret_1", "apiToken1"]
FREE = ["signed", "tokens", "monkey"]
# Texts with a secret that looks like one of an exchange, and texts that only use its words.
RANDOM = "NhqPtmdSJYdKjVHjA7PZj4Mge3R5YNiP1e3UZjInClVN65XAbvqqM6A7H5fATj0j"
TWELVE = (
    "seed phrase: ripple canyon orbit velvet lunar maple anchor quartz ember willow falcon tide"
)
ASSIGNED = [f"binance apiKey={RANDOM}", 'passphrase "Moon2026Lambo"', TWELVE]
ASSIGNED += [f'{{"apiSecret": "{RANDOM}"}}', f"https://x.example/?token={RANDOM}"]
# The last two are secrets that cannot be told from other texts.
ORDINARY = ["token: ETH", "key level 65000", "order key: A-17", "secret sauce: momentum"]
ORDINARY += [RANDOM, "password: Moonlight"]


def refused(answer):
    assert_refused(answer, 422, "exchange_secret")
    assert VALUE not in answer.text
    return answer


@pytest.mark.parametrize("name", NAMES)
def test_a_key_of_this_name_is_a_secret_at_any_depth(service, name):
    """In lower case and without punctuation: contains, ends in, or is."""
    refused(service.push(service.fanout(**{name: VALUE}), service.platform))
    deep = {"a": [1, {"b": {name: VALUE}}]}
    refused(service.push(service.fanout(note=deep), service.platform))


def test_the_name_is_enough(service):
    """A key, whatever it holds."""
    refused(service.push(service.fanout(api_key=None), service.platform))


@pytest.mark.parametrize("name", FREE)
def test_another_name_is_none(service, name):
    """Nothing but the list."""
    assert service.push(service.fanout(**{name: "x"}), service.platform).status_code == 200


@pytest.mark.parametrize("text", ASSIGNED)
def test_a_text_that_assigns_a_secret_is_refused_in_every_field(service, text):
    """A text in which what looks random follows the name of a secret."""
    for field in ("rationale", "decision_ref", "action_id", "trace_id", "anything"):
        answer = refused(service.push(service.of_nox(**{field: text}), service.platform))
        assert RANDOM not in answer.text
    refused(service.push(service.fanout(nonce=text), service.platform))
    refused(service.push(service.fanout(note={"deep": [text]}), service.platform))


@pytest.mark.parametrize("text", ORDINARY)
def test_a_text_that_only_uses_the_words_is_accepted(service, text):
    answer = service.push(service.of_nox(rationale=text, decision_ref=text), service.platform)
    assert answer.status_code == 200
    assert answer.json()["signal"]["rationale"] == text


def test_a_name_with_other_meanings_is_refused_with_a_random_value_only(service):
    """Of a member, its name and its text together."""
    refused(service.push(service.fanout(token=RANDOM), service.platform))
    assert service.push(service.fanout(token="ETH"), service.platform).status_code == 200


@pytest.mark.parametrize("field", ["rationale", "decision_ref", "action_id", "pair", "anything"])
def test_a_value_that_holds_a_pem_private_key_is_a_secret(service, field):
    """A name or value that holds a PEM private key."""
    pgp = PEM.replace("EC PRIVATE KEY", "PGP PRIVATE KEY BLOCK")
    for text in (PEM, f"see {PEM} there", PEM.replace("EC ", ""), PEM.replace("EC", "RSA"), pgp):
        refused(service.push(service.of_nox(**{field: text}), service.platform))
    refused(service.push(service.of_nox(**{PEM: 1}), service.platform))


@pytest.mark.parametrize("prefix", ["svc_desk_", "svc_plat_", "svc_sign_"])
def test_one_of_this_services_own_credentials_is_a_secret(service, prefix):
    """Prefix, length and checksum right, wherever it stands in a name or a value."""
    value = credential(prefix)
    for text in (value, f"see {value}.", f"x{value}y", value * 2):
        answer = service.push(service.of_nox(rationale=text), service.platform)
        assert value[9:] not in refused(answer).text
    refused(service.push(service.fanout(**{value: 1}), service.platform))
    refused(service.push(service.fanout(nonce=value), service.platform))


def test_a_text_like_a_credential_with_another_checksum_is_none(service):
    """Prefix, length and checksum right."""
    value = credential("svc_plat_")
    mistyped = value[:-1] + ("1" if value[-1] == "0" else "0")
    answer = service.push(service.of_nox(rationale=f"a {mistyped} b"), service.platform)
    assert answer.status_code == 200


@pytest.mark.parametrize("shape", ["fanout", "to_desk", "of_nox", "one_desk", "tradingview"])
def test_every_shape_is_searched(service, shape):
    """The whole body, on every shape."""
    body = getattr(service, shape)(note={"passphrase": VALUE})
    if shape == "one_desk":
        refused(service.deploy(service.desk, body))
    elif shape == "tradingview":
        refused(service.push(body, secret=service.bot["secret"]))
    else:
        refused(service.push(body, service.platform))


def test_a_free_text_field_of_a_page_is_searched(service, user):
    """The same goes for every free-text field of every page; the refusal is a page."""
    for text in (PEM, credential("svc_sign_"), f"secret={RANDOM}"):
        answer = user.post("/bots", {"name": text})
        assert answer.status_code == 422
        assert answer.headers["Content-Type"].startswith("text/html")
        assert text not in answer.text
        assert text not in user.get("/bots").text


def test_password_and_csrf_fields_of_a_page_are_not(service):
    """Not password, code and CSRF fields: a wrong password is a wrong password."""
    form = {"login": "nobody@example.com", "password": credential("svc_sign_")}
    with Browser(service) as visitor:
        answer = visitor.post(SIGN_IN, form)
    assert answer.status_code == 200
    assert "exchange_secret" not in answer.text


def test_a_secret_is_told_before_a_spent_nonce(service):
    """The same signal sent again with a secret gets exchange_secret, not 409."""
    body = service.fanout()
    assert service.push(body, service.platform).status_code == 200
    refused(service.push({**body, "note": {"api_key": VALUE}}, service.platform))


@pytest.mark.parametrize("text", ['{{"apiKey": "{}"}}', "apiKey: {}", '{{"note": "secret={}"}}'])
def test_a_message_with_a_secret_that_is_checked_on_a_page_is_not_shown_again(user, bot, text):
    """Before anything else, whichever bot it names, and also if it is not JSON."""
    answer = user.post(f"{bot.page}/check", {"message": text.format(RANDOM)})
    assert answer.headers["Content-Type"].startswith("text/html")
    assert "exchange_secret" in answer.text
    assert RANDOM not in answer.text
