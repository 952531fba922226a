"""The tab of a bot's page that says how often it is expected to send."""

from datetime import timedelta

import pytest
import time_machine
from django.utils import timezone

from desks.expectations import watch
from desks.models import Automation, User
from tests.client import BOTS, get
from tests.factories import a_desk_token, expect, expecting
from tests.pages import errors, words

pytestmark = [pytest.mark.django_db, pytest.mark.once]

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
FORM = {"expected": "every", "every": "2", "unit": "hours", "grace": "5", "maxAge": ""}


def save(owner, bot, **changes):
    return owner.post(f"/bots/{bot.id}/alarm", {**FORM, **changes})


def row(bot) -> Automation:
    return Automation.objects.get(pk=bot.id)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, expecting(2 * HOUR, HOUR / 12)),
        ({"unit": "days", "every": "31", "grace": "1440"}, expecting(31 * DAY, DAY)),
        ({"unit": "minutes", "every": "15", "grace": "0"}, expecting(HOUR / 4, timedelta(0))),
        ({"expected": "trading_days", "every": ""}, expecting(None, HOUR / 12)),
        ({"expected": "not"}, None),
        (
            {"expected": "not", "every": "", "unit": ""},
            None,
        ),  # a browser leaves out what is disabled
    ],
)
def test_what_the_form_says_is_saved_and_shown_again(owner, bot, changes, expected):
    assert save(owner, bot, maxAge="90", **changes).status_code == 302
    assert (row(bot).expectation, row(bot).max_age) == (expected, 90)
    assert save(owner, bot, maxAge="90", **changes).status_code == 302
    page = owner.get(f"/bots/{bot.id}/alarm")
    shown = {name: page.context["form"][name].value() for name in FORM}
    assert (shown["maxAge"], shown["expected"]) == (90, changes.get("expected", "every"))
    assert "days end at midnight in UTC" in words(page)


@pytest.mark.parametrize(
    ("zone", "shown"), [("Asia/Tokyo", "Asia/Tokyo"), ("Mars/Base", "UTC")], ids=["known", "not"]
)
def test_trading_days_are_said_to_be_those_of_the_owners_zone_or_utc(owner, bot, zone, shown):
    User.objects.update(time_zone=zone)
    assert f"days end at midnight in {shown}" in words(owner.get(f"/bots/{bot.id}/alarm"))


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"every": ""}, "Say how often the bot is expected to send."),
        ({"unit": ""}, "Say how often the bot is expected to send."),
        ({"every": "14", "unit": "minutes"}, "Choose a time of 15 minutes to 31 days."),
        ({"every": "9" * 30}, "Ensure this value is less than or equal to 44640."),
    ],
)
def test_an_error_stands_beside_its_field_and_changes_nothing(owner, bot, changes, error):
    page = save(owner, bot, **changes)
    assert (page.status_code, errors(page)) == (422, [error])
    assert row(bot).expectation is None


def test_pages_and_the_list_of_bots_say_since_when_a_bot_is_silent(owner, bot, desk):
    token = a_desk_token(desk)
    expect(bot, expecting(HOUR, timedelta(0)))
    assert "silent" not in words(owner.get(f"/bots/{bot.id}"))
    with time_machine.travel(timezone.now() + 2 * HOUR):
        watch(timezone.now())
    assert "silent for less than a minute" in words(owner.get(f"/bots/{bot.id}"))
    assert "Chart is silent: no signal was accepted for less than a minute." in words(
        owner.get("/desk")
    )
    assert "The bot Chart is silent" in words(owner.get("/activity"))
    [record] = get(BOTS, token).json()["bots"]
    assert record["silentSince"] is not None
    assert record["expected"] == {"every": 3600, "tradingDays": False, "grace": 0}
