"""Digests and encryption with the configured keys (contract, section 2)."""

import secrets
from datetime import timedelta

import pytest
import time_machine
from django.utils import timezone

from events.actors import SYSTEM
from tests.client import ME, code, get, push
from tests.factories import a_bot, a_connected_desk, a_desk, a_desk_token, a_shared_secret
from tests.signals.bodies import tradingview
from tokens import actions
from tokens.choices import Source
from tokens.crypto import keys
from tokens.models import SigningSecret, Token

pytestmark = pytest.mark.django_db


def new_first(setting: list[bytes]) -> list[bytes]:
    """The keys with a new key in front."""
    return [secrets.token_bytes(32), *setting]


def test_the_id_of_a_key_does_not_change_between_versions():
    """The id is stored with every ciphertext. With another id nothing could be decrypted."""
    assert keys.key_id(bytes(range(32))) == "7d8a485a"


def test_only_a_keyed_digest_of_a_token_is_stored(settings):
    value = a_desk_token(a_desk())
    row = Token.objects.values().get()
    assert value not in str(row)
    assert value[-10:] not in str(row)
    assert row["digest"] == keys.digest(value, settings.TOKEN_KEYS[0])
    assert row["digest"] != keys.digest(value, b"another key")


def test_a_planted_digest_of_another_key_is_refused():
    value = a_desk_token(a_desk())
    Token.objects.update(digest=keys.digest(value, b"the attacker's own"))
    assert code(get(ME, value)) == "token_invalid"


def test_a_token_of_an_older_key_is_still_active(settings):
    value = a_desk_token(a_desk())
    settings.TOKEN_KEYS = new_first(settings.TOKEN_KEYS)
    assert get(ME, value).status_code == 200


def test_the_digest_is_recomputed_with_the_first_key_when_the_use_is_recorded(settings):
    value, old = a_desk_token(a_desk()), settings.TOKEN_KEYS[0]
    with time_machine.travel(timezone.now(), tick=False) as clock:
        get(ME, value)
        settings.TOKEN_KEYS = new_first([old])
        get(ME, value)
        assert Token.objects.get().key_id == keys.key_id(old), "noted within this minute"
        clock.shift(61)
        get(ME, value)
    token = Token.objects.get()
    assert token.key_id == keys.key_id(settings.TOKEN_KEYS[0])
    assert token.digest == keys.digest(value, settings.TOKEN_KEYS[0])
    settings.TOKEN_KEYS = settings.TOKEN_KEYS[:1]
    assert get(ME, value).status_code == 200


def test_servers_with_the_same_keys_in_another_order_accept_the_same_token(settings):
    value, one = a_desk_token(a_desk()), new_first(settings.TOKEN_KEYS)
    with time_machine.travel(timezone.now(), tick=False) as clock:
        for order in (one, one[::-1]) * 3:
            settings.TOKEN_KEYS = order
            assert get(ME, value).status_code == 200
            assert Token.objects.get().key_id == keys.key_id(order[0])
            clock.shift(61)


def test_a_token_of_a_removed_key_is_refused(settings):
    value = a_desk_token(a_desk())
    settings.TOKEN_KEYS = [secrets.token_bytes(32)]
    assert code(get(ME, value)) == "token_invalid"


def test_the_use_of_a_token_is_recorded_at_most_once_a_minute():
    value, start = a_desk_token(a_desk()), timezone.now()
    with time_machine.travel(start, tick=False) as clock:
        get(ME, value)
        assert Token.objects.get().last_used_at == start
        clock.shift(59)
        get(ME, value)
        assert Token.objects.get().last_used_at == start
        clock.shift(2)
        get(ME, value)
        assert Token.objects.get().last_used_at == start + timedelta(seconds=61)


def test_a_secret_is_encrypted_differently_each_time():
    text, secret = actions.generate_secret(source=Source.FLOOR, actor=SYSTEM)
    sealed = bytes(SigningSecret.objects.get().ciphertext)
    assert text.encode() not in sealed
    assert keys.encrypt(text, secret.associated_data)[0] != sealed
    assert SigningSecret.objects.get().decrypt() == text


def test_a_secret_of_an_older_key_is_decrypted_by_its_key_id(settings):
    text, secret = actions.generate_secret(source=Source.FLOOR, actor=SYSTEM)
    assert secret.key_id == keys.key_id(settings.SECRET_KEYS[0])
    settings.SECRET_KEYS = new_first(settings.SECRET_KEYS)
    assert SigningSecret.objects.get().decrypt() == text


def test_a_ciphertext_in_another_row_cannot_be_decrypted():
    a_shared_secret(Source.FLOOR)
    nox_text = a_shared_secret(Source.NOX)
    floor, nox = SigningSecret.objects.of(Source.FLOOR), SigningSecret.objects.of(Source.NOX)
    floor.update(ciphertext=nox.get().ciphertext)
    with pytest.raises(keys.KeyLostError):
        floor.get().decrypt()
    assert nox.get().decrypt() == nox_text


def test_a_ciphertext_of_another_owner_cannot_be_decrypted():
    desk = a_connected_desk()
    mine, other = a_bot(desk), a_bot(desk)
    of_mine = SigningSecret.objects.filter(automation=mine.automation)
    SigningSecret.objects.filter(automation=other.automation).delete()
    of_mine.update(automation=other.automation)
    with pytest.raises(keys.KeyLostError):
        SigningSecret.objects.get().decrypt()


def test_a_changed_ciphertext_cannot_be_decrypted():
    _, secret = actions.generate_secret(source=Source.FLOOR, actor=SYSTEM)
    sealed = bytearray(secret.ciphertext)
    sealed[-1] ^= 1
    SigningSecret.objects.update(ciphertext=bytes(sealed))
    with pytest.raises(keys.KeyLostError):
        SigningSecret.objects.get().decrypt()


def test_a_secret_that_cannot_be_decrypted_verifies_nothing_and_is_logged(settings, caplog):
    bot = a_bot(a_connected_desk())
    settings.SECRET_KEYS = [secrets.token_bytes(32)]
    response = push(tradingview(bot), secret=bot.secret)
    assert (response.status_code, code(response)) == (401, "signature_invalid")
    assert "Cannot decrypt" in caplog.text
    assert bot.secret not in caplog.text


def test_if_one_of_two_secrets_cannot_be_decrypted_the_other_still_signs(settings):
    bot = a_bot(a_connected_desk())
    settings.SECRET_KEYS = [secrets.token_bytes(32)]
    new, _ = actions.generate_secret(
        source=Source.TRADINGVIEW,
        automation=bot.automation,
        overlap=timedelta(days=1),
        actor=SYSTEM,
    )
    assert code(push(tradingview(bot), secret=new)) == "ok"
    assert code(push(tradingview(bot), secret=bot.secret)) == "signature_invalid"
