"""GET /api/v1/bots: a desk's own bots, and how they are doing (contract, section 4)."""

import pytest
import time_machine
from django.utils import timezone

from events.actors import SYSTEM
from events.http.cursors import list_cursor
from events.models import Event
from tests import described
from tests.client import BOTS, EVENTS, SIGNALS, code, faults, get
from tests.factories import a_bot, a_desk_token
from tests.signals.bodies import send
from tokens import actions as tokens

pytestmark = pytest.mark.django_db


@pytest.fixture
def own(desk):
    """The desk's token."""
    return a_desk_token(desk)


def listed(token, query=""):
    answer = get(BOTS + query, token)
    assert described.faults("listBots", answer) == []
    return answer.json()["bots"]


@pytest.mark.usefixtures("noon")
def test_a_bot_is_listed_with_its_election_last_outcome_and_the_counts_of_the_day(own, bot):
    signal = send(bot).json()["signal"]
    [before] = listed(own)
    send(bot, pair="NOT/IT")
    [record] = listed(own)
    assert before["last"]["outcome"] == "filled"
    assert (before["last"]["code"], before["last"]["signal"]) == (None, signal["id"])
    assert get(f"{SIGNALS}/{signal['id']}", own).json()["signal"] == signal
    assert (record["botId"], record["name"]) == (bot.id, "Chart")
    assert record["state"] == "accepts_signals"
    assert record["election"]["pair"] == "ETH/USDT"
    assert record["election"]["direction"] == "short"
    assert record["today"] == {"filled": 1, "refused": 1, "more": False}
    last = Event.objects.latest("position")
    event = get(f"{EVENTS}?kind=signal.refused", own).json()["events"][0]
    assert record["last"] == {
        "outcome": "refused",
        "code": "pair_mismatch",
        "signal": None,
        "event": last.id,
        "at": event["at"],
    }


@timezone.override("America/New_York")  # as a page of a user in this zone may have left it
def test_the_counts_are_of_the_day_in_utc(own, desk, bot):
    desk.user.time_zone = "America/New_York"
    desk.user.save()
    for at in ("2030-11-03T23:59:59Z", "2030-11-04T00:00:00Z", "2030-11-04T05:00:00Z"):
        with time_machine.travel(at, tick=False):
            send(bot)
            [record] = listed(own)
    assert record["today"] == {"filled": 2, "refused": 0, "more": False}
    with time_machine.travel("2030-11-05T00:00:00Z", tick=False):
        [record] = listed(own)
    assert record["today"] == {"filled": 0, "refused": 0, "more": False}
    assert record["last"]["outcome"] == "filled"


def test_a_desk_sees_its_own_bots_and_no_removed_one(own, desk, stranger, bot):
    theirs, gone = a_bot(stranger), a_bot(desk)
    tokens.remove_automation(automation=gone.automation, actor=SYSTEM)
    assert [record["botId"] for record in listed(own)] == [bot.id]
    assert [record["botId"] for record in listed(a_desk_token(stranger))] == [theirs.id]


@pytest.mark.parametrize("limit", [1, 2, 5, 100])
def test_every_bot_is_listed_once_whatever_the_limit(own, desk, limit):
    made = sorted(a_bot(desk).id for _ in range(5))
    found, query = [], f"?limit={limit}"
    while query:
        page = get(BOTS + query, own).json()
        found += [record["botId"] for record in page["bots"]]
        query = page["next"] and f"?limit={limit}&after={page['next']}"
    assert sorted(found) == made
    assert len(found) == 5


def test_a_page_goes_on_after_a_bot_that_was_removed_meanwhile(own, desk):
    made = [a_bot(desk) for _ in range(3)]
    page = get(f"{BOTS}?limit=1", own).json()
    first = page["bots"][0]["botId"]
    [removed] = [bot for bot in made if bot.id == first]
    tokens.remove_automation(automation=removed.automation, actor=SYSTEM)
    rest = get(f"{BOTS}?after={page['next']}", own).json()["bots"]
    assert {first, *(record["botId"] for record in rest)} == {bot.id for bot in made}


@pytest.mark.once
@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("x=1", "x"),
        ("botId=bot_x", "botId"),
        (f"after={list_cursor('bots', 3)}", "after"),
        (f"after={list_cursor('desks', 3)}", "after"),
        (f"after={list_cursor('bots', chr(0))}", "after"),
    ],
)
def test_an_unknown_parameter_or_value_is_refused(own, query, field):
    answer = get(f"{BOTS}?{query}", own)
    assert (code(answer), set(faults(answer))) == ("invalid", {field})


def test_fifty_bots_take_as_many_queries_as_one(own, desk, bot, django_assert_num_queries):
    send(bot)
    get(BOTS, own)
    with django_assert_num_queries(6):
        get(BOTS, own)
    for _ in range(49):
        send(a_bot(desk))
    with django_assert_num_queries(6):
        assert len(get(BOTS, own).json()["bots"]) == 50
