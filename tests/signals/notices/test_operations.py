"""Staff are told what needs attention, once."""

from datetime import timedelta

import pytest
import time_machine
from django.core.management import CommandError, call_command
from django.utils import timezone

from desks.models import Desk, QueuedNotice
from events.actors import SYSTEM
from signals.notices.triggers import EVERY, OVER, write_concerns
from signals.webhooks.models import Subscription
from tests.client import push
from tests.factories import a_staff_user
from tests.notices import waiting
from tests.signals.bodies import fanout
from tests.signals.webhooks.stage import an_active_webhook
from tokens import actions as tokens

pytestmark = pytest.mark.django_db


@pytest.fixture
def clock(db):
    with time_machine.travel(timezone.now(), tick=False) as clock:
        a_staff_user()
        yield clock


def told(clock) -> list[str]:
    """What staff are told by the next look."""
    QueuedNotice.objects.all().delete()
    clock.shift(EVERY)
    write_concerns(timezone.now())
    return list(QueuedNotice.objects.values_list("body", flat=True))


def test_a_token_that_ends_soon_is_told_once(clock):
    soon = timezone.now() + timedelta(days=10)
    tokens.mint_platform_token(name="Engine", scopes=["read"], expires_at=soon, actor=SYSTEM)
    (body,) = told(clock)
    assert "expires in 9 days" in body
    assert "/control/tokens/token/" in body
    assert told(clock) == []


def test_many_refusals_are_told_once_and_again_if_they_ended_in_between(engine, desk, clock):
    def refuse():
        for _ in range(12):
            push(fanout(pair="NOT/IT"), engine)

    def is_told() -> bool:
        return "12 of 12 signals in the last hour were refused" in "".join(told(clock))

    refuse()
    assert is_told()
    assert not is_told()
    clock.shift(timedelta(days=1))
    assert not is_told()
    clock.shift(OVER)
    refuse()
    assert is_told()


def test_an_engine_that_falls_silent_is_told(engine, desk, clock):
    for _ in range(12):
        push(fanout(), engine)
    clock.shift(timedelta(hours=23))
    assert told(clock) == []  # in its first day nothing is usual
    clock.shift(timedelta(hours=1))
    (body,) = told(clock)
    assert "has sent nothing for" in body


def test_webhooks_that_fail_for_an_hour_are_told(desk, clock):
    an_active_webhook(desk)
    since = timezone.now() - timedelta(hours=2)
    Subscription.objects.update(failing_since=since, failures=3)
    (body,) = told(clock)
    assert "1 webhook has failed for more than an hour." in body


@pytest.mark.django_db(transaction=True)
def test_an_audit_that_finds_a_broken_promise_tells_staff_if_it_is_asked_to(desk):
    a_staff_user()
    call_command("audit", tell=True)
    assert waiting() == []
    Desk.objects.update(created_at=timezone.now() + timedelta(days=1))
    with pytest.raises(CommandError):
        call_command("audit")
    assert waiting() == []
    with pytest.raises(CommandError):
        call_command("audit", tell=True)
    assert waiting() == ["The audit found a broken promise"]
    assert "desks: rows match the log" in QueuedNotice.objects.get().body
