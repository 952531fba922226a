"""The runner, with real endpoints: what arrives, and what becomes of failures."""

import json
import signal
from contextlib import ExitStack
from datetime import timedelta
from ipaddress import ip_network

import pytest
from django.db import connection  # noqa: F401 - for skipif
from django.utils import timezone

from desks import actions as desk_actions
from events.actors import SYSTEM
from events.http.cursors import log_cursor
from events.models import Event, Head
from signals.webhooks import actions
from signals.webhooks.models import DeliveryAttempt, DisabledReason, State, Subscription
from tests import client
from tests.factories import a_bot, a_desk_token, an_event_of_a_later_release
from tests.signals.outbound.listeners import endpoint, reply, taking
from tests.signals.webhooks.runner.oracle import first_heard, heard, must_hear
from tests.signals.webhooks.runner.stage import current, runners, running, subscribe, until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


@pytest.fixture(autouse=True)
def allowed(settings):
    settings.DELIVERY_ALLOW = [ip_network("127.0.0.0/8")]


def rests(row):
    """Whether nobody holds the subscription and its cursor has reached the log's head."""
    found = current(row)
    return not found.leased_until and found.cursor_position >= Head.objects.get().position


def try_again(row):
    """As if the pause after the failure had passed."""
    passed = {"next_attempt_at": timezone.now(), "not_before": None}
    Subscription.objects.filter(pk=row.pk).update(**passed)


@pytest.mark.processes
@pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite has no pool")
def test_one_thread_for_requests_is_enough_for_a_runner(tmp_path, desk):
    """Its own threads keep a connection each: more than a web server with so few threads needs."""
    with endpoint() as found:
        secret, row = actions.create(desk=desk, url=found.url(), kinds=[], actor=SYSTEM)
        found.answer = taking(secret)
        with runners(tmp_path, THREADS="1"):
            until(lambda: current(row).state == State.ACTIVE)
            a_bot(desk)
            until(lambda: rests(row))


def test_an_event_of_a_later_release_is_delivered_and_holds_up_no_other(desk):
    with endpoint() as own, endpoint() as every:
        rows = [subscribe(own.url(), desk)[1], subscribe(every.url())[1]]
        with running():
            an_event_of_a_later_release(desk)
            desk_actions.add_automation(desk=desk, name="Chart", actor=SYSTEM)
            for found, row in ((own, rows[0]), (every, rows[1])):
                until(lambda row=row: rests(row))
                types = [json.loads(one.body)["type"] for one in found.requests]
                assert types[-2:] == ["desk.renamed", "automation.created"]


def test_everybody_hears_what_the_feed_shows_them_in_order_and_verified(card, desk, stranger):
    token = a_desk_token(desk)
    with endpoint() as ours, endpoint() as theirs, endpoint() as platform, endpoint() as some:
        secret, row = subscribe(ours.url("/a?b=c"), desk)
        their_secret, their_row = subscribe(theirs.url(), stranger)
        every_secret, every_row = subscribe(platform.url())
        subscribe(some.url(), kinds=["card.retired"])
        starts = {one: one.cursor_position for one in (row, their_row, every_row)}
        with running():
            for _ in range(3):
                a_bot(desk)
            desk_actions.retire_card(card=card, actor=SYSTEM)
            until(lambda: some.requests)
            for found, one in ((ours, row), (theirs, their_row), (platform, every_row)):
                expected = must_hear(one, starts[one])
                until(lambda found=found, most=expected: len(found.requests) == len(most))
        for found, one, key in (
            (ours, row, secret),
            (theirs, their_row, their_secret),
            (platform, every_row, every_secret),
        ):
            assert heard(found.requests, [key]) == must_hear(one, starts[one])
        assert [json.loads(one.body)["type"] for one in some.requests] == ["card.retired"]
        shown = client.get(
            f"/api/v1/events?after={log_cursor(row.cursor_epoch, starts[row])}", token
        )
        assert [json.loads(one.body)["data"] for one in ours.requests] == shown.json()["events"]
    assert {one.path for one in ours.requests} == {"/a?b=c"}
    assert (current(row).last_status, row.failures, row.leased_until) == (204, 0, None)
    assert DeliveryAttempt.objects.filter(subscription=row, status=204).count() == len(
        ours.requests
    )


def test_a_failure_stops_at_its_event_and_resuming_loses_nothing(desk):
    broken = [True]

    def answer(handler, request):
        reply(*((500, b"kaputt") if broken[0] else (200,)), Retry_After="40")(handler, request)

    with endpoint(answer) as found, running(2):
        secret, row = subscribe(found.url(), desk)
        start = row.cursor_position
        for _ in range(3):
            a_bot(desk)
        until(lambda: current(row).failures == 1 and not row.leased_until)
        assert (row.shown_state, row.last_status, row.cursor_position) == ("failing", 500, start)
        assert row.next_attempt_at > timezone.now() + timedelta(seconds=30)
        assert DeliveryAttempt.objects.get(subscription=row).answer == "kaputt"
        a_bot(desk)  # news does not shorten the pause
        try_again(row)
        until(lambda: current(row).failures == 2 and not row.leased_until)
        assert len(found.requests) == 2
        assert {one.headers["webhook-id"] for one in found.requests} == {
            found.requests[0].headers["webhook-id"]
        }
        broken[0] = False
        try_again(row)
        until(lambda: not current(row).failures and not row.leased_until)
        until(lambda: first_heard(found.requests, [secret]) == must_hear(row, start))
    assert row.failing_since is None


def test_what_ends_a_subscription(desk):
    """410, 75 hours of failures only, and a cursor of another epoch."""
    with endpoint(reply(410)) as gone, endpoint(reply(500)) as failing, endpoint() as well:
        _, gone_row = subscribe(gone.url(), desk)
        _, failing_row = subscribe(failing.url(), desk)
        _, lost_row = subscribe(well.url(), desk)
        long_ago = timezone.now() - timedelta(hours=75, minutes=1)
        failed = {"failures": 30, "failing_since": long_ago, "next_attempt_at": timezone.now()}
        Subscription.objects.filter(pk=failing_row.pk).update(**failed)
        Subscription.objects.filter(pk=lost_row.pk).update(cursor_epoch="00000000")
        with running():
            a_bot(desk)
            for row, reason in (
                (gone_row, DisabledReason.GONE),
                (failing_row, DisabledReason.FAILED),
                (lost_row, DisabledReason.CURSOR_LOST),
            ):
                until(lambda row=row: current(row).state == State.DISABLED and not row.leased_until)
                assert (row.reason, row.next_attempt_at) == (reason, None)
        assert (len(gone.requests), len(failing.requests), well.requests) == (1, 1, [])
    told = Event.objects.filter(kind="subscription.disabled").values_list("content", flat=True)
    assert {one["data"]["reason"] for one in told} == set(DisabledReason)


def echo(handler, request):
    reply(200, request.body, Retry_After="3600")(handler, request)


def reflect(handler, request):
    """As a server that knows what a challenge is, and not the secret."""
    challenge = json.loads(request.body)["data"]["challenge"]
    answer = json.dumps({"challenge": challenge}).encode()
    reply(200, answer, Retry_After="3600")(handler, request)


def test_a_stranger_is_never_verified_and_gets_nothing_but_tests(desk):
    moved = reply(307, Location="https://a.example/", Retry_After="3600")
    # Each asks for an hour: nothing is tried again in this test.
    ok, empty = reply(200, b"ok", Retry_After="3600"), reply(204, Retry_After="3600")
    strangers = [ok, empty, echo, reflect, moved]
    with ExitStack() as stack:
        found = [stack.enter_context(endpoint(one)) for one in strangers]
        urls = [one.url() for one in found]
        made = [actions.create(desk=desk, url=url, kinds=[], actor=SYSTEM) for url in urls]
        for _, row in made:
            actions.rewind(webhook=row, after=log_cursor(row.cursor_epoch, 0), actor=SYSTEM)
        a_bot(desk)
        with running(2):
            for asked in (1, 2):
                for _, row in made:
                    until(lambda row=row, n=asked: current(row).failures == n)
                    until(lambda row=row: not current(row).leased_until)
                    assert (row.state, row.is_verified) == (State.UNVERIFIED, False)
                assert [len(one.requests) for one in found] == [asked] * len(found)
                if asked == 1:
                    for _, row in made:
                        actions.request_test(webhook=row)
    tests = [json.loads(request.body) for one in found for request in one.requests]
    assert {one["type"] for one in tests} == {"subscription.test"}
    assert len({one["data"]["challenge"] for one in tests}) == len(tests)
    for _, row in made[:4]:
        attempt = DeliveryAttempt.objects.filter(subscription=row).first()
        assert (attempt.error, attempt.is_success) == ("unproven", False)


def test_an_active_one_stays_active_and_goes_on_if_a_test_is_not_proven(desk):
    """Also one that was verified before endpoints had to prove anything."""
    with endpoint() as found:
        secret, row = subscribe(found.url(), desk)
        start = row.cursor_position
        a_bot(desk)
        actions.request_test(webhook=row)
        with running():
            until(lambda: rests(row))
        first, *rest = found.requests
        assert json.loads(first.body)["type"] == "subscription.test"
        assert heard(rest, [secret]) == must_hear(row, start)
    assert (row.state, row.failures, row.reason) == (State.ACTIVE, 0, None)
    assert DeliveryAttempt.objects.get(subscription=row, position=None).error == "unproven"


def test_changes_take_effect_and_what_was_in_flight_counts_for_nothing(desk):
    """Rewinding, pausing and a new secret, while messages are under way."""
    with endpoint() as found, running(2):
        secret, row = subscribe(found.url(), desk)
        start = row.cursor_position
        for _ in range(4):
            a_bot(desk)
        until(lambda: rests(row))
        before = len(found.requests)
        cursor = log_cursor(row.cursor_epoch, start)
        actions.rewind(webhook=row, after=cursor, actor=SYSTEM)
        everything = must_hear(row, start)
        # A session from before the change may send the newest event once more, before everything.
        until(lambda: heard(found.requests[before:], [secret])[-len(everything) :] == everything)
        until(lambda: rests(row))
        new_secret, _ = actions.replace_secret(
            webhook=row, actor=SYSTEM, overlap=timedelta(hours=1)
        )

        def has_two_signatures():
            a_bot(desk)  # a session from before may have delivered the last event
            until(lambda: rests(row))
            return len(found.requests[-1].headers["webhook-signature"].split(" ")) == 2

        until(has_two_signatures)
        assert heard(found.requests[-1:], [secret]) == heard(found.requests[-1:], [new_secret])
        actions.pause(webhook=row, actor=SYSTEM)
        until(lambda: not current(row).leased_until)
        before = len(found.requests)
        a_bot(desk)
        actions.resume(webhook=row, actor=SYSTEM)
        until(lambda: rests(row))
    assert first_heard(found.requests, [secret, new_secret]) == must_hear(row, start)


@pytest.mark.processes
def test_a_stop_finishes_what_is_in_flight_and_leaves_nothing_leased_or_too_much(tmp_path, desk):
    running = []

    def stop_meanwhile(handler, request):
        running[0].send(signal.SIGTERM)
        reply()(handler, request)

    with endpoint(stop_meanwhile) as found:
        _, row = subscribe(found.url(), desk)
        old = {"subscription": row, "at": timezone.now(), "milliseconds": 1, "status": 204}
        DeliveryAttempt.objects.bulk_create(DeliveryAttempt(**old) for _ in range(60))
        for _ in range(5):
            a_bot(desk)
        with runners(tmp_path) as started:
            running += started
            assert running[0].wait() == 0
        heard_until = json.loads(found.requests[-1].body)["data"]["position"]
        assert (current(row).leased_until, row.cursor_position) == (None, heard_until)
        assert len(found.requests) < 5
        assert row.attempts.count() == 50
