"""How many messages a rate allows when the clock of the database moves."""

from datetime import timedelta

import pytest
from django.db.models import F

from signals.outbound.schedule import MOST_AHEAD, Rate, interval, spend

pytestmark = pytest.mark.django_db

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
NAME = "a rate"
BETWEEN = 6 * MINUTE  # at 10/hour


def granted(rate: str = "10/hour") -> int:
    """How many of many messages are granted now."""
    return len(spend([(NAME,)] * 50, {NAME: interval(rate)})[0])


def move_the_clock(by: timedelta) -> None:
    Rate.objects.update(used_until=F("used_until") - by)


def test_no_more_than_the_rate_is_granted_as_the_clock_goes_on():
    assert [granted(), granted()] == [1, 0]
    move_the_clock(BETWEEN - MINUTE)
    assert granted() == 0
    move_the_clock(MINUTE)
    assert [granted(), granted()] == [1, 0]


@pytest.mark.parametrize(("rate", "saved_up"), [("10/second", 10), ("10/hour", 1)])
def test_no_more_than_a_second_is_saved_up(rate, saved_up):
    assert granted(rate) == saved_up
    move_the_clock(DAY)
    assert granted(rate) == saved_up


def test_what_was_used_before_the_clock_was_set_back_by_an_hour_does_not_count():
    assert granted() == 1
    move_the_clock(-HOUR)
    assert [granted(), granted()] == [1, 0]


def test_what_was_used_before_the_clock_was_set_back_a_little_counts():
    assert granted() == 1
    move_the_clock(-MOST_AHEAD / 2)
    assert granted() == 0
