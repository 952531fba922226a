"""Key rotation: data is re-encrypted under the first key, and a run can be repeated."""

import json
import secrets
from collections.abc import Callable
from datetime import timedelta
from io import StringIO

import pytest
import time_machine
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
from django.contrib.sessions.models import Session
from django.core.management import CommandError, call_command
from django.utils import timezone

from config.accounts import sessions
from config.management.commands.rotate_keys import FOUND_SOME
from desks.models.chat import Chat
from events.actors import SYSTEM
from events.management.base_command import COULD_NOT_RUN
from events.times import to_rfc3339
from signals.webhooks.actions import change, replace_secret
from signals.webhooks.models import DeliveryAttempt, Subscription
from tests import staff
from tests.client import ME, get
from tests.factories import (
    a_bot,
    a_desk,
    a_desk_token,
    a_platform_token,
    a_shared_secret,
    a_staff_user,
)
from tests.signals.notices.chats.stage import DISCORD, a_chat
from tests.signals.webhooks.stage import URL, a_webhook, secrets_of
from tokens import actions as tokens
from tokens import key_rotation
from tokens.choices import Source
from tokens.crypto import keys
from tokens.models import SigningSecret, Token
from tokens.models.secret import decrypt
from tokens.secret_erasure import erase_ended

pytestmark = pytest.mark.django_db


@pytest.fixture
def new_key(settings) -> Callable[[], None]:
    """Each call puts a new key in front of the others."""

    def put() -> None:
        settings.SECRET_KEYS = [secrets.token_bytes(32), *settings.SECRET_KEYS]
        settings.TOKEN_KEYS = [secrets.token_bytes(32), *settings.TOKEN_KEYS]
        settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
        settings.SECRET_KEY = secrets.token_hex(32)

    return put


def only_first(settings) -> None:
    settings.SECRET_KEYS = settings.SECRET_KEYS[:1]
    settings.TOKEN_KEYS = settings.TOKEN_KEYS[:1]
    settings.SECRET_KEY_FALLBACKS = []


def rotate(status: int = 0) -> dict:
    """The command's report and its exit status."""
    out, ended = StringIO(), 0
    try:
        call_command("rotate_keys", "--json", stdout=out)
    except CommandError as error:
        ended = error.returncode
    assert ended == status
    return json.loads(out.getvalue() or "{}")


def test_every_secret_can_be_decrypted_with_the_first_key_alone(desk, settings, new_key):
    bot, floor = a_bot(desk), a_shared_secret(Source.FLOOR)
    new_key()
    assert rotate(FOUND_SOME)["secrets"] == 2
    assert rotate()["secrets"] == 0
    only_first(settings)
    assert {secret.decrypt() for secret in SigningSecret.objects.all()} == {bot.secret, floor}


def test_second_factors_are_reencrypted(settings, new_key):
    user, seed = a_staff_user(), generate_totp_secret()
    totp, codes = TOTP.activate(user, seed), RecoveryCodes.activate(user)
    before = codes.get_unused_codes()
    new_key()
    assert rotate(FOUND_SOME)["secondFactors"] == 2
    assert rotate()["secondFactors"] == 0
    only_first(settings)
    totp, codes = (Authenticator.objects.get(pk=f.instance.pk).wrap() for f in (totp, codes))
    assert keys.decrypt_factor(totp.instance.data["secret"]) == seed
    assert codes.get_unused_codes() == before


def test_a_second_factor_removed_meanwhile_is_skipped(settings, new_key):
    user = a_staff_user()
    TOTP.activate(user, generate_totp_secret())
    RecoveryCodes.activate(user)
    new_key()
    moving = key_rotation.reencrypt_second_factors()
    assert next(moving)
    Authenticator.objects.all().delete()
    list(moving)
    assert not Authenticator.objects.exists()


def test_after_being_killed_everything_is_readable_and_a_new_run_continues(settings, new_key):
    texts = {a_shared_secret(Source.FLOOR), a_shared_secret(Source.NOX)}
    new_key()
    moved = next(key_rotation.reencrypt(SigningSecret))
    assert {secret.decrypt() for secret in SigningSecret.objects.all()} == texts
    assert moved not in list(key_rotation.reencrypt(SigningSecret))
    only_first(settings)
    assert {secret.decrypt() for secret in SigningSecret.objects.all()} == texts


def test_a_webhooks_url_secret_and_answers_move_too(settings, new_key):
    webhook = a_webhook()
    attempt = DeliveryAttempt(subscription=webhook, at=timezone.now(), milliseconds=1, status=500)
    attempt.keep_answer(b"no")
    silent = DeliveryAttempt(subscription=webhook, at=timezone.now(), milliseconds=1, status=200)
    DeliveryAttempt.objects.bulk_create([attempt, silent])
    secrets = secrets_of(webhook)
    new_key()
    assert rotate(FOUND_SOME)["webhooks"] == 3
    assert rotate()["webhooks"] == 0
    only_first(settings)
    moved = Subscription.objects.get()
    assert (moved.decrypt(), secrets_of(moved)) == (URL, secrets)
    assert [one.answer for one in moved.attempts.all()] == ["", "no"]


def test_the_address_of_a_chat_moves_too(desk, settings, new_key):
    a_chat(desk.user)
    new_key()
    assert rotate(FOUND_SOME)["chats"] == 1
    assert rotate()["chats"] == 0
    only_first(settings)
    assert decrypt(Chat.objects.get()) == DISCORD


def test_a_url_that_changes_while_keys_move_is_not_changed_back(settings, new_key):
    """A server that has not put the new key first yet encrypts the new URL under the old one."""
    a_webhook()
    later, old = a_webhook(), settings.SECRET_KEYS
    new_key()
    both, moving = settings.SECRET_KEYS, key_rotation.reencrypt(Subscription)
    next(moving)
    settings.SECRET_KEYS = old
    change(webhook=later, url="https://new.example/", actor=SYSTEM)
    settings.SECRET_KEYS = both
    list(moving)
    later.refresh_from_db()
    assert later.decrypt() == "https://new.example/"


def test_it_lists_tokens_of_old_keys_until_they_are_used(desk, new_key):
    """The one that was used most recently is the last."""
    value, unused = a_desk_token(desk), a_platform_token()
    get(ME, value)
    new_key()
    listed = rotate(FOUND_SOME)["tokensOnOldKeys"]
    assert [token["hint"][-4:] for token in listed] == [unused[-4:], value[-4:]]
    assert listed[1]["lastUsedAt"] == to_rfc3339(Token.objects.get(desk=desk).last_used_at)
    with time_machine.travel(timezone.now() + timedelta(minutes=2)):
        assert get(ME, value).status_code == 200
    [waiting] = rotate(FOUND_SOME)["tokensOnOldKeys"]
    engine = Token.objects.get(scope="platform")
    assert waiting == {**engine.to_dict(), "key": engine.key_id}
    engine.revoked_at = timezone.now()
    engine.save()
    assert rotate()["tokensOnOldKeys"] == []


def test_one_statement_lists_the_tokens_of_many_desks(
    desk, stranger, new_key, django_assert_num_queries
):
    a_desk_token(desk)
    a_desk_token(stranger)
    new_key()
    with django_assert_num_queries(1):
        records = [token.to_dict() for token in key_rotation.tokens_on_old_keys(timezone.now())]
    assert {record["userId"] for record in records} == {desk.public_id, stranger.public_id}


def test_revoked_and_expired_tokens_are_not_listed(desk, new_key):
    a_desk_token(desk)
    a_desk_token(desk)
    a_platform_token()
    Token.objects.filter(scope="platform").update(
        created_at=timezone.now() - timedelta(days=2),
        expires_at=timezone.now() - timedelta(days=1),
    )
    new_key()
    assert len(rotate(FOUND_SOME)["tokensOnOldKeys"]) == 1


@pytest.mark.django_db(transaction=True)
def test_once_nothing_needs_an_old_key_the_audit_passes_with_the_first_keys_alone(
    settings, new_key
):
    """A token has expired, and nothing has happened since. Secrets have ended or soon will."""
    desk, now, hour = a_desk(), timezone.now(), timedelta(hours=1)
    used = a_desk_token(desk)
    tokens.mint_platform_token(name="Engine", scopes=["read"], expires_at=now + hour, actor=SYSTEM)
    a_shared_secret(Source.NOX), a_shared_secret(Source.NOX)
    erase_ended()
    a_shared_secret(Source.FLOOR), a_shared_secret(Source.FLOOR)
    tokens.generate_secret(source=Source.FLOOR, overlap=24 * hour, actor=SYSTEM)
    replace_secret(webhook=a_webhook(desk), overlap=24 * hour, actor=SYSTEM)
    a_chat(desk.user), TOTP.activate(desk.user, generate_totp_secret())
    staff.a_client(a_desk().user, "password")
    new_key()
    with time_machine.travel(now + 2 * hour):
        get(ME, used)
        assert rotate(FOUND_SOME)["tokensOnOldKeys"] == []
        rotate()
        only_first(settings)
        rotate()
        call_command("audit", stdout=StringIO())


@pytest.mark.parametrize("kind", ["SECRET_KEY", "SECRET_KEYS"])
def test_a_session_is_reencrypted_whichever_of_its_two_keys_is_new(desk, settings, kind):
    browser = staff.a_client(desk.user, "password")
    cookie = browser.cookies["session"].value
    if kind == "SECRET_KEY":
        settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
        settings.SECRET_KEY = secrets.token_hex(32)
    else:
        settings.SECRET_KEYS = [secrets.token_bytes(32), *settings.SECRET_KEYS]
    assert rotate(FOUND_SOME)["sessions"] == 1
    assert rotate()["sessions"] == 0
    only_first(settings)
    assert browser.get("/desk").status_code == 200
    assert browser.cookies["session"].value == cookie


def test_a_session_saved_meanwhile_is_not_overwritten(desk, new_key):
    browser = staff.a_client(desk.user, "password")
    new_key()
    row = Session.objects.get()
    assert not sessions._replace(row.pk, "what stood there before", "something else")
    assert Session.objects.get().session_data == row.session_data
    assert browser.get("/desk").status_code == 200


def test_a_session_that_no_key_decrypts_is_skipped(desk, settings):
    staff.a_client(desk.user, "password")
    before = Session.objects.get().session_data
    settings.SECRET_KEY = secrets.token_hex(32)
    assert rotate()["sessions"] == 0
    assert Session.objects.get().session_data == before


def test_it_reports_until_when_links_in_mails_need_an_old_key(db, new_key):
    assert rotate()["linksEnd"] is None
    new_key()
    now = timezone.now()
    with time_machine.travel(now, tick=False):
        assert rotate()["linksEnd"] == to_rfc3339(now + timedelta(days=3))


def test_a_secret_that_no_key_decrypts_is_reported(settings, db):
    a_shared_secret()
    settings.SECRET_KEYS = [secrets.token_bytes(32)]
    with pytest.raises(CommandError, match="Put its key back") as ended:
        call_command("rotate_keys")
    assert ended.value.returncode == COULD_NOT_RUN


def test_it_prints_what_it_did(desk, new_key):
    a_bot(desk)
    out = StringIO()
    call_command("rotate_keys", stdout=out)
    assert out.getvalue() == (
        "Moved to the first key: 0 signing secrets, 0 texts of webhooks, "
        "0 chats, 0 second factors, 0 sessions.\n"
        "Nothing needs another key than the first.\n"
    )


def test_it_prints_what_still_needs_an_old_key(desk, new_key):
    a_bot(desk)
    a_platform_token()
    token, now = Token.objects.get(), timezone.now()
    new_key()
    out = StringIO()
    with (
        time_machine.travel(now, tick=False),
        pytest.raises(CommandError, match="1 tokens are listed"),
    ):
        call_command("rotate_keys", stdout=out)
    assert out.getvalue() == (
        "Moved to the first key: 1 signing secrets, 0 texts of webhooks, "
        "0 chats, 0 second factors, 0 sessions.\n"
        f"On the key {token.key_id}: {token.public_id} {token.hint} Engine, never used\n"
        "Links in emails become invalid when you remove the SECRET_KEY that signed them. Links "
        f"sent until now expire by {to_rfc3339(now + timedelta(days=3))}.\n"
    )
