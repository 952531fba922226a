"""Webhooks that fail for long are told of once, and again when they work (contract, section 4)."""

import pytest
import time_machine
from django.utils import timezone

from desks.models import Desk
from events.actors import SYSTEM
from events.models import Event
from signals.webhooks import actions
from signals.webhooks.models import Subscription
from signals.webhooks.records import record_of
from tests import factories
from tests.notices import waiting, write
from tests.signals.notices.chats.stage import a_chat
from tests.signals.webhooks.stage import URL, a_webhook, an_active_webhook, let_fail

pytestmark = pytest.mark.django_db

TOLD = ("subscription.failing", "subscription.working")


@pytest.fixture
def desk() -> Desk:
    return factories.a_desk()


def told() -> list[str]:
    """What the log tells of failures, in order."""
    events = Event.objects.filter(kind__in=TOLD).order_by("position")
    return [event.kind.partition(".")[2] for event in events]


def look() -> None:
    actions.note_failing(timezone.now())


@pytest.mark.parametrize(("make", "minutes"), [(a_webhook, 10), (an_active_webhook, 15)])
def test_it_is_told_once_after_its_time_and_not_before(desk, make, minutes):
    with time_machine.travel(timezone.now(), tick=False):
        webhook = let_fail(make(desk), minutes - 0.1)
        look()
    assert told() == []
    since = let_fail(webhook, minutes).failing_since
    look()
    look()
    [event] = Event.objects.filter(kind="subscription.failing")
    data = event.content["data"]
    assert (data["id"], data["state"]) == (webhook.public_id, webhook.state)
    assert data["since"] == record_of(webhook)["failingSince"]
    webhook.refresh_from_db()
    assert (webhook.failing_told_at, webhook.failing_since) == (event.at, since)


def test_one_that_is_paused_disabled_or_being_delivered_to_is_not_told(desk):
    paused, leased = an_active_webhook(desk), let_fail(an_active_webhook(desk), 60)
    actions.pause(webhook=paused, actor=SYSTEM)
    let_fail(paused, 60)
    Subscription.objects.filter(pk=leased.pk).update(leased_until=timezone.now())
    look()
    assert told() == []
    Subscription.objects.filter(pk=leased.pk).update(leased_until=None)
    look()
    assert told() == ["failing"]


def test_it_works_once_an_event_is_delivered_and_can_fail_anew(desk):
    webhook = an_active_webhook(desk)
    actions.note_that_it_works(webhook=webhook)
    for _ in range(2):
        let_fail(webhook, 16)
        look()
        webhook.refresh_from_db()
        actions.note_that_it_works(webhook=webhook)
        actions.note_that_it_works(webhook=webhook)
        webhook.refresh_from_db()
    assert told() == ["failing", "working"] * 2


def test_a_change_of_its_owner_neither_tells_that_it_works_nor_again_that_it_fails(desk):
    webhook = let_fail(an_active_webhook(desk), 16)
    look()
    actions.pause(webhook=webhook, actor=SYSTEM)
    actions.resume(webhook=webhook, actor=SYSTEM)
    actions.change(webhook=webhook, url=f"{URL}&new", actor=SYSTEM)
    let_fail(webhook, 60)
    look()
    assert told() == ["failing"]
    assert actions.verify(webhook=webhook)
    assert told() == ["failing", "working"]


def test_a_runner_whose_lease_is_over_tells_nothing(desk):
    webhook = let_fail(an_active_webhook(desk), 16)
    look()
    webhook.refresh_from_db()
    Subscription.objects.update(lease_generation=9)
    actions.note_that_it_works(webhook=webhook)
    assert told() == ["failing"]


def test_more_than_a_turn_holds_are_told_in_several(desk):
    webhooks = [let_fail(a_webhook(), 11) for _ in range(actions.MAX_PER_TURN + 1)]
    assert actions.note_failing(timezone.now())
    assert not actions.note_failing(timezone.now())
    assert len(told()) == len(webhooks)


def test_the_owner_has_a_mail_and_a_message_in_each_chat_and_staff_those_of_the_platform(desk):
    write()
    staff = factories.a_staff_user()
    chat = a_chat(desk.user)
    of_desk, new = an_active_webhook(desk), a_webhook(desk, name="Orders")
    platforms = an_active_webhook()
    for webhook in (of_desk, new, platforms):
        let_fail(webhook, 16)
    write()
    before = set(waiting())
    look()
    of_desk.refresh_from_db()
    actions.note_that_it_works(webhook=of_desk)
    write()
    said = [
        "Your webhook to hooks.example.com fails",
        "Your webhook Orders to hooks.example.com is not verified",
        "Your webhook to hooks.example.com works again",
    ]
    of_staff = "The platform's webhook to hooks.example.com fails"
    expected = [(desk.user_id, subject) for subject in said] + [(staff.pk, of_staff)]
    rows = chat.queued_notices.model.objects.exclude(subject__in=before)
    mails = rows.filter(chat=None).values_list("user_id", "subject")
    assert sorted(mails) == sorted(expected)
    assert sorted(rows.filter(chat=chat).values_list("subject", flat=True)) == sorted(said)
