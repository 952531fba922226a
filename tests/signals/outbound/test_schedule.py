"""How many messages a rate allows, whatever the clocks of those who use it show."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from events.times import MOST_AHEAD
from signals.outbound.schedule import Rate, interval, spend

pytestmark = pytest.mark.django_db

SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)
NAME = "a rate"


def granted(rate: str, at: Any, asked: int = 50) -> int:
    """How many of so many messages are granted at this time."""
    return len(spend([(NAME,)] * asked, {NAME: interval(rate)}, at)[0])


@pytest.mark.parametrize(("rate", "saved_up"), [("10/second", 10), ("10/hour", 1)])
def test_what_was_used_by_a_clock_that_was_an_hour_ahead_does_not_count_once_it_is_set_back(
    rate, saved_up
):
    now = timezone.now()
    assert granted(rate, now + HOUR) == saved_up
    assert [granted(rate, now), granted(rate, now)] == [saved_up, 0]
    assert granted(rate, now + interval(rate)) == 1


def test_it_does_not_count_by_the_clock_of_the_database_either():
    Rate.objects.create(name=NAME, used_until=timezone.now() + HOUR)
    assert len(spend([(NAME,)] * 2, {NAME: HOUR})[0]) == 1
    assert Rate.objects.get(name=NAME).used_until < timezone.now() + SECOND


def test_the_rate_is_kept_by_processes_whose_clocks_differ_a_little():
    now = timezone.now()
    assert granted("10/second", now + MOST_AHEAD) == 10
    assert granted("10/second", now) == 0
    assert granted("10/second", now + MOST_AHEAD) == 0
    assert granted("10/second", now + MOST_AHEAD + SECOND / 2) == 5


def test_a_clock_that_goes_on_gets_no_more_than_the_rate():
    now = timezone.now()
    found = [granted("10/second", now + SECOND * part / 4) for part in range(13)]
    assert sum(found) == 10 + 30
