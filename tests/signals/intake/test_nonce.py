"""A nonce is single-use within its signer, without expiry (contract, section 4)."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, connection, transaction

from desks import actions as desks
from events.actors import SYSTEM
from events.models import Event, Head
from signals.intake.models import Signal
from tests.client import code, deploy_path, post, push
from tests.factories import a_bot, a_platform_token, a_shared_secret, expect
from tests.signals.bodies import deploy, fanout, floor, nox, tradingview
from tokens import actions
from tokens.choices import Source

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("desk")]


def test_the_first_outcome_does_not_change_later(engine, desk):
    body = floor(desk)
    first = push(body, engine).json()
    first.pop("ignored")
    desks.publish_card(name="Other", pair="X/Y", direction="short", actor=SYSTEM)
    desks.disconnect(desk=desk, actor=SYSTEM)
    assert push(body, engine).json()["first"] == first


@pytest.mark.parametrize(
    "change",
    [
        {"pair": "X/Y"},
        {"direction": "short"},
        {"mode": "dry_run"},
        {"size_quote": 6},
        {"size_quote": None},
        {"rationale": "other"},
        {"rationale": None},
        {"decision_ref": "other"},
        {"trace_id": "trc_other"},
        {"fanout": False},
    ],
)
def test_a_nox_signal_with_any_other_value_is_not_identical(engine, change):
    body = nox(size_quote=5, decision_ref="d")
    push(body, engine)
    assert push({**body, **change}, engine).json()["identical"] is False


def test_equal_signals_are_identical_however_they_are_written(engine, desk):
    body = floor(desk)
    push(body, engine)
    bare = {name: value for name, value in body.items() if name != "mode"}
    deployed = {name: value for name, value in body.items() if name != "userId"}
    for again in ({**body, "fanout": False}, {**body, "more": 1}, bare):
        assert push(again, engine).json()["identical"] is True
    answer = post(deploy_path(desk.public_id), deployed, engine)
    assert answer.json()["identical"] is True


def test_sizes_are_compared_as_numbers(engine):
    body = nox(size_quote=1.5)
    push(body, engine)
    raw = str(body).replace("'", '"').replace("True", "true").replace("None", "null")
    assert push(raw.replace("1.5", "1.50").encode(), engine).json()["identical"] is True


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


def test_a_rotated_secret_spends_the_same_nonces(desk):
    bot = a_bot(desk)
    body = tradingview(bot)
    assert code(push(body, secret=bot.secret)) == "ok"
    new, _ = actions.generate_secret(
        source=Source.TRADINGVIEW, automation=bot.automation, actor=SYSTEM
    )
    assert code(push(body, secret=new)) == "nonce_used"


def test_nonces_are_compared_exactly(engine):
    for nonce in ("a", "A", "a.", "a0"):
        assert code(push(fanout(nonce=nonce), engine)) == "ok"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"api_key": 1}, "exchange_secret"),
        ({"pair": "BTCUSDT"}, "ticker_only"),
        ({"mode": "live"}, "mode_refused"),
        ({"elected": False}, "not_elected"),
        ({"mode": "x"}, "invalid"),
        ({"pair": "X/Y"}, "pair_mismatch"),
        ({"direction": "short"}, "direction_mismatch"),
        ({"userId": "usr_none"}, "not_found"),
    ],
)
def test_a_refused_signal_spends_no_nonce(engine, desk, change, expected):
    body = floor(desk)
    assert code(push({**body, **change}, engine)) == expected
    assert code(push(body, engine)) == "ok"


@pytest.mark.django_db(transaction=True)
def test_a_signal_that_failed_with_a_server_error_spends_no_nonce_and_stores_nothing(engine):
    """A table is missing during the turn: the signal is inserted, but its event fails."""
    body, before = fanout(), Head.objects.get().position
    table = Event._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} RENAME TO away")
    try:
        response = push(body, engine)
        assert response.status_code >= 500
        assert code(response) in ("internal", "unavailable")
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE away RENAME TO {table}")
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
