"""Notices that tell a desk's owner of changes to tokens and secrets."""

import re

import pytest
from django.core.mail.backends.locmem import EmailBackend
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from desks.models import QueuedNotice
from events import log
from tests import factories
from tests.notices import send
from tests.tokens.test_lock_of_the_log import TAKES_LOCK
from tokens import actions
from tokens.choices import Source
from tokens.models import SigningSecret, Token

pytestmark = pytest.mark.django_db(transaction=True)

OWNER = re.compile(r'SELECT "desks_(?:user|desk)"\."id".*? FROM "desks_(?:user|desk)"')


def sent_notices():
    """The sentences of the mails since the last call, one list for each mail."""
    return [
        [line[2:] for line in message.body.splitlines() if line.startswith("- ")]
        for message in send()
    ]


def test_minting_and_revoking_a_desk_token(desk, owner):
    value = actions.mint_desk_token(desk=desk, actor=desk.actor)[0]
    (message,) = send()
    hint = Token.objects.get().hint
    assert message.to == [desk.user.email]
    assert f"- The desk token {hint} was minted." in message.body
    assert value not in message.body

    owner.post("/desk/token")
    new = Token.objects.get(revoked_at=None).hint
    assert sent_notices() == [
        [f"The desk token {hint} was revoked.", f"The desk token {new} was minted."]
    ]
    owner.post("/desk/token/revoke")
    assert sent_notices() == [[f"The desk token {new} was revoked."]]
    owner.post("/desk/token/revoke")
    assert sent_notices() == [], "nothing changed"


def test_a_token_that_revokes_itself(desk):
    value = actions.mint_desk_token(desk=desk, actor=desk.actor)[0]
    sent_notices()
    Client().delete("/api/v1/tokens", headers={"Authorization": f"Bearer {value}"})
    assert sent_notices() == [[f"The desk token {Token.objects.get().hint} was revoked."]]


def test_generating_and_ending_a_bots_secret(desk, owner):
    bot = factories.a_bot(desk).automation
    first = SigningSecret.objects.get()
    owner.post(f"/bots/{bot.pk}/secret", {"overlap": "3600"})
    second = SigningSecret.objects.get(ends_at=None)
    first.refresh_from_db()
    ((ends, made),) = sent_notices()
    assert ends.startswith(f"The signing secret {first.hint} of the bot Chart ends at 20")
    assert made == f"A signing secret of the bot Chart was generated: {second.hint}."
    owner.post(f"/bots/{bot.pk}/secrets/{second.public_id}/end")
    assert sent_notices() == [[f"The signing secret {second.hint} of the bot Chart has ended."]]
    owner.post(f"/bots/{bot.pk}/remove")
    assert sent_notices() == [[f"The signing secret {first.hint} of the bot Chart has ended."]]


def test_a_change_by_staff_is_attributed_to_staff(desk):
    factories.a_desk_token(desk)
    actions.revoke(token=Token.objects.select_related("desk").get(), actor=desk.actor)
    assert "by our staff" not in send()[-1].body
    factories.a_bot(desk)
    secret = SigningSecret.objects.get()
    actions.end_secret(secret=secret, actor=factories.a_staff_user().actor)
    (message,) = send()
    assert message.to == [desk.user.email]
    assert "by our staff:" in message.body


def test_a_platform_credential_sends_no_mail():
    actor = factories.a_staff_user().actor
    actions.mint_platform_token(name="Engine", scopes=["read"], actor=actor)
    actions.generate_secret(source=Source.FLOOR, actor=actor)
    assert send() == []


def test_no_request_sends_a_notice(desk, owner, monkeypatch):
    monkeypatch.setattr(EmailBackend, "send_messages", lambda *_: 1 / 0)
    assert owner.post("/desk/token").status_code == 200
    assert QueuedNotice.objects.count() == 1


def test_no_owner_is_read_under_the_log_s_lock(desk, owner):
    """All writers wait meanwhile. A mint revokes the token before it, and an overlap ends one."""
    bot = factories.a_bot(desk).automation
    secret = SigningSecret.objects.get()
    steps = [
        ("/desk/token", {}),
        ("/desk/token", {}),
        ("/desk/token/revoke", {}),
        (f"/bots/{bot.pk}/secret", {"overlap": "3600"}),
        (f"/bots/{bot.pk}/secrets/{secret.public_id}/end", {}),
        (f"/bots/{bot.pk}/remove", {}),
    ]
    for path, fields in steps:
        with CaptureQueriesContext(connection) as captured:
            owner.post(path, fields)
        every = [query["sql"] for query in captured]
        (first,) = [n for n, sql in enumerate(every) if TAKES_LOCK in sql]
        under_the_lock = every[first : every.index("COMMIT", first)]
        assert any(QueuedNotice._meta.db_table in sql for sql in under_the_lock), path
        assert not [sql for sql in under_the_lock if OWNER.search(sql)], path


def test_a_failed_turn_sends_no_mail(desk):
    def mint_and_fail():
        with log.turn(actor=desk.actor):
            actions.mint_desk_token(desk=desk, actor=desk.actor)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        mint_and_fail()
    assert not QueuedNotice.objects.exists()
    assert not Token.objects.exists()


def test_subjects_say_what_happened(desk, owner):
    owner.post("/desk/token")
    owner.post("/desk/token")
    owner.post("/desk/token/revoke")
    bot = factories.a_bot(desk).automation
    owner.post(f"/bots/{bot.pk}/secret", {"overlap": "3600"})
    owner.post(f"/bots/{bot.pk}/remove")
    assert [message.subject for message in send()] == [
        "A token of your desk was minted",
        "A token of your desk was minted (1 more change)",
        "The token of your desk was revoked",
        "A signing secret of a bot of yours was generated (1 more change)",
        "A signing secret of a bot of yours has ended (1 more change)",
    ]
