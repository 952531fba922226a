"""Leases and what is saved under them, by the database's clock."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now
from django.utils import timezone

from desks import actions as desk_actions
from events.actors import SYSTEM
from events.feed import Query, read_page
from events.http.cursors import log_cursor
from events.models import Head
from signals.webhooks import actions
from signals.webhooks.models import DeliveryAttempt, Subscription
from signals.webhooks.runner import news
from signals.webhooks.runner.leases import Progress, due, lease, read, save
from signals.webhooks.runner.retries import GIVE_UP_AFTER, LONGEST_PAUSE, PAUSES, pause_after
from tests.factories import a_bot, a_card, a_ready_desk
from tests.signals.webhooks.runner.stage import LIMIT, subscribe, until

pytestmark = pytest.mark.django_db


@pytest.fixture
def desk(db):
    return a_ready_desk(a_card())


@pytest.fixture
def row(desk):
    return subscribe("https://hooks.example/", desk)[1]


def take(row):
    leased, _ = lease([row.pk])
    return leased


def progress_of(leased, **done):
    row = leased.row
    own = (row.pk, row.lease_generation, row.revision)
    return Progress(*own, **{"position": row.cursor_position + 1, **done})


def time_passes(row):
    past = Now() - timedelta(seconds=1)
    Subscription.objects.filter(pk=row.pk).update(leased_until=past, next_attempt_at=past)


def current(row):
    row.refresh_from_db()
    return row


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
    assert save([progress_of(stalled, is_over=True, failures=3, status=500)]) == set()
    found = current(row)
    assert (found.cursor_position, found.failures) == (before, 0)
    assert found.leased_until is not None
    assert save([progress_of(leased, failures=0, status=204)]) == {row.pk}
    assert current(row).cursor_position == before + 1


def test_a_runner_that_stood_still_while_it_took_a_lease_does_not_deliver(row):
    (stalled,) = take(row)
    time_passes(row)
    (leased,) = take(row)
    assert [one.url for one in read({row.pk: leased.row.lease_generation}, 0.0)] == [leased.url]
    assert list(read({row.pk: stalled.row.lease_generation}, 0.0)) == []


def test_what_began_before_a_change_counts_for_nothing(row):
    (leased,) = take(row)
    cursor = log_cursor(row.cursor_epoch, 1)
    actions.rewind(subscription=row, after=cursor, actor=SYSTEM)
    assert save([progress_of(leased, failures=0, status=204)]) == set()
    assert current(row).cursor_position == 1
    save([progress_of(leased, is_over=True, failures=1, status=500)])
    found = current(row)
    assert (found.cursor_position, found.failures, found.leased_until) == (1, 0, None)
    assert due(10) == [(row.pk, False)]


def test_a_session_ends_when_its_subscription_is_paused_or_a_test_is_asked_for(row):
    (leased,) = take(row)
    actions.request_test(subscription=row)
    assert save([progress_of(leased, failures=0, status=204)]) == set()
    save([progress_of(leased, is_over=True)])
    assert due(10) == [(row.pk, False)]
    (leased,) = take(row)
    save([progress_of(leased, was_tested=True, is_over=True)])
    (leased,) = take(row)
    actions.pause(subscription=row, actor=SYSTEM)
    assert save([progress_of(leased, is_over=True, pause=5.0)]) == set()
    assert (current(row).next_attempt_at, take(row)) == (None, [])


def test_a_failure_waits_although_there_is_news(row):
    (leased,) = take(row)
    save([progress_of(leased, is_over=True, pause=30.0, failures=1, status=500)])
    found = current(row)
    assert (found.failures, found.leased_until) == (1, None)
    assert found.failing_since <= timezone.now() < found.next_attempt_at
    assert take(row) == []
    assert due(10) == []


def test_failures_before_a_pause_and_a_resume_count_from_a_time_again(row):
    """Else the subscription would never be given up."""
    (leased,) = take(row)
    save([progress_of(leased, is_over=True, failures=1, status=500)])
    time_passes(row)
    (leased,) = take(row)
    actions.pause(subscription=row, actor=SYSTEM)
    actions.resume(subscription=row, actor=SYSTEM)
    save([progress_of(leased, is_over=True, pause=5.0, failures=2, status=500)])
    assert current(row).failing_since <= timezone.now()


@pytest.mark.parametrize("is_verified", [True, False])
def test_without_its_key_a_test_waits(row, is_verified):
    if not is_verified:
        Subscription.objects.update(state="unverified", is_verified=False)
    actions.request_test(subscription=row)
    (leased,) = take(row)
    save([progress_of(leased, lacks_key=True, is_over=True, pause=600.0)])
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
            save([progress_of(leased, attempts=[(attempt, b"")])])
            saved.set()
            goes_on.wait(LIMIT)

    with ThreadPoolExecutor(2) as others:
        delivered = others.submit(in_own_connection, deliver)
        assert saved.wait(LIMIT)
        removed = others.submit(in_own_connection, actions.remove, subscription=row, actor=SYSTEM)
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
    actions.remove(subscription=row, actor=SYSTEM)
    assert save([progress_of(leased, attempts=[(attempt, b"")])]) == set()
    assert lease([row.pk]) == ([], [])


def test_what_a_killed_runner_left_of_a_paused_subscription_is_not_looked_at_again(row):
    take(row)
    actions.pause(subscription=row, actor=SYSTEM)
    time_passes(row)
    assert due(10) == [(row.pk, False)]
    assert take(row) == []
    assert due(10) == []


def test_a_secret_that_cannot_be_decrypted_signs_nothing(row, settings):
    settings.SECRET_KEYS = [bytes(range(32))]
    (leased,) = take(row)
    assert leased.secrets == []


def test_each_secret_that_is_valid_signs_the_newest_first(row):
    (leased,) = take(row)
    first = leased.secrets
    time_passes(row)
    second, _ = actions.replace_secret(subscription=row, actor=SYSTEM, overlap=timedelta(hours=1))
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
        before = news.head()
        happen()
        now = news.head()
        named = news.with_news(before, now)
        for one in rows:
            query = Query(after=before, kinds=tuple(one.kinds))
            sees = bool(read_page(query, one.visibility).events)
            assert sees <= (one.pk in named)
    assert set(news.behind()) == {one.pk for one in rows}


@pytest.mark.parametrize(
    ("leased_in", "again_in", "is_named"),
    [(None, 30, False), (30, 30, True), (-1, -1, True), (None, None, True)],
    ids=["waits for its time", "is leased", "its lease is over", "waits for news"],
)
def test_of_those_that_failed_only_who_waits_for_its_time_has_no_news(
    desk, row, leased_in, again_in, is_named
):
    times = {"leased_until": leased_in, "next_attempt_at": again_in}
    later = {
        name: None if seconds is None else timezone.now() + timedelta(seconds=seconds)
        for name, seconds in times.items()
    }
    Subscription.objects.filter(pk=row.pk).update(failures=1, **later)
    before = news.head()
    a_bot(desk)
    assert (row.pk in news.with_news(before, news.head())) == is_named


def test_the_cursors_of_the_quiet_advance_and_no_other(desk, row):
    other = subscribe("https://a.example/", a_ready_desk(a_card("Evening")))[1]
    everything = subscribe("https://a.example/")[1]
    a_bot(desk)
    head = Head.objects.get()
    news.advance_quiet(head.epoch, head.position)
    assert current(other).cursor_position == head.position
    assert current(row).cursor_position < head.position
    assert current(everything).cursor_position < head.position
    assert other.pk not in news.behind()


def test_retries_come_ever_later_and_never_earlier_than_the_endpoint_asks():
    for failures, usual in enumerate([*PAUSES, PAUSES[-1], PAUSES[-1]], start=1):
        found = [pause_after(failures, None) for _ in range(50)]
        assert min(found) >= usual * 0.8
        assert max(found) <= usual * 1.2
        assert len(set(found)) > 1
    assert pause_after(1, 120.0) == 120.0
    assert pause_after(1, 10.0**12) == LONGEST_PAUSE
    assert pause_after(20, 0.0) >= PAUSES[-1] * 0.8
    assert timedelta(hours=75).total_seconds() == GIVE_UP_AFTER
