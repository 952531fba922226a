"""Actions on tokens and signing secrets, and the events that they write."""

from datetime import timedelta

import pytest
import time_machine
from django.db import DatabaseError, IntegrityError, transaction
from django.utils import timezone

from events.actors import SYSTEM
from events.http.refusals import Invalid, NotAllowed
from events.kinds import Kind
from events.models import Event, Head
from events.times import truncate_to_milliseconds
from tests.factories import UserFactory, a_bot, a_connected_desk, a_desk, a_staff_user
from tests.processes import run_together
from tokens import account_closing, actions
from tokens.choices import Source
from tokens.crypto import formats
from tokens.models import SigningSecret, Token

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("contiguous")]


def latest(count: int) -> list[Event]:
    return list(reversed(Event.objects.order_by("-position")[:count]))


# --- Tokens -------------------------------------------------------------------------------------


def test_minting_again_revokes_the_old_token_in_the_same_turn():
    desk = a_desk()
    _, old = actions.mint_desk_token(desk=desk, actor=SYSTEM)
    _, new = actions.mint_desk_token(desk=desk, actor=SYSTEM)
    old.refresh_from_db()
    assert old.revoked_at == new.created_at
    assert Token.objects.active(timezone.now()).filter(desk=desk).get() == new
    revoked, minted = latest(2)
    assert (revoked.kind, minted.kind) == (Kind.TOKEN_REVOKED, Kind.TOKEN_MINTED)
    assert (revoked.topic, minted.topic) == (desk.public_id, desk.public_id)
    assert revoked.content["data"]["id"] == old.public_id


def test_a_token_that_the_caller_did_not_name_is_not_replaced():
    desk = a_desk()
    _, old = actions.mint_desk_token(desk=desk, actor=SYSTEM, replaces="")
    _, live = actions.mint_desk_token(desk=desk, actor=SYSTEM, replaces=old.public_id)
    for replaces in ("", old.public_id):
        with pytest.raises(Invalid):
            actions.mint_desk_token(desk=desk, actor=SYSTEM, replaces=replaces)
    assert Token.objects.get(revoked_at=None) == live
    actions.revoke(token=live, actor=SYSTEM)
    actions.mint_desk_token(desk=desk, actor=SYSTEM, replaces=live.public_id)


def mints(desk) -> bool:
    """Whether a page that named no token mints one."""
    try:
        actions.mint_desk_token(desk=desk, actor=SYSTEM, replaces="")
    except Invalid:
        return False
    return True


@pytest.mark.processes
@pytest.mark.django_db(transaction=True)
def test_of_four_pages_at_once_that_named_no_token_one_mints():
    assert sum(run_together(mints, [(a_desk(),)] * 4)) == 1


def test_the_event_of_a_token_is_its_record_without_use_times_and_never_its_value():
    value, token = actions.mint_platform_token(name="Engine", scopes=["read"], actor=SYSTEM)
    event = Event.objects.last()
    assert event.topic is None
    assert event.content["data"] == {
        key: content for key, content in token.to_dict().items() if key != "lastUsedAt"
    }
    assert value not in str(event.content)


def test_a_token_without_a_scope_is_refused_by_the_database():
    with pytest.raises(IntegrityError):
        actions.mint_platform_token(name="Engine", scopes=[], actor=SYSTEM)


def test_an_expiry_in_the_past_is_invalid_and_stores_nothing():
    now = timezone.now()
    with time_machine.travel(now, tick=False):
        for expires in (now - timedelta(seconds=1), truncate_to_milliseconds(now)):  # as the turn's
            with pytest.raises(Invalid):
                actions.mint_platform_token(
                    name="E", scopes=["read"], expires_at=expires, actor=SYSTEM
                )
    assert not Token.objects.exists()
    assert Head.objects.get().position == 0


def test_the_database_refuses_two_active_tokens_of_one_desk():
    desk = a_desk()
    _, token = actions.mint_desk_token(desk=desk, actor=SYSTEM)
    token.pk, token.public_id, token.digest = None, "tok_other", "0" * 64
    with pytest.raises(IntegrityError), transaction.atomic():
        token.save(force_insert=True)


def test_a_desk_token_of_another_kind_is_refused_by_the_database():
    actions.mint_desk_token(desk=a_desk(), actor=SYSTEM)
    for wrong in ({"can_write": True}, {"can_read": False}, {"desk": None}, {"scope": "platform"}):
        with pytest.raises(IntegrityError), transaction.atomic():
            Token.objects.update(**wrong)


def test_minting_for_a_deactivated_user_is_not_allowed():
    desk = a_desk()
    account_closing.deactivate(user=desk.user, actor=SYSTEM)
    with pytest.raises(NotAllowed):
        actions.mint_desk_token(desk=desk, actor=SYSTEM)


def test_no_token_is_stored_if_its_event_cannot_be_written(monkeypatch):
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(Event._meta, "db_table", "nowhere")
        with pytest.raises(DatabaseError):
            actions.mint_platform_token(name="Engine", scopes=["read"], actor=SYSTEM)
    assert not Token.objects.exists()
    assert Head.objects.get().position == 0


# --- Secrets ------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [Source.FLOOR, Source.NOX])
def test_the_events_of_a_shared_secret_are_visible_to_the_platform_only(source):
    text, secret = actions.generate_secret(source=source, actor=SYSTEM)
    event = Event.objects.last()
    assert formats.is_credential(text, formats.SIGNING_SECRET)
    assert (event.kind, event.topic) == (Kind.SECRET_GENERATED, None)
    assert event.content["data"] == secret.as_event_data()
    assert (secret.owner, secret.ends_at) == (source.value, None)
    assert text[9:] not in str(Event.objects.values()) + str(secret.__dict__)


def test_the_event_of_an_end_is_written_when_the_end_is_set():
    now = timezone.now().replace(microsecond=0)
    with time_machine.travel(now, tick=False):
        actions.generate_secret(source=Source.FLOOR, actor=SYSTEM)
        actions.generate_secret(source=Source.FLOOR, overlap=timedelta(days=7), actor=SYSTEM)
    ended, generated = latest(2)
    assert (ended.kind, generated.kind) == (Kind.SECRET_ENDED, Kind.SECRET_GENERATED)
    in_a_week = (now + timedelta(days=7)).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    old, new = SigningSecret.objects.order_by("pk")
    assert ended.content["data"] == old.as_event_data()
    assert generated.content["data"] == new.as_event_data()
    assert ended.content["data"]["endsAt"] == in_a_week


@pytest.mark.parametrize("overlap", [timedelta(days=7, seconds=1), timedelta(seconds=-1)])
def test_an_overlap_is_between_zero_and_seven_days(overlap):
    with pytest.raises(Invalid):
        actions.generate_secret(source=Source.FLOOR, overlap=overlap, actor=SYSTEM)
    assert not SigningSecret.objects.exists()


def test_there_are_never_more_than_two_live_secrets_of_one_owner():
    for _ in range(4):
        actions.generate_secret(source=Source.FLOOR, overlap=timedelta(days=7), actor=SYSTEM)
        assert SigningSecret.objects.live(timezone.now()).count() <= 2
    assert SigningSecret.objects.filter(ends_at=None).count() == 1


def test_a_removed_bot_gets_no_secret():
    bot = a_bot(a_connected_desk())
    actions.remove_automation(automation=bot.automation, actor=SYSTEM)
    with pytest.raises(Invalid):
        actions.generate_secret(source=Source.TRADINGVIEW, automation=bot.automation, actor=SYSTEM)
    assert not SigningSecret.objects.live(timezone.now()).exists()


# --- Deactivation -------------------------------------------------------------------------------


def test_deactivating_a_user_without_a_desk_changes_only_the_account():
    for user in (UserFactory.create(), a_staff_user()):
        account_closing.deactivate(user=user, actor=SYSTEM)
        user.refresh_from_db()
        assert not user.is_active
    assert Head.objects.get().position == 0
