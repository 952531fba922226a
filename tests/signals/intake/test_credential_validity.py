"""A credential must be valid at the signal's position, not only when the request arrived.

Each test stops a turn just before it takes the log's lock, and ends the credential at that moment:
after the authentication and before the signal gets its position.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest
import time_machine
from django.test import Client
from django.utils import timezone

from desks import actions as desks
from desks.event_data import WithdrawalReason
from events import log
from events.actors import SYSTEM
from events.models import Event, Head
from signals.intake.models import Signal
from tests.client import code, push
from tests.factories import a_desk_token, a_platform_token, a_shared_secret
from tests.signals.bodies import fanout, floor, nox, tradingview
from tokens import actions
from tokens.choices import Source
from tokens.models import SigningSecret, Token

pytestmark = pytest.mark.django_db


@contextmanager
def before_the_lock(act: Callable[[], Any]) -> Iterator[None]:
    """Calls a function once, just before the next turn takes the log's lock."""
    waiting, queue = [act], log.wait_for_turn  # type: ignore[attr-defined]

    def wait_longer() -> AbstractContextManager[None]:
        if waiting:
            waiting.pop()()
        return queue()

    with patch.object(log, "wait_for_turn", wait_longer):
        yield
    assert not waiting, "no turn began"


@contextmanager
def refused(kind: str) -> Iterator[None]:
    """Only an event of this kind was written: no signal and no refusal, without a gap."""
    before = Head.objects.get().position
    yield
    added = list(Event.objects.filter(position__gt=before).order_by("position"))
    assert {event.kind for event in added} == {kind}
    assert Head.objects.get().position == before + len(added)
    assert not Signal.objects.exists()


def revoke() -> None:
    actions.revoke(token=Token.objects.get(), actor=SYSTEM)


def end(source: Source) -> Callable[[], None]:
    return lambda: actions.end_secret(secret=SigningSecret.objects.get(source=source), actor=SYSTEM)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(lambda desk: fanout(), id="a fan-out"),
        pytest.param(floor, id="one desk"),
        pytest.param(lambda desk: nox(mode="draft"), id="a draft"),
        pytest.param(lambda desk: fanout(pair="X/Y"), id="refused under the lock"),
        pytest.param(lambda desk: fanout(elected=False), id="refused before the lock"),
    ],
)
def test_a_token_that_is_revoked_meanwhile_is_refused(desk, engine, body):
    with refused("token.revoked"), before_the_lock(revoke):
        assert code(push(body(desk), engine)) == "token_invalid"


def test_a_token_revoked_meanwhile_does_not_learn_of_a_spent_nonce(desk):
    body = fanout()
    push(body, a_platform_token())
    other = a_platform_token()
    last = Token.objects.order_by("-pk").first()
    with before_the_lock(lambda: actions.revoke(token=last, actor=SYSTEM)):
        assert code(push(body, other)) == "token_invalid"


@pytest.mark.parametrize("changes", [{}, {"pair": "X/Y"}, {"elected": False}])
def test_a_bots_secret_that_ends_meanwhile_is_refused_and_recorded_as_a_bad_signature(
    desk, bot, changes
):
    with before_the_lock(end(Source.TRADINGVIEW)):
        answer = push(tradingview(bot, **changes), secret=bot.secret)
    assert code(answer) == "signature_invalid"
    ended, result = Event.objects.order_by("position")[Event.objects.count() - 2 :]
    assert (ended.kind, result.kind) == ("secret.ended", "signal.refused")
    assert (result.content["data"]["code"], result.actor) == ("signature_invalid", None)
    assert not Signal.objects.exists()


@pytest.mark.parametrize(("minutes", "expected"), [(0, "signature_invalid"), (5, "ok")])
def test_a_secret_that_is_replaced_meanwhile_is_good_until_its_overlap_ends(bot, minutes, expected):
    replaced: dict[str, Any] = {
        "source": Source.TRADINGVIEW,
        "automation": bot.automation,
        "actor": SYSTEM,
    }
    overlap = timedelta(minutes=minutes)
    with before_the_lock(lambda: actions.generate_secret(**replaced, overlap=overlap)):
        assert code(push(tradingview(bot), secret=bot.secret)) == expected
    assert Signal.objects.exists() == (expected == "ok")


def test_a_bot_that_is_removed_meanwhile_is_refused_and_nothing_is_recorded(desk, bot):
    with before_the_lock(
        lambda: actions.remove_automation(automation=bot.automation, actor=SYSTEM)
    ):
        assert code(push(tradingview(bot), secret=bot.secret)) == "signature_invalid"
    assert Event.objects.order_by("position").last().kind == "automation.removed"


def test_a_secret_does_not_outlive_its_bot(bot):
    def remove() -> None:
        with log.turn(actor=SYSTEM) as turn:  # its secret stays live
            desks.remove_bots(
                turn,
                bot.automation.desk,
                [bot.automation],
                WithdrawalReason.REMOVED,
                end_secrets=lambda removed: None,
            )

    with before_the_lock(remove):
        assert code(push(tradingview(bot), secret=bot.secret)) == "signature_invalid"


@pytest.mark.parametrize("source", [Source.FLOOR, Source.NOX])
def test_a_shared_secret_that_ends_meanwhile_is_refused(desk, source):
    secret = a_shared_secret(source)
    body = fanout() if source == Source.FLOOR else nox(mode="draft")
    with refused("secret.ended"), before_the_lock(end(source)):
        assert code(push(body, secret=secret)) == "signature_invalid"


@pytest.mark.parametrize("changes", [{}, {"pair": "X/Y"}, {"elected": False}])
def test_once_a_nox_secret_is_generated_meanwhile_the_floors_is_refused(desk, changes):
    secret = a_shared_secret()
    with (
        refused("secret.generated"),
        before_the_lock(lambda: a_shared_secret(Source.NOX)),
    ):
        answer = push(nox(mode="draft", **changes), secret=secret)
        assert code(answer) == "floor_secret_refused"


def test_signals_of_floor_are_still_accepted_when_a_nox_secret_is_generated(desk):
    secret = a_shared_secret()
    with before_the_lock(lambda: a_shared_secret(Source.NOX)):
        assert code(push(fanout(), secret=secret)) == "ok"


def test_a_token_that_expires_before_its_signal_has_a_position_is_refused(desk):
    now = timezone.now().replace(microsecond=0) + timedelta(minutes=1)
    expires_at = now + timedelta(seconds=5)
    token, _ = actions.mint_platform_token(
        name="Engine", scopes=["write"], expires_at=expires_at, actor=SYSTEM
    )
    with time_machine.travel(now, tick=False):
        assert code(push(fanout(), token)) == "ok"
        # Another server's clock is ahead: it is the log's time that counts.
        with before_the_lock(lambda: Head.objects.update(at=expires_at)):
            assert code(push(fanout(), token)) == "token_invalid"
        Head.objects.update(at=expires_at - timedelta(milliseconds=1))
        assert code(push(fanout(), token)) == "ok"


def test_a_secret_whose_overlap_ends_before_its_signal_has_a_position_is_refused(bot):
    now = timezone.now().replace(microsecond=0) + timedelta(minutes=1)
    with time_machine.travel(now, tick=False):
        actions.generate_secret(
            source=Source.TRADINGVIEW,
            automation=bot.automation,
            overlap=timedelta(seconds=5),
            actor=SYSTEM,
        )
        assert code(push(tradingview(bot), secret=bot.secret)) == "ok"
        with before_the_lock(lambda: Head.objects.update(at=now + timedelta(seconds=5))):
            assert code(push(tradingview(bot), secret=bot.secret)) == "signature_invalid"


def test_such_a_refusal_counts_as_a_failed_credential(desk, settings):
    settings.LIMITS = {**settings.LIMITS, "failures": "1/minute"}
    for expected in ("token_invalid", "rate_limited"):
        Token.objects.all().delete()
        token = a_platform_token()
        with before_the_lock(revoke):
            assert code(push(fanout(), token)) == expected


def test_a_desk_token_that_was_replaced_meanwhile_does_not_revoke_the_new_one(desk):
    old = a_desk_token(desk)
    spent = Token.objects.get()
    with before_the_lock(lambda: a_desk_token(desk)):
        answer = Client().delete("/api/v1/tokens", headers={"Authorization": f"Bearer {old}"})
    assert code(answer) == "token_invalid"
    assert Token.objects.exclude(pk=spent.pk).get().revoked_at is None
