"""Who fell silent and who was heard again: decided once, from the log."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
import time_machine
from django.db import connection
from django.db.models.signals import post_init
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from desks import expectations
from desks.expectations import count_days_in_new_zone, watch
from desks.models import Automation, Bookmark, User
from events.actors import SYSTEM
from events.kinds import Kind
from events.models import Event, Head
from events.times import to_rfc3339
from tests.client import code, push
from tests.config.test_waits import beside, wait_for_another_to_wait
from tests.factories import a_bot, expect, expecting
from tests.signals.bodies import tradingview
from tests.signals.webhooks.runner.test_leases import in_own_connection
from tokens import actions as tokens

pytestmark = pytest.mark.django_db

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
OFTEN = expecting(HOUR, 5 * MINUTE)
WEDNESDAY = 2  # as weekday() counts


@pytest.fixture
def clock():
    """A clock that only the test moves. It begins with a whole second: the log has milliseconds."""
    soon = timezone.now().replace(microsecond=0) + timedelta(seconds=1)
    with time_machine.travel(soon, tick=False) as clock:
        yield clock


def heard(bot):
    assert code(push(tradingview(bot), secret=bot.secret)) == "ok"


def refused(bot):
    assert code(push(tradingview(bot, pair="NOT/IT"), secret=bot.secret)) == "pair_mismatch"


def look():
    return watch(timezone.now())


def told() -> list[tuple[str, str]]:
    """The kinds of the alarms in the log, each with its bot."""
    events = Event.objects.filter(kind__in=["automation.quiet", "automation.heard"])
    return [(event.kind, event.bot_id) for event in events.order_by("position")]


def row(bot) -> Automation:
    return Automation.objects.get(pk=bot.id)


def test_a_bot_is_silent_once_its_time_and_grace_are_over_and_not_before(bot, clock):
    expect(bot, OFTEN)
    clock.shift(65 * MINUTE - timedelta(milliseconds=1))
    look()
    assert told() == []
    clock.shift(timedelta(milliseconds=1))
    look()
    assert told() == [("automation.quiet", bot.id)]
    clock.shift(10 * HOUR)
    look()
    assert len(told()) == 1


def test_a_silence_that_ended_before_anybody_looked_is_not_told(bot, clock):
    expect(bot, OFTEN)
    clock.shift(3 * HOUR)
    heard(bot)
    look()
    assert told() == []


def test_the_event_says_when_the_bot_was_last_heard_and_when_it_was_due(bot, clock):
    expect(bot, OFTEN)
    clock.shift(HOUR)
    heard(bot)
    last = Event.objects.latest("position").at
    clock.shift(2 * HOUR)
    look()
    event = Event.objects.latest("position")
    assert event.content["data"] == {
        "botId": bot.id,
        "name": "Chart",
        "since": to_rfc3339(last),
        "dueAt": to_rfc3339(last + 65 * MINUTE),
    }
    assert (event.topic, event.actor_type) == (row(bot).desk.public_id, "system")
    assert (row(bot).silent_since, row(bot).silent_from) == (last, event.position)
    look()
    assert told() == [("automation.quiet", bot.id)]


def test_only_an_accepted_signal_counts_as_heard(bot, clock):
    expect(bot, OFTEN)
    clock.shift(64 * MINUTE)
    refused(bot)
    clock.shift(2 * MINUTE)
    look()
    assert told() == [("automation.quiet", bot.id)]


def test_a_silent_bot_that_sends_is_heard_again_once_and_can_fall_silent_again(bot, clock):
    expect(bot, OFTEN)
    clock.shift(2 * HOUR)
    look()
    heard(bot)
    at = Event.objects.latest("position").at
    heard(bot)
    look()
    event = Event.objects.latest("position")
    assert event.content["data"]["heardAt"] == to_rfc3339(at)
    assert (row(bot).silent_since, row(bot).due_at) == (None, at + 65 * MINUTE)
    look()
    clock.shift(2 * HOUR)
    look()
    assert [kind for kind, _ in told()] == [
        "automation.quiet",
        "automation.heard",
        "automation.quiet",
    ]


def test_a_watch_that_begins_later_finds_who_was_heard_meanwhile(bot, clock):
    expect(bot, OFTEN)
    clock.shift(2 * HOUR)
    look()
    heard(bot)
    tokens.mint_desk_token(desk=row(bot).desk, actor=SYSTEM)
    look()
    assert [kind for kind, _ in told()] == ["automation.quiet", "automation.heard"]


def test_a_watch_that_begins_later_goes_on_where_another_one_was(desk, clock, monkeypatch):
    """It reads one position with each statement, and none that the other one has read."""
    monkeypatch.setattr(expectations, "POSITIONS_AT_ONCE", 1)
    silent, other = a_bot(desk), a_bot(desk)
    expect(silent, OFTEN)
    clock.shift(2 * HOUR)
    look()
    for _ in range(5):
        heard(other)
    assert [reads_of_the_log() for _ in range(2)] == [5, 0]
    heard(silent)
    look()
    assert told()[-1] == ("automation.heard", silent.id)


@pytest.mark.parametrize("kept", [{"epoch": "ffffffff"}, {"position": 1000}])
def test_a_watch_that_begins_after_a_restore_does_not_go_on_in_another_log(bot, clock, kept):
    expect(bot, OFTEN)
    clock.shift(2 * HOUR)
    look()
    heard(bot)
    Bookmark.objects.create(name=expectations.HEARD, **{**here(), **kept})
    look()
    assert told()[-1] == ("automation.heard", bot.id)


def here() -> dict[str, object]:
    """The end of the log."""
    return {"epoch": Head.objects.get().epoch, "position": Head.objects.get().position}


def reads_of_the_log() -> int:
    """How many statements of a look read events."""
    with CaptureQueriesContext(connection) as queries:
        look()
    return sum("events_event" in query["sql"] for query in queries)


def test_what_a_bot_sent_before_it_fell_silent_is_not_heard_however_late_it_is_read(
    desk, clock, monkeypatch
):
    """Nobody watched for hours. It falls silent before all fills from then are read."""
    monkeypatch.setattr(expectations, "POSITIONS_AT_ONCE", 1)
    monkeypatch.setattr(expectations, "PARTS_AT_ONCE", 1)
    first, later = a_bot(desk), a_bot(desk)
    expect(first, OFTEN)
    clock.shift(2 * HOUR)
    look()
    expect(later, OFTEN)
    heard(later)
    heard(later)
    clock.shift(2 * HOUR)
    assert look()
    both = [("automation.quiet", first.id), ("automation.quiet", later.id)]
    assert told() == both
    while look():
        pass
    assert told() == both


@pytest.mark.parametrize("refusals", [0, 1, 2, 3, 4, 5])
def test_the_last_fill_is_found_behind_any_number_of_refusals(bot, clock, monkeypatch, refusals):
    """Also where a statement ends: the first one reads one event, and the others two."""
    monkeypatch.setattr(expectations, "EVENTS_AT_FIRST", 1)
    monkeypatch.setattr(expectations, "EVENTS_AT_ONCE", 2)
    expect(bot, OFTEN)
    clock.shift(MINUTE)
    heard(bot)
    last = Event.objects.latest("position").at
    clock.shift(MINUTE)
    for _ in range(refusals):
        refused(bot)
    clock.shift(2 * HOUR)
    look()
    assert row(bot).silent_since == last


def test_what_was_refused_before_a_bot_was_expected_is_not_read(desk, clock, monkeypatch):
    monkeypatch.setattr(expectations, "EVENTS_AT_FIRST", 1)
    monkeypatch.setattr(expectations, "EVENTS_AT_ONCE", 1)
    reads = []
    for refusals in (0, 5):
        bot = a_bot(desk)
        for _ in range(refusals):
            refused(bot)
        clock.shift(MINUTE)
        expect(bot, OFTEN)
        clock.shift(2 * HOUR)
        reads.append(reads_of_the_log())
        assert told()[-1] == ("automation.quiet", bot.id)
        expect(bot, None)
    assert reads[0] == reads[1]


def test_another_expectation_ends_the_silence_without_an_event_of_its_own(bot, clock):
    expect(bot, OFTEN)
    clock.shift(2 * HOUR)
    look()
    expect(bot, expecting(2 * HOUR, MINUTE))
    assert row(bot).silent_since is None
    heard(bot)
    look()
    assert [kind for kind, _ in told()] == ["automation.quiet"]


def test_a_signal_that_comes_before_the_turn_keeps_the_bot_from_being_silent(bot, clock):
    """The watch reads the rows, then a signal is accepted, then the watch gets its turn."""
    expect(bot, OFTEN)
    clock.shift(2 * HOUR)
    head = Head.objects.get().position
    late = expectations._with_heard(Automation.objects.filter(pk=bot.id), head)
    heard(bot)
    assert expectations._record_late(late, head) == 0
    assert told() == []
    assert row(bot).due_at == Event.objects.latest("position").at + 65 * MINUTE


def test_of_two_processes_that_read_the_same_rows_one_writes(bot, clock):
    expect(bot, OFTEN)
    clock.shift(2 * HOUR)
    head = Head.objects.get().position
    late = expectations._with_heard(Automation.objects.filter(pk=bot.id), head)
    assert [expectations._record_late(late, head) for _ in range(2)] == [1, 0]
    heard(bot)
    fills = Event.objects.filter(kind=Kind.SIGNAL_FILLED)
    back = expectations._heard_again(Automation.objects.silent(), fills)
    for _ in range(2):
        expectations._record_heard(back)
    assert [kind for kind, _ in told()] == ["automation.quiet", "automation.heard"]


def test_bots_beyond_one_turn_are_all_decided(desk, clock, monkeypatch):
    monkeypatch.setattr(expectations, "MAX_PER_TURN", 2)
    bots = [a_bot(desk) for _ in range(5)]
    for bot in bots:
        expect(bot, OFTEN)
    clock.shift(2 * HOUR)
    look()
    for bot in bots:
        heard(bot)
    look()
    for kind in ("automation.quiet", "automation.heard"):
        assert sorted(bot for said, bot in told() if said == kind) == sorted(b.id for b in bots)


def test_a_new_zone_of_the_owner_counts_from_now_on(bot, owner, clock):
    noon = timezone.now().replace(hour=12, minute=0) + timedelta(days=7)
    clock.move_to(noon + timedelta(days=WEDNESDAY - noon.weekday()))  # the log's time is before it
    expect(bot, expecting(None, timedelta(0)))
    utc = row(bot).due_at
    answer = owner.post("/accounts/preferences/", {"time_zone": "Asia/Tokyo", "theme": "system"})
    assert answer.status_code == 302
    assert User.objects.get(pk=row(bot).desk.user_id).time_zone == "Asia/Tokyo"
    look()
    assert row(bot).due_at == utc - 9 * HOUR


@pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite locks no rows")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("held", [0, 1])
def test_who_changes_the_zone_waits_for_one_bot_without_a_lock_of_another(desk, held):
    """A turn that ends a desk locks all its bots, in any order."""
    bots = [a_bot(desk), a_bot(desk)]
    for bot in bots:
        expect(bot, expecting(None, timedelta(0)))
    locked = "SELECT 1 FROM desks_automation WHERE id = %s FOR UPDATE NOWAIT"
    with ThreadPoolExecutor(1) as threads, beside() as other:
        other.execute(locked, [bots[held].id])
        changed = threads.submit(in_own_connection, count_days_in_new_zone, user=desk.user)
        wait_for_another_to_wait(other)
        other.execute(locked, [bots[1 - held].id])
        other.rollback()
        changed.result()
    assert Automation.objects.filter(due_at__lte=timezone.now()).count() == 2


def test_a_bot_whose_owners_zone_is_not_known_here_is_watched_in_utc(bot, desk, clock):
    """The owner chose it on a machine with newer zone files."""
    expect(bot, expecting(None, timedelta(0)))
    utc = row(bot).due_at
    User.objects.filter(pk=desk.user_id).update(time_zone="Mars/Base")
    count_days_in_new_zone(desk.user)
    look()
    assert row(bot).due_at == utc
    clock.move_to(utc)
    look()
    assert told() == [("automation.quiet", bot.id)]


def test_a_lasting_silence_costs_no_turn_at_the_log(bot, clock):
    expect(bot, OFTEN)
    clock.shift(2 * HOUR)
    look()
    before = Head.objects.get()
    for _ in range(3):
        clock.shift(HOUR)
        look()
    assert (Head.objects.get().position, Head.objects.get().at) == (before.position, before.at)


def test_an_expectation_that_ends_while_a_look_reads_the_bots_is_not_overwritten(bot, clock):
    expect(bot, OFTEN)
    clock.shift(HOUR)
    heard(bot)
    clock.shift(10 * MINUTE)

    def end_it(instance: Automation, **_: object) -> None:
        post_init.disconnect(end_it, Automation)
        expect(bot, None)

    post_init.connect(end_it, Automation)
    look()
    assert (row(bot).expectation, row(bot).due_at) == (None, None)


def test_after_a_restore_to_an_earlier_head_who_is_heard_is_found(bot, clock):
    expect(bot, OFTEN)
    clock.shift(2 * HOUR)
    look()
    head = Head.objects.get().position
    Head.objects.update(position=head + 1000)
    look()
    Head.objects.update(position=head)
    heard(bot)
    look()
    assert told()[-1] == ("automation.heard", bot.id)
