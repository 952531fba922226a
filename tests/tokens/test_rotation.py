"""Rotating keys: everything moves to the newest, at any point, as often as one likes."""

import json
import secrets
import sys
from io import StringIO

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
from django.core.management import CommandError, call_command
from django.test import Client

from tests.factories import a_bot, a_desk_token, a_platform_token, a_shared_secret, a_staff_user
from tokens import keys, rotation
from tokens.models import SigningSecret, Source, Token

pytestmark = pytest.mark.django_db


@pytest.fixture
def new_key(settings) -> None:
    """A call puts a new key before the others."""

    def put() -> None:
        settings.SECRET_KEYS = [secrets.token_bytes(32), *settings.SECRET_KEYS]
        settings.TOKEN_KEYS = [secrets.token_bytes(32), *settings.TOKEN_KEYS]

    return put


def only_newest(settings) -> None:
    settings.SECRET_KEYS = settings.SECRET_KEYS[:1]


def rotate() -> dict:
    out = StringIO()
    call_command("rotate_keys", "--json", stdout=out)
    return json.loads(out.getvalue())


def test_every_secret_opens_with_the_newest_key_alone(desk, settings, new_key):
    bot, floor = a_bot(desk), a_shared_secret(Source.FLOOR)
    new_key()
    assert rotate()["secrets"] == 2
    only_newest(settings)
    assert {secret.text() for secret in SigningSecret.objects.all()} == {bot.secret, floor}


def test_second_factors_move_as_well(settings, new_key):
    user, seed = a_staff_user(), generate_totp_secret()
    totp, codes = TOTP.activate(user, seed), RecoveryCodes.activate(user)
    before = codes.get_unused_codes()
    new_key()
    assert rotate()["secondFactors"] == 2
    only_newest(settings)
    totp, codes = (Authenticator.objects.get(pk=f.instance.pk).wrap() for f in (totp, codes))
    assert keys.decrypt_factor(totp.instance.data["secret"]) == seed
    assert codes.get_unused_codes() == before


def test_a_second_factor_that_is_removed_meanwhile_is_left_out(settings, new_key):
    user = a_staff_user()
    TOTP.activate(user, generate_totp_secret())
    RecoveryCodes.activate(user)
    new_key()
    moving = rotation.reencrypt_second_factors()
    assert next(moving)
    Authenticator.objects.all().delete()
    list(moving)
    assert not Authenticator.objects.exists()


def test_a_second_run_has_nothing_to_do(desk, new_key):
    a_bot(desk)
    TOTP.activate(desk.user, generate_totp_secret())
    new_key()
    first = rotate()
    assert (first["secrets"], first["secondFactors"]) == (1, 1)
    assert (rotate()["secrets"], rotate()["secondFactors"]) == (0, 0)


def test_killed_half_way_it_leaves_everything_readable_and_goes_on(settings, new_key):
    texts = {a_shared_secret(Source.FLOOR), a_shared_secret(Source.NOX)}
    new_key()
    moved = next(rotation.reencrypt_secrets())
    assert {secret.text() for secret in SigningSecret.objects.all()} == texts
    assert moved not in list(rotation.reencrypt_secrets())
    only_newest(settings)
    assert {secret.text() for secret in SigningSecret.objects.all()} == texts


def test_it_lists_the_tokens_that_stand_on_an_old_key_until_they_are_used(desk, new_key):
    value, _ = a_desk_token(desk), a_platform_token()
    new_key()
    assert len(rotate()["tokensOnOldKeys"]) == 2
    answer = Client(headers={"Authorization": f"Bearer {value}"}).get("/api/v1/me")
    assert answer.status_code == 200
    [waiting] = rotate()["tokensOnOldKeys"]
    assert waiting["id"] == Token.objects.get(scope="platform").public_id


def test_a_revoked_token_needs_no_key(desk, new_key):
    a_desk_token(desk)
    a_desk_token(desk)
    new_key()
    assert len(rotate()["tokensOnOldKeys"]) == 1


def test_a_secret_that_no_key_opens_is_named(settings, db):
    a_shared_secret()
    settings.SECRET_KEYS = [secrets.token_bytes(32)]
    with pytest.raises(CommandError, match="Put its key back"):
        rotate()


def test_it_says_in_words_what_it_did(desk, new_key):
    a_bot(desk)
    new_key()
    out = StringIO()
    call_command("rotate_keys", stdout=out)
    assert out.getvalue() == (
        "1 signing secrets and 0 second factors moved.\nNo token stands on an older key.\n"
    )


def test_it_shows_on_a_terminal_how_far_it_is(desk, new_key, monkeypatch):
    class Terminal(StringIO):
        def isatty(self):
            return True

    a_bot(desk)
    TOTP.activate(desk.user, generate_totp_secret())
    new_key()
    monkeypatch.setattr("sys.stderr", Terminal())
    rotate()
    shown = sys.stderr.getvalue()
    assert "Secrets: " in shown
    assert "Second factors: " in shown
    assert "/1 [" in shown


def test_without_a_terminal_it_shows_nothing_but_its_report(desk, new_key, capsys):
    a_bot(desk)
    new_key()
    assert rotate()["secrets"] == 1
    assert capsys.readouterr() == ("", "")
