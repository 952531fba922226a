"""The keys of the environment at work (contract, section 2)."""

import secrets
from datetime import timedelta

import pytest
import time_machine
from django.utils import timezone

from tests.client import ME, code, get, push
from tests.factories import a_bot, a_connected_desk, a_desk, a_desk_token, a_shared_secret
from tests.signals.bodies import tradingview
from tokens import actions, keys
from tokens.models import SigningSecret, Source, Token

pytestmark = pytest.mark.django_db


def newest_first(setting: list[bytes]) -> list[bytes]:
    """The keys after a new one was put in front."""
    return [secrets.token_bytes(32), *setting]


def test_a_key_keeps_its_name_from_one_version_to_the_next():
    """It stands beside all that was made with the key: under another name nothing would open."""
    assert keys.key_id(bytes(range(32))) == "7d8a485a"


def test_a_token_is_kept_as_a_keyed_digest_and_its_value_nowhere(settings):
    value = a_desk_token(a_desk())
    row = Token.objects.values().get()
    assert value not in str(row)
    assert value[-10:] not in str(row)
    assert row["digest"] == keys.digest(value, settings.TOKEN_KEYS[0])
    assert row["digest"] != keys.digest(value, b"another key")


def test_a_planted_digest_of_another_key_opens_nothing():
    value = a_desk_token(a_desk())
    Token.objects.update(digest=keys.digest(value, b"the attacker's own"))
    assert code(get(ME, value)) == "token_invalid"


def test_a_token_made_under_an_older_key_is_still_in_force(settings):
    value = a_desk_token(a_desk())
    settings.TOKEN_KEYS = newest_first(settings.TOKEN_KEYS)
    assert get(ME, value).status_code == 200


def test_the_digest_is_redone_with_the_newest_key_at_the_next_use(settings):
    value = a_desk_token(a_desk())
    get(ME, value)  # so that its use was noted within this minute
    old = settings.TOKEN_KEYS[0]
    assert Token.objects.get().key_id == keys.key_id(old)
    settings.TOKEN_KEYS = newest_first([old])
    get(ME, value)
    token = Token.objects.get()
    assert token.key_id == keys.key_id(settings.TOKEN_KEYS[0])
    assert token.digest == keys.digest(value, settings.TOKEN_KEYS[0])
    settings.TOKEN_KEYS = settings.TOKEN_KEYS[:1]
    assert get(ME, value).status_code == 200


def test_a_token_of_a_key_that_is_gone_is_not_in_force(settings):
    value = a_desk_token(a_desk())
    settings.TOKEN_KEYS = [secrets.token_bytes(32)]
    assert code(get(ME, value)) == "token_invalid"


def test_the_use_of_a_token_is_noted_at_most_once_a_minute():
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


def test_a_secret_is_kept_encrypted_and_never_twice_the_same():
    text, secret = actions.generate_secret(source=Source.FLOOR)
    sealed = bytes(SigningSecret.objects.get().ciphertext)
    assert text.encode() not in sealed
    assert keys.encrypt(text, secret.row)[0] != sealed
    assert SigningSecret.objects.get().text() == text


def test_a_secret_of_an_older_key_opens_and_the_key_id_stands_beside_it(settings):
    text, secret = actions.generate_secret(source=Source.FLOOR)
    assert secret.key_id == keys.key_id(settings.SECRET_KEYS[0])
    settings.SECRET_KEYS = newest_first(settings.SECRET_KEYS)
    assert SigningSecret.objects.get().text() == text


def test_a_ciphertext_moved_to_another_row_does_not_open():
    a_shared_secret(Source.FLOOR)
    nox_text = a_shared_secret(Source.NOX)
    floor, nox = SigningSecret.objects.of(Source.FLOOR), SigningSecret.objects.of(Source.NOX)
    floor.update(ciphertext=nox.get().ciphertext)
    with pytest.raises(keys.KeyLostError):
        floor.get().text()
    assert nox.get().text() == nox_text


def test_a_ciphertext_does_not_open_for_another_owner():
    desk = a_connected_desk()
    mine, other = a_bot(desk), a_bot(desk)
    of_mine = SigningSecret.objects.filter(automation=mine.automation)
    SigningSecret.objects.filter(automation=other.automation).delete()
    of_mine.update(automation=other.automation)
    with pytest.raises(keys.KeyLostError):
        SigningSecret.objects.get().text()


def test_a_changed_ciphertext_does_not_open():
    _, secret = actions.generate_secret(source=Source.FLOOR)
    sealed = bytearray(secret.ciphertext)
    sealed[-1] ^= 1
    SigningSecret.objects.update(ciphertext=bytes(sealed))
    with pytest.raises(keys.KeyLostError):
        SigningSecret.objects.get().text()


def test_a_secret_that_does_not_open_verifies_nothing_and_the_operator_is_told(settings, caplog):
    bot = a_bot(a_connected_desk())
    settings.SECRET_KEYS = [secrets.token_bytes(32)]
    response = push(tradingview(bot), secret=bot.secret)
    assert (response.status_code, code(response)) == (401, "signature_invalid")
    assert "does not open" in caplog.text
    assert bot.secret not in caplog.text


def test_while_one_of_two_secrets_does_not_open_the_other_still_signs(settings):
    bot = a_bot(a_connected_desk())
    settings.SECRET_KEYS = [secrets.token_bytes(32)]
    new, _ = actions.generate_secret(
        source=Source.TRADINGVIEW, automation=bot.automation, overlap=timedelta(days=1)
    )
    assert code(push(tradingview(bot), secret=new)) == "ok"
    assert code(push(tradingview(bot), secret=bot.secret)) == "signature_invalid"
