"""The filters of the feed: botId, since and until, alone and together (contract, section 4)."""

import itertools
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from desks import actions
from events import feed
from events.actors import SYSTEM
from events.feed import MAX_PARTS, Query, limit_to_times, read_identity
from events.http.cursors import log_cursor
from events.kinds import Kind
from events.models import Event, Head
from events.times import to_rfc3339
from tests.client import EVENTS, get, push
from tests.factories import a_bot, a_desk_token, enrol_in_many
from tests.signals.bodies import fanout, floor, tradingview
from tokens import actions as tokens

pytestmark = pytest.mark.django_db

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def bots(desk, stranger, engine):
    """Two bots of the desk, and a log with events of theirs and of others.

    Two events each have the same time, a second after the two before them.
    """
    one, other = a_bot(desk), a_bot(desk)
    for number in range(6):
        for bot in (one, other):
            pair = "NOT/IT" if number % 3 == 0 else "ETH/USDT"
            push(tradingview(bot, pair=pair), secret=bot.secret)
        push(fanout(), engine)
        push(floor(stranger), engine)
    actions.withdraw(desk=one.automation.desk, automation=one.automation, actor=SYSTEM)
    tokens.remove_automation(automation=other.automation, actor=SYSTEM)
    for event in Event.objects.all():
        event.at = at_of(event.position)
        event.save(update_fields=["at"])
    Head.objects.update(at=at_of(Event.objects.latest("position").position))
    return one, other


def at_of(position):
    return START + timedelta(seconds=position // 2)


def listed(token, query, limit=100):
    """Every event of all pages."""
    events, after = [], ""
    while True:
        page = get(f"{EVENTS}?{query}&limit={limit}{after}", token).json()
        events += page["events"]
        after = f"&after={page['next']}"
        if not page["more"]:
            assert get(f"{EVENTS}?{query}&limit={limit}{after}", token).json()["events"] == []
            return events


def is_of(event, bot):
    told = event["signal"] or event["data"]
    return bot.id in (told.get("botId"), told.get("owner"))


KINDS = [(), ("signal.refused",), ("signal.filled", "secret.generated")]


@pytest.mark.parametrize("caller", ["the engine", "the desk"])
@pytest.mark.parametrize("order", ["asc", "desc"])
def test_filters_narrow_together_and_their_cursors_miss_and_repeat_nothing(
    bots, desk, engine, caller, order
):
    token = engine if caller == "the engine" else a_desk_token(desk)
    whole = listed(token, f"userId={desk.public_id}")
    since, until = whole[len(whole) // 4]["at"], whole[3 * len(whole) // 4]["at"]
    for bot, kinds, limit, times in itertools.product(bots, KINDS, (3, 100), (False, True)):
        expected = [
            event
            for event in whole
            if is_of(event, bot)
            and (not kinds or event["kind"] in kinds)
            and (not times or since <= event["at"] < until)
        ]
        assert expected
        query = f"botId={bot.id}&order={order}" + "".join(f"&kind={kind}" for kind in kinds)
        query += f"&since={since}&until={until}" if times else ""
        found = listed(token, query, limit)
        assert found == (expected if order == "asc" else expected[::-1])


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_a_desk_with_many_elections_reads_all_its_events_with_every_kind_named(
    desk, stranger, engine, order, monkeypatch
):
    push(fanout(), engine)
    for _ in enrol_in_many(desk):
        push(fanout(), engine)
        push(floor(desk), engine)
        push(floor(stranger), engine)
    token = a_desk_token(desk)
    whole = listed(token, f"order={order}", limit=1000)
    assert [event["kind"] for event in whole].count("signal.filled") == 41
    query = f"order={order}" + "".join(f"&kind={kind}" for kind in (*Kind.values, *Kind.values))
    for limit, checked in ((1000, 2000), (3, 2000), (1000, 2)):
        monkeypatch.setattr(feed, "MAX_CHECKED_PER_PAGE", checked)
        with CaptureQueriesContext(connection) as queries:
            assert listed(token, query, limit) == whole
        parts = [one["sql"].count("UNION ALL") + 1 for one in queries]
        assert max(parts) <= MAX_PARTS
    some = [event for event in whole if event["kind"] != "signal.filled"]
    assert listed(token, query.replace("&kind=signal.filled", "")) == some


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_the_bounds_of_a_time_are_exact(bots, engine, order):
    whole = listed(engine, "")
    for position in (2, 3, 9):
        at = to_rfc3339(at_of(position))
        after = [event for event in whole if event["at"] >= at]
        before = [event for event in whole if event["at"] < at]
        for query, expected in ((f"since={at}", after), (f"until={at}", before)):
            found = listed(engine, f"{query}&order={order}", limit=10)
            assert found == (expected if order == "asc" else expected[::-1])


def test_a_desk_sees_no_event_of_another_desks_bot(bots, stranger):
    own = a_desk_token(stranger)
    for query in (f"botId={bots[0].id}", "botId=bot_x"):
        assert listed(own, query) == []


def test_a_time_that_the_log_has_not_reached_shows_nothing_before_it(bots, engine, desk):
    """Events that arrive between the two reads are before the time, and are not shown."""
    head = Head.objects.get()
    query = limit_to_times(Query(), head.at + timedelta(seconds=1), None)
    assert query.first > query.last
    later = to_rfc3339(datetime.now(UTC) + timedelta(hours=1))
    page = get(f"{EVENTS}?since={later}", engine).json()
    head.refresh_from_db()
    assert page["next"] == log_cursor(head.epoch, head.position, read_identity(head.position))
    push(fanout(), engine)
    assert get(f"{EVENTS}?since={later}&after={page['next']}", engine).json()["events"] == []


def test_nobody_waits_for_what_cannot_come(bots, engine):
    """A reader whose end is past takes no seat: the answer comes at once."""
    end, late = to_rfc3339(at_of(9)), to_rfc3339(at_of(7))
    began = datetime.now(UTC)
    page = get(f"{EVENTS}?since={late}&until={end}&kind=card.retired&wait=25", engine).json()
    assert page["events"] == []
    assert datetime.now(UTC) - began < timedelta(seconds=20)


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"])
@pytest.mark.parametrize("name", ["since", "until"])
def test_the_first_and_the_last_time_are_understood(bots, engine, name, time):
    assert get(f"{EVENTS}?{name}={time}", engine).status_code == 200
