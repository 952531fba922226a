"""A nonce is single-use within its signer, without expiry (contract, section 4)."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction

from desks import actions as desks
from events.actors import SYSTEM
from events.models import Event, Head
from signals.intake.models import Signal
from tests.client import code, deploy_path, post, push
from tests.factories import a_bot, a_platform_token, a_shared_secret, expect
from tests.notices import table_away
from tests.signals.bodies import deploy, fanout, floor, nox, tradingview
from tokens import actions as tokens
from tokens.choices import Source

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("desk")]


def test_each_signer_has_its_own_nonces(engine, desk):
    one, other = a_bot(desk), a_bot(desk)
    assert code(push(tradingview(one, nonce="act_1"), secret=one.secret)) == "ok"
    assert code(push(tradingview(other, nonce="act_1"), secret=other.secret)) == "ok"
    assert code(push(fanout(nonce="act_1"), engine)) == "ok"
    assert code(push(nox(action_id="act_1"), engine)) == "ok"
    assert code(push(tradingview(one, nonce="act_1"), secret=one.secret)) == "nonce_used"


def test_a_signer_is_the_same_whichever_credential_authorises(engine, desk):
    floor_secret, second = a_shared_secret(), a_platform_token("write")
    body = fanout()
    assert code(push(body, engine)) == "ok"
    assert code(push(body, second)) == "nonce_used"
    assert code(push(body, secret=floor_secret)) == "nonce_used"
    assert code(push(floor(desk, nonce=body["nonce"]), engine)) == "nonce_used"
    assert code(post(deploy_path(desk.public_id), deploy(nonce=body["nonce"]), engine)) == (
        "nonce_used"
    )


def test_the_first_outcome_does_not_change_later(engine, desk):
    body = floor(desk)
    first = push(body, engine).json()
    first.pop("ignored")
    desks.publish_card(name="Other", pair="X/Y", direction="short", actor=SYSTEM)
    desks.disconnect(desk=desk, actor=SYSTEM)
    assert push(body, engine).json()["first"] == first


def test_a_bots_new_secret_spends_the_same_nonces(desk):
    bot = a_bot(desk)
    body = tradingview(bot)
    assert code(push(body, secret=bot.secret)) == "ok"
    new, _ = tokens.generate_secret(
        source=Source.TRADINGVIEW, automation=bot.automation, actor=SYSTEM
    )
    assert code(push(body, secret=new)) == "nonce_used"


def test_nonces_are_compared_exactly(engine):
    for nonce in ("a", "A", "a.", "a0"):
        assert code(push(fanout(nonce=nonce), engine)) == "ok"


@pytest.mark.django_db(transaction=True)
def test_a_signal_that_failed_with_a_server_error_spends_no_nonce_and_stores_nothing(engine):
    """A table is missing during the turn: the signal is inserted, but its event fails."""
    body, before = fanout(), Head.objects.get().position
    with table_away(Event):
        response = push(body, engine)
    assert response.status_code >= 500
    assert code(response) in ("internal", "unavailable")
    assert not Signal.objects.exists()
    assert Head.objects.get().position == before
    answer = push(body, engine)
    assert code(answer) == "ok"
    assert answer.json()["signal"]["position"] == before + 1


def test_a_database_constraint_keeps_a_nonce_single_use(engine):
    push(fanout(nonce="once"), engine)
    signal = Signal.objects.get()
    signal.position, signal.public_id = signal.position + 100, "sig_other"
    with pytest.raises(IntegrityError), transaction.atomic():
        signal.save(force_insert=True)


def test_of_a_bot_with_a_maximum_age_a_missing_time_is_told_before_a_spent_nonce(bot):
    body = tradingview(bot)
    assert code(push(body, secret=bot.secret)) == "ok"
    expect(bot, None, max_age=timedelta(hours=1))
    assert code(push(body, secret=bot.secret)) == "invalid"
