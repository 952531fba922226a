"""Leases and what is saved under them, by the database's clock."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from ipaddress import ip_network

import pytest
import time_machine
from django.db import OperationalError, connection, transaction
from django.db.models.functions import Now
from django.utils import timezone

from desks import actions as desk_actions
from events.actors import SYSTEM
from events.feed import Query, read_head, read_page
from events.http.cursors import log_cursor
from events.models import Event, Head
from signals.outbound.answers import Answer
from signals.outbound.guarded_client import Client
from signals.outbound.schedule import LONGEST_PAUSE, WEBHOOKS
from signals.webhooks import actions
from signals.webhooks.models import DeliveryAttempt, State, Subscription
from signals.webhooks.records import last_test_of, record_of
from signals.webhooks.runner import pending_events
from signals.webhooks.runner.delivery import (
    LEAST_LEFT,
    Session,
    due,
    finish,
    lease,
    make_due,
)
from signals.webhooks.runner.pending_events import read_alone
from signals.webhooks.runner.rates import Rates
from tests.config.test_waits import beside, wait_for_another_to_wait
from tests.factories import a_bot, a_card, a_desk, a_ready_desk
from tests.signals.outbound.listeners import endpoint, reply, taking
from tests.signals.webhooks.runner.stage import (
    LIMIT,
    close_connections,
    current,
    subscribe,
    until,
)
from tests.signals.webhooks.stage import let_fail

pytestmark = pytest.mark.django_db


@pytest.fixture
def row(desk):
    return subscribe("https://hooks.example/", desk)[1]


def take(row):
    leased, _ = lease([row.pk])
    return leased


def end(leased, **done):
    """Ends the session of a lease."""
    finish([replace(leased, **{"position": leased.row.cursor_position + 1, **done})])


def run(leased):
    """What a session with this lease does."""
    endpoint, rates = Client().endpoint(leased.url), Rates()
    batch = read_alone(leased.row)
    session = Session(leased, batch, endpoint, rates=rates, stop=asyncio.Event())

    async def deliver():
        try:
            await session.run()
        finally:
            await endpoint.close()
            await close_connections()

    asyncio.run(deliver())
    return session.lease


def time_passes(row):
    past = Now() - timedelta(seconds=1)
    Subscription.objects.filter(pk=row.pk).update(leased_until=past, next_attempt_at=past)


def test_a_lease_is_for_one_runner(row):
    (leased,) = take(row)
    assert leased.url == "https://hooks.example/"
    assert len(leased.secrets) == 1
    assert take(row) == []
    assert due(10) == []
    time_passes(row)
    assert due(10) == [(row.pk, False)]
    (again,) = take(row)
    assert again.row.lease_generation == leased.row.lease_generation + 1


def test_a_runner_that_lost_its_lease_saves_nothing(row):
    (stalled,) = take(row)
    time_passes(row)
    (leased,) = take(row)
    before = row.cursor_position
    end(stalled, failures=3, status=500)
    found = current(row)
    assert (found.cursor_position, found.failures) == (before, 0)
    assert found.leased_until is not None
    assert found.last_delivered_at is None
    end(leased, failures=0, status=204, has_delivered=True)
    found = current(row)
    assert (found.cursor_position, found.leased_until) == (before + 1, None)
    assert found.last_delivered_at is not None


def test_a_runner_that_stood_still_while_it_took_a_lease_does_not_deliver(desk, settings):
    """Another one may have the lease before the message is through."""
    settings.DELIVERY_ALLOW, settings.REQUIRE_HTTPS = [ip_network("127.0.0.0/8")], False
    with endpoint() as heard:
        row = subscribe(heard.url())[1]
        a_bot(desk)
        (leased,) = take(row)
        until, leased.until = leased.until, time.monotonic() + LEAST_LEFT - 1
        assert run(leased).position == row.cursor_position
        assert heard.requests == []
        leased.until = until
        assert run(leased).position > row.cursor_position
        assert heard.requests != []


def test_what_began_before_a_change_counts_for_nothing(row):
    (leased,) = take(row)
    cursor = log_cursor(row.cursor_epoch, 1)
    actions.rewind(webhook=row, after=cursor, actor=SYSTEM)
    end(leased, failures=1, status=500)
    found = current(row)
    assert (found.cursor_position, found.failures, found.leased_until) == (1, 0, None)
    assert due(10) == [(row.pk, False)]


@pytest.mark.parametrize("widened", ["kinds", "bot"])
def test_an_event_that_a_session_passed_over_before_it_was_chosen_is_delivered(desk, row, widened):
    bot = a_bot(desk).id
    if widened == "kinds":
        actions.change(webhook=row, kinds=["card.retired"], actor=SYSTEM)
    else:
        actions.change(webhook=row, bot=bot, actor=SYSTEM)
    (leased,) = take(row)
    actions.change(webhook=row, kinds=[], bot="", actor=SYSTEM)
    a_bot(desk)
    newest = read_head().position
    page = read_alone(leased.row)
    assert page.examined == newest
    assert newest not in [message.position for message in page.messages]
    end(leased, position=page.examined, pause=None)
    assert due(10) == [(row.pk, False)]
    (leased,) = take(row)
    assert newest in [message.position for message in read_alone(leased.row).messages]


def skip(row, until):
    return actions.skip(webhook=current(row), until=until, actor=SYSTEM)


def test_what_was_delivered_while_events_were_skipped_is_not_sent_again(desk, row):
    for _ in range(3):
        a_bot(desk)
    (leased,) = take(row)
    first = leased.row.cursor_position + 1
    assert skip(row, first) == 1
    end(leased, position=first + 2, failures=0, status=204, has_delivered=True)
    assert current(row).cursor_position == first + 2
    assert DeliveryAttempt.objects.count() == 0


def test_what_was_skipped_while_it_failed_is_skipped_and_the_next_is_tried_at_once(desk, row):
    for _ in range(3):
        a_bot(desk)
    (leased,) = take(row)
    first, hour = leased.row.cursor_position + 1, timedelta(hours=1)
    assert skip(row, first) == 1
    end(leased, position=first - 1, failures=1, status=503, asked=hour, pause=hour)
    found = current(row)
    assert (found.cursor_position, found.failures, found.not_before) == (first, 1, None)
    assert due(10) == [(row.pk, True)]


def test_an_event_that_is_asked_for_again_while_it_is_sent_is_sent_again(row):
    actions.resend(webhook=row, position=1)
    (leased,) = take(row)
    for _ in range(3):
        actions.resend(webhook=row, position=1)
    end(leased, position=leased.position, resent=[1], pause=None)
    assert current(row).resends == [1]
    assert due(10) == [(row.pk, False)]
    (again,) = take(row)
    end(again, position=again.position, resent=[1], pause=None)
    assert current(row).resends is None
    assert due(10) == []


def test_a_change_by_a_server_whose_clock_is_ahead_is_due_at_once(row):
    (leased,) = take(row)
    with time_machine.travel(timezone.now() + timedelta(hours=1), tick=False):
        actions.rewind(webhook=row, after=log_cursor(row.cursor_epoch, 1), actor=SYSTEM)
    end(leased)
    assert due(10) == [(row.pk, False)]


def test_a_test_that_is_asked_for_meanwhile_is_due_and_what_was_paused_is_not(row):
    (leased,) = take(row)
    actions.request_test(webhook=row)
    end(leased)
    assert due(10) == [(row.pk, False)]
    (leased,) = take(row)
    end(leased, was_tested=True, pause=None)
    (leased,) = take(row)
    actions.pause(webhook=row, actor=SYSTEM)
    end(leased, pause=timedelta(seconds=5))
    assert (current(row).next_attempt_at, take(row)) == (None, [])


def test_what_came_during_a_pause_is_due_if_a_session_went_on_through_pause_and_resume(desk, row):
    """Its events are no news to the runner: they came while the webhook was paused."""
    (leased,) = take(row)
    actions.pause(webhook=row, actor=SYSTEM)
    a_bot(desk)
    actions.resume(webhook=row, actor=SYSTEM)
    end(leased, position=leased.position, pause=None)
    assert due(10) == [(row.pk, False)]


def test_failures_before_a_pause_and_a_resume_count_from_a_time_again(row):
    """Else the subscription would never be given up."""
    (leased,) = take(row)
    end(leased, failures=1, status=500)
    time_passes(row)
    (leased,) = take(row)
    actions.pause(webhook=row, actor=SYSTEM)
    actions.resume(webhook=row, actor=SYSTEM)
    end(leased, failures=2, status=500)
    assert current(row).failing_since <= timezone.now()


@pytest.mark.parametrize("is_verified", [True, False])
def test_without_its_key_a_test_waits(row, is_verified):
    if not is_verified:
        Subscription.objects.update(state="unverified", is_verified=False)
    actions.request_test(webhook=row)
    (leased,) = take(row)
    end(leased, secrets=[], pause=timedelta(minutes=10))
    found = current(row)
    assert found.next_attempt_at > timezone.now() + timedelta(minutes=9)
    assert found.test_requested_at is not None


@pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite has one writer")
@pytest.mark.django_db(transaction=True)
def test_an_attempt_that_is_being_saved_does_not_keep_a_subscription(row):
    (leased,) = take(row)
    attempt = DeliveryAttempt(
        subscription=row, position=1, at=timezone.now(), milliseconds=1, status=204
    )
    saved, goes_on = threading.Event(), threading.Event()

    def deliver():
        with transaction.atomic():
            end(leased, attempts=[attempt])
            saved.set()
            goes_on.wait(LIMIT)

    with ThreadPoolExecutor(2) as others:
        delivered = others.submit(in_own_connection, deliver)
        assert saved.wait(LIMIT)
        removed = others.submit(in_own_connection, actions.remove, webhook=row, actor=SYSTEM)
        until(somebody_waits_for_a_lock)
        goes_on.set()
        delivered.result()
        removed.result()
    assert not Subscription.objects.exists()


def in_own_connection(function, **arguments):
    """What a thread of its own does: its connection ends with it."""
    try:
        return function(**arguments)
    finally:
        connection.close()


def somebody_waits_for_a_lock():
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return cursor.fetchone()[0]


def test_a_removed_subscription_is_saved_no_more(row):
    (leased,) = take(row)
    attempt = DeliveryAttempt(position=1, at=timezone.now(), milliseconds=1, status=204)
    actions.remove(webhook=row, actor=SYSTEM)
    end(leased, attempts=[attempt])
    assert lease([row.pk]) == ([], [])


def test_what_a_killed_runner_left_of_a_paused_subscription_is_not_looked_at(row):
    take(row)
    actions.pause(webhook=row, actor=SYSTEM)
    time_passes(row)
    assert due(10) == []
    assert take(row) == []


def test_a_secret_that_cannot_be_decrypted_signs_nothing(row, settings):
    settings.SECRET_KEYS = [bytes(range(32))]
    (leased,) = take(row)
    assert leased.secrets == []


def test_each_secret_that_is_valid_signs_the_newest_first(row):
    (leased,) = take(row)
    first = leased.secrets
    time_passes(row)
    second, _ = actions.replace_secret(webhook=row, actor=SYSTEM, overlap=timedelta(hours=1))
    (leased,) = take(row)
    assert leased.secrets == [second, *first]
    row.secrets.exclude(ends_at=None).update(ends_at=Now())
    time_passes(row)
    (leased,) = take(row)
    assert leased.secrets == [second]


def test_nobody_with_news_is_left_out(desk):
    """Whatever happens, who sees it is named, and who is not named has seen everything."""
    other = a_ready_desk(a_card("Evening"))
    rows = [subscribe("https://a.example/", one)[1] for one in (desk, other, None)]
    rows.append(subscribe("https://a.example/", other, ["card.retired"])[1])
    happenings = [
        lambda: a_bot(desk),
        lambda: desk_actions.retire_card(actor=SYSTEM),
        lambda: desk_actions.disconnect(desk=other, actor=SYSTEM),
        lambda: a_ready_desk(a_card("Night")),
    ]
    for happen in happenings:
        before = read_head().position
        happen()
        now = read_head().position
        named = pending_events.with_news(before, now)
        for one in rows:
            query = Query(after=before, kinds=tuple(one.kinds))
            sees = bool(read_page(query, one.visibility).events)
            assert sees <= (one.pk in named)
    assert set(pending_events.behind()) == {one.pk for one in rows}


def test_the_cursors_of_the_quiet_advance_and_no_other(desk, row):
    other = subscribe("https://a.example/", a_ready_desk(a_card("Evening")))[1]
    everything = subscribe("https://a.example/")[1]
    a_bot(desk)
    head = Head.objects.get()
    pending_events.advance_quiet(head.epoch, head.position)
    assert current(other).cursor_position == head.position
    assert current(row).cursor_position < head.position
    assert current(everything).cursor_position < head.position
    assert other.pk not in pending_events.behind()


def test_the_cursor_of_a_session_that_runs_is_not_moved(desk, row):
    (leased,) = take(row)
    a_desk()
    head = Head.objects.get()
    pending_events.advance_quiet(head.epoch, head.position)
    assert current(row).cursor_position == leased.position < head.position


@pytest.fixture
def pair(desk):
    """Two webhooks of a desk that wait for news. The row of the first comes last in the table."""
    first, second = (subscribe(f"https://{name}.example/", desk)[1] for name in "ab")
    Subscription.objects.update(next_attempt_at=None, cursor_position=read_head().position)
    with connection.cursor() as cursor:
        while (
            cursor.execute("SELECT id FROM signals_subscription ORDER BY ctid").fetchone()[0]
            == first.pk
        ):
            Subscription.objects.filter(pk=first.pk).update(name="a")
    return first, second


@pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite locks no rows")
@pytest.mark.django_db(transaction=True)
class TestTheOrderOfLocks:
    """A turn that ends a desk locks its webhooks in the order of their ids."""

    def test_who_moves_the_cursors_of_the_quiet_waits_for_none_that_is_locked(self, pair):
        first, second = pair
        a_desk()
        head = Head.objects.get()
        with beside() as other:
            other.execute("SELECT 1 FROM signals_subscription WHERE id = %s FOR UPDATE", [first.pk])
            assert pending_events.advance_quiet(head.epoch, head.position) == 1
        assert current(second).cursor_position == head.position

    def test_who_hands_several_over_waits_for_the_first_and_has_not_locked_the_second(self, pair):
        first, second = pair
        locked = "SELECT 1 FROM signals_subscription WHERE id = %s FOR UPDATE NOWAIT"

        def hand_over():
            with connection.cursor() as cursor:  # as PostgreSQL plans it for many rows
                cursor.execute("SET enable_indexscan = off")
                cursor.execute("SET enable_bitmapscan = off")
            make_due([first.pk, second.pk])

        with ThreadPoolExecutor(1) as threads, beside() as other:
            other.execute(locked, [first.pk])
            handed_over = threads.submit(in_own_connection, hand_over)
            wait_for_another_to_wait(other)
            other.execute(locked, [second.pk])
            other.rollback()
            handed_over.result()
        assert {pk for pk, _ in due(10)} == {first.pk, second.pk}


def test_retries_come_ever_later_and_never_earlier_than_the_endpoint_asks(row):
    (leased,) = take(row)
    session = Session(leased, None, Client().endpoint(leased.url), Rates(), asyncio.Event())

    def pause(failures, asked=None):
        return session._pause_after(failures, Answer(status=503, retry_after=asked))

    usuals = [timedelta(seconds=n) for n in (5, 30, 120, 600, 1800, 3600, 3 * 3600)]
    for failures, usual in enumerate([*usuals, usuals[-1], usuals[-1]], start=1):
        found = [pause(failures) for _ in range(50)]
        assert min(found) >= usual * 0.8
        assert max(found) <= usual * 1.2
        assert len(set(found)) > 1
    assert pause(1, 120.0) == timedelta(minutes=2)
    assert pause(1, 10.0**12) == pause(1, float("inf")) == LONGEST_PAUSE
    assert pause(20, 0.0) >= usuals[-1] * 0.8
    assert timedelta(hours=75) == WEBHOOKS.give_up_after


# --- Tests of a URL -------------------------------------------------------------------------------

# What a session finds out it tells the log in a thread of its own.
IN_THREADS = pytest.mark.django_db(transaction=True)


@pytest.fixture
def unverified(desk, settings):
    """An endpoint, and a new webhook to it with its secret."""
    settings.DELIVERY_ALLOW, settings.REQUIRE_HTTPS = [ip_network("127.0.0.0/8")], False
    with endpoint(reply(503)) as found:
        secret, row = actions.create(desk=desk, url=found.url(), kinds=[], actor=SYSTEM)
        yield found, secret, row


def run_a_test(row):
    """What a runner does when a test is asked for."""
    actions.request_test(webhook=row)
    (leased,) = take(row)
    finish([run(leased)])


def look(row):
    """What a runner does with the row, once its time has come. Returns the pause until the next."""
    time_passes(row)
    (leased,) = take(row)
    finish([run(leased)])
    found = current(row)
    return found.next_attempt_at and found.next_attempt_at - timezone.now()


def look_in_vain(row):
    """The same while the log can be told nothing."""
    time_passes(row)
    (leased,) = take(row)
    Head.objects.update(halted=True)
    with pytest.raises(OperationalError):
        run(leased)
    Head.objects.update(halted=False)
    finish([leased])
    return current(row)


@IN_THREADS
def test_the_test_of_an_unverified_url_is_tried_again_as_an_event_is_until_it_succeeds(unverified):
    found, secret, row = unverified
    for failures, usual in enumerate(WEBHOOKS.pauses, start=1):
        began = timezone.now()
        look(row)
        pauses = row.next_attempt_at - began, row.next_attempt_at - timezone.now()
        assert usual * 0.8 - timedelta(seconds=1) < max(pauses)
        assert min(pauses) <= usual * 1.2
        assert (row.failures, row.state, row.last_status) == (failures, State.UNVERIFIED, None)
        assert failures == 1 or (take(row), due(10)) == ([], [])  # the first pause is short
    record = record_of(row)
    assert record["lastTest"] | {"at": ""} == {"at": "", "status": 503, "error": None}
    assert None not in (record["failingSince"], record["nextAttemptAt"], record["testRequestedAt"])
    assert len({one.headers["webhook-id"] for one in found.requests}) == 1
    found.answer = reply(200)
    look(row)
    assert last_test_of(row) | {"at": ""} == {"at": "", "status": 200, "error": "unproven"}
    found.answer = taking(secret)
    look(row)
    assert (row.state, row.failures, row.failing_since) == (State.ACTIVE, 0, None)
    assert (row.test_requested_at, last_test_of(row)["error"]) == (None, None)


@IN_THREADS
def test_the_test_of_an_unverified_url_is_given_up_after_75_hours_or_a_410(unverified):
    found, _, row = unverified
    look(row)
    long_ago = timezone.now() - WEBHOOKS.give_up_after
    Subscription.objects.update(failing_since=long_ago)
    assert (look(row), row.test_requested_at) == (None, None)
    actions.request_test(webhook=row)
    Subscription.objects.update(failing_since=timezone.now())
    found.answer = reply(410)
    assert (look(row), row.test_requested_at, row.state) == (None, None, State.UNVERIFIED)
    assert len(found.requests) == 3


@IN_THREADS
def test_one_that_is_asked_for_is_sent_at_once_and_a_new_url_begins_anew(unverified):
    found, _, row = unverified
    found.answer = reply(503, Retry_After="3600")
    assert look(row) > timedelta(minutes=59)
    run_a_test(row)
    assert (current(row).failures, len(found.requests)) == (2, 2)
    actions.change(webhook=row, url=found.url("/new"), actor=SYSTEM)
    assert (current(row).failures, last_test_of(row), row.not_before) == (0, None, None)


@IN_THREADS
def test_one_that_is_active_has_its_latest_test(unverified):
    found, secret, row = unverified
    found.answer = taking(secret)
    (leased,) = take(row)
    run(leased)
    assert (current(row).state, row.last_test_status) == (
        State.ACTIVE,
        200,
    )  # nothing else is saved


@IN_THREADS
def test_one_of_which_the_log_could_not_be_told_is_sent_again(unverified):
    """Else the URL would have answered, and stay unverified for ever."""
    found, secret, row = unverified
    found.answer = taking(secret)
    look_in_vain(row)
    assert row.state == State.UNVERIFIED
    assert row.next_attempt_at > timezone.now() + timedelta(seconds=20)  # not at once
    look(row)
    assert (row.state, row.test_requested_at, len(found.requests)) == (State.ACTIVE, None, 2)


@IN_THREADS
def test_one_of_a_verified_url_needs_no_log_and_is_sent_once(unverified):
    found, secret, row = unverified
    found.answer = taking(secret)
    look(row)
    actions.request_test(webhook=row)
    time_passes(row)
    (leased,) = take(row)
    Head.objects.update(halted=True)
    finish([run(leased)])
    Head.objects.update(halted=False)
    assert (current(row).test_requested_at, len(found.requests)) == (None, 2)


@IN_THREADS
def test_a_paused_one_gets_its_test_once(unverified):
    found, _, row = unverified
    actions.pause(webhook=row, actor=SYSTEM)
    assert (look(row), row.test_requested_at, row.failures) == (None, None, 0)
    assert len(found.requests) == 1


@IN_THREADS
@pytest.mark.parametrize("again", ["test", "resend"])
@pytest.mark.parametrize("retry_after", ["3600", "0"])
def test_a_success_beside_the_order_shortens_the_schedule_and_not_the_endpoints_retry_after(
    desk, unverified, retry_after, again
):
    found, secret, row = unverified
    found.answer = taking(secret)
    look(row)
    found.answer = reply(503, Retry_After=retry_after)
    look(row)
    later = timezone.now() + timedelta(hours=3)
    Subscription.objects.update(failures=7, next_attempt_at=later)
    found.answer = taking(secret)
    ask(row, again, current(row).cursor_position + 1)
    (leased,) = take(row)
    finish([run(leased)])
    assert (current(row).failures, row.attempts.first().status) == (7, 200)
    a_bot(desk)
    if retry_after == "0":
        assert [one.row.pk for one in take(row)] == [row.pk]
    else:
        assert take(row) == []
        assert row.next_attempt_at > timezone.now() + timedelta(minutes=58)


@IN_THREADS
def test_an_event_that_is_sent_again_and_fails_does_not_shorten_the_schedule(unverified):
    found, secret, row = unverified
    fail(found, secret, row, told=False)
    Subscription.objects.update(failures=7)
    ask(row, "resend", row.cursor_position + 1)
    assert look(row) > timedelta(hours=2)
    assert row.failures == 7


@IN_THREADS
def test_a_retry_after_holds_for_the_first_event_too(desk, unverified):
    """It came with the answer to a test that failed; then another test verified the URL."""
    found, secret, row = unverified
    found.answer = reply(503, Retry_After="3600")
    look(row)
    found.answer = taking(secret)
    run_a_test(row)
    a_bot(desk)
    assert (current(row).state, take(row)) == (State.ACTIVE, [])
    assert row.next_attempt_at > timezone.now() + timedelta(minutes=58)
    Subscription.objects.update(not_before=timezone.now() - timedelta(seconds=1))
    look(row)
    assert (row.failures, row.not_before, row.last_status) == (0, None, 200)


@IN_THREADS
@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("again", ["test", "resend"])
def test_a_failing_one_for_which_nothing_waits_works_again_with_a_test_or_a_single_event(
    desk, unverified, again, told
):
    found, secret, row = unverified
    fail(found, secret, row, told=told)
    position = leave_nothing(row)
    ask(row, again, position)
    look(row)
    assert (current(row).shown_state, row.lag) == ("failing", 0)
    found.answer = taking(secret)
    ask(row, again, position)
    look(row)
    assert (current(row).shown_state, row.failing_since) == ("active", None)
    assert (told_working(desk), row.failing_told_at) == (int(told), None)


@IN_THREADS
@pytest.mark.parametrize("again", ["test", "resend"])
def test_until_the_log_can_be_told_that_it_works_it_is_tried_again(desk, unverified, again):
    found, secret, row = unverified
    fail(found, secret, row, told=True)
    found.answer = taking(secret)
    ask(row, again, leave_nothing(row))
    assert look_in_vain(row).shown_state == "failing"
    look(row)
    assert (row.shown_state, row.failing_told_at, told_working(desk)) == ("active", None, 1)
    assert (row.test_requested_at, row.resends) == (None, None)


def fail(found, secret, row, *, told):
    """It is verified and fails, and the log tells of it if it is ``told``."""
    found.answer = taking(secret)
    look(row)
    found.answer = reply(500)
    look(row)
    if told:
        let_fail(row, 16)
        actions.note_failing(timezone.now())


def leave_nothing(row):
    """Skips what waits. Returns the position of the first event of it."""
    position = current(row).cursor_position + 1
    actions.skip(webhook=row, actor=SYSTEM, until=Head.objects.get().position)
    return position


def ask(row, again, position):
    """Asks for a test, or for this event to be sent again."""
    if again == "test":
        actions.request_test(webhook=row)
    else:
        actions.resend(webhook=current(row), position=position)


def told_working(desk):
    """How often the log tells the desk that a webhook works again."""
    return Event.objects.filter(topic=desk.public_id, kind="subscription.working").count()


@IN_THREADS
def test_a_session_that_delivers_again_tells_that_it_works(desk, unverified):
    found, secret, row = unverified
    fail(found, secret, row, told=True)
    look(row)
    found.answer = taking(secret)
    actions.request_test(webhook=row)
    look(row)  # a test that succeeds delivers nothing
    assert current(row).failing_told_at is not None
    look(row)
    assert (current(row).failing_told_at, row.failures) == (None, 0)
    assert told_working(desk) == 1


@IN_THREADS
def test_that_it_works_is_told_later_and_once_if_the_log_could_not_be_told(desk, unverified):
    """Also if no other event follows."""
    found, secret, row = unverified
    fail(found, secret, row, told=True)
    Subscription.objects.update(cursor_position=Head.objects.get().position - 1)
    found.answer = taking(secret)
    assert look_in_vain(row).failures == 0
    assert (row.lag, told_working(desk)) == (0, 0)
    look(row)
    assert (row.failing_told_at, told_working(desk)) == (None, 1)
