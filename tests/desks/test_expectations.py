"""When an expected bot is late: the pure rule, and the action that sets it."""

from datetime import UTC, datetime, timedelta

import pytest

from desks.expectations import count_days_in_new_zone
from desks.models import Automation, User
from events.actors import SYSTEM
from events.http.refusals import Invalid, NotAllowed
from events.kinds import Kind
from events.models import Event, Head
from tests.factories import a_bot, a_ready_desk, expect, expecting
from tokens import actions as tokens

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
NO_GRACE = timedelta(0)


def deadline(heard: str, zone: str = "UTC", grace: timedelta = NO_GRACE) -> str:
    """When a bot of every trading day is late. Times are without a zone, in UTC."""
    at = datetime.fromisoformat(heard).replace(tzinfo=UTC)
    return expecting(None, grace).deadline(at, zone).replace(tzinfo=None).isoformat(" ")


def test_a_bot_of_every_so_often_is_late_after_its_time_and_grace():
    heard = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)
    assert expecting(HOUR, 5 * MINUTE).deadline(heard, "UTC") == heard + 65 * MINUTE


@pytest.mark.parametrize(
    ("heard", "late"),
    [
        ("2026-11-19 09:00", "2026-11-21 00:00:00"),  # Thursday: by the end of Friday
        ("2026-11-20 09:00", "2026-11-24 00:00:00"),  # Friday: by the end of Monday
        ("2026-11-21 09:00", "2026-11-24 00:00:00"),  # Saturday
        ("2026-11-22 23:59", "2026-11-24 00:00:00"),  # Sunday
        ("2026-11-23 00:00", "2026-11-25 00:00:00"),  # Monday
    ],
)
def test_a_bot_of_trading_days_is_late_at_the_end_of_the_next_one(heard, late):
    assert deadline(heard) == late


@pytest.mark.parametrize(
    ("zone", "late"),
    [
        ("Asia/Tokyo", "2026-11-23 15:00:00"),  # there it was Saturday
        ("America/New_York", "2026-11-24 05:00:00"),  # there it was Friday
        ("Europe/Berlin", "2026-11-23 23:00:00"),
    ],
)
def test_trading_days_are_those_of_the_owners_zone(zone, late):
    assert deadline("2026-11-20 23:30", zone) == late


def test_a_day_without_an_hour_ends_at_its_midnight():
    """In Berlin, Sunday 29 March 2026 has 23 hours, and Sunday 25 October has 25."""
    assert deadline("2026-03-27 12:00", "Europe/Berlin") == "2026-03-30 22:00:00"
    assert deadline("2026-10-23 12:00", "Europe/Berlin") == "2026-10-26 23:00:00"


def test_the_grace_is_added_to_the_end_of_the_day():
    assert deadline("2026-11-20 09:00", grace=HOUR) == "2026-11-24 01:00:00"


def row(bot) -> Automation:
    return Automation.objects.get(pk=bot.id)


@pytest.mark.django_db
class TestTheAction:
    def test_a_change_is_an_event_that_says_what_is_expected(self, bot):
        expect(bot, expecting(HOUR, 5 * MINUTE), 90 * timedelta(seconds=1))
        event = Event.objects.latest("position")
        assert (event.kind, event.topic) == ("automation.changed", row(bot).desk.public_id)
        assert event.content["data"] == {
            "botId": bot.id,
            "name": "Chart",
            "expected": {"every": 3600, "tradingDays": False, "grace": 300},
            "maxAge": 90,
        }
        assert row(bot).due_at == event.at + 65 * MINUTE
        expect(bot, expecting(None, NO_GRACE))
        data = Event.objects.latest("position").content["data"]
        assert data["expected"] == {"every": None, "tradingDays": True, "grace": 0}
        assert data["maxAge"] is None

    def test_a_deactivated_user_changes_nothing(self, bot):
        User.objects.filter(pk=row(bot).desk.user_id).update(is_active=False)
        with pytest.raises(NotAllowed):
            expect(bot, expecting(HOUR, NO_GRACE))
        assert row(bot).due_at is None

    def test_a_new_zone_looks_again_at_the_owners_bots_of_trading_days_alone(self, bot, card):
        own = row(bot).desk
        hourly, not_expected, anothers = a_bot(own), a_bot(own), a_bot(a_ready_desk(card))
        for each in (bot, anothers):
            expect(each, expecting(None, NO_GRACE))
        expect(hourly, expecting(HOUR, NO_GRACE))
        bots = (bot, hourly, not_expected, anothers)
        before = [row(each).due_at for each in bots]
        count_days_in_new_zone(own.user)
        moved = [row(each).due_at != due for each, due in zip(bots, before, strict=True)]
        assert moved == [True, False, False, False]

    def test_what_changes_nothing_writes_nothing(self, bot):
        expect(bot, expecting(HOUR, NO_GRACE))
        before = Head.objects.get().position
        expect(bot, expecting(HOUR, NO_GRACE))
        assert Head.objects.get().position == before

    def test_another_age_leaves_the_bots_time_running(self, bot):
        expect(bot, expecting(HOUR, NO_GRACE))
        due = row(bot).due_at
        expect(bot, expecting(HOUR, NO_GRACE), HOUR)
        assert (row(bot).due_at, row(bot).max_age) == (due, 3600)

    @pytest.mark.once
    @pytest.mark.parametrize(
        ("changed", "field"),
        [
            ({"expectation": expecting(15 * MINUTE - timedelta(seconds=1), NO_GRACE)}, "every"),
            ({"expectation": expecting(31 * DAY + timedelta(seconds=1), NO_GRACE)}, "every"),
            ({"expectation": expecting(HOUR, DAY + timedelta(seconds=1))}, "grace"),
            ({"expectation": expecting(HOUR, -MINUTE)}, "grace"),
            ({"max_age": timedelta(0)}, "maxAge"),
            ({"max_age": DAY + timedelta(seconds=1)}, "maxAge"),
        ],
    )
    def test_a_time_out_of_range_is_invalid(self, bot, changed, field):
        with pytest.raises(Invalid) as refused:
            expect(bot, **changed)
        assert [error["field"] for error in refused.value.members["errors"]] == [field]
        assert not Event.objects.filter(kind=Kind.AUTOMATION_CHANGED).exists()

    def test_nothing_is_expected_of_a_removed_bot(self, bot):
        expect(bot, expecting(HOUR, NO_GRACE))
        tokens.remove_automation(automation=bot.automation, actor=SYSTEM)
        assert (row(bot).grace, row(bot).due_at) == (None, None)
        with pytest.raises(Invalid):
            expect(bot, expecting(HOUR, NO_GRACE))
