"""What /metrics says of deliveries."""

from datetime import timedelta

import pytest
from django.utils import timezone

from signals.webhooks.models import Subscription
from signals.webhooks.runner.pending_events import lag_seconds, webhooks_by_state
from tests.factories import a_bot, a_card, a_ready_desk, move_the_log_back
from tests.signals.webhooks.runner.stage import subscribe

pytestmark = pytest.mark.django_db


def change(row, **values):
    Subscription.objects.filter(pk=row.pk).update(**values)


def test_subscriptions_are_counted_by_the_state_that_is_shown():
    rows = [subscribe("https://a.example/")[1] for _ in range(4)]
    change(rows[0], failures=2)
    change(rows[1], state="paused")
    change(rows[2], state="disabled", reason="gone")
    found = {"unverified": 0, "active": 1, "paused": 1, "failing": 1, "disabled": 1}
    assert webhooks_by_state() == found


def test_the_lag_is_the_age_of_what_waits_for_a_runner_and_not_for_an_endpoint():
    desk = a_ready_desk(a_card())
    assert lag_seconds() == 0
    row = subscribe("https://a.example/", desk)[1]
    a_bot(desk)
    move_the_log_back(days=1)
    assert lag_seconds() > timedelta(hours=23).total_seconds()
    change(row, failures=1)
    assert lag_seconds() == 0
    platform = subscribe("https://a.example/")[1]
    change(platform, cursor_position=1)
    assert lag_seconds() > timedelta(hours=23).total_seconds()


def test_while_a_runner_works_through_what_waits_nothing_counts_as_waiting():
    desk = a_ready_desk(a_card())
    row = subscribe("https://a.example/", desk)[1]
    a_bot(desk)
    move_the_log_back(days=1)
    change(row, last_delivered_at=timezone.now() - timedelta(minutes=1))
    assert lag_seconds() == 0
    change(row, last_delivered_at=timezone.now() - timedelta(minutes=2))
    assert lag_seconds() > timedelta(hours=23).total_seconds()
