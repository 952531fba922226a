"""manage.py new_epoch, after a restore that lost events: readers start again, the rest goes on."""

import io
import itertools
import subprocess
import sys
from datetime import timedelta
from ipaddress import ip_network

import pytest
import time_machine
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.utils import timezone

from desks import actions as desks
from desks.models import Bookmark, QueuedNotice
from desks.models.notice import NoticeKind
from events.actors import SYSTEM
from events.columns import new_epoch as another_epoch
from events.http.cursors import place_of
from events.models import Event, Head
from signals.notices.triggers import LAPSED, LOG, RESTORED
from signals.webhooks import actions
from signals.webhooks.models import DisabledReason, State, Subscription
from tests.client import EVENTS, code, get, push
from tests.factories import a_bot, a_card, a_desk, a_platform_token, a_ready_desk, a_staff_user
from tests.notices import mails_in, waiting, write
from tests.server import ROOT
from tests.signals.bodies import fanout, tradingview
from tests.signals.outbound.listeners import endpoint
from tests.signals.webhooks.runner.stage import environment, runners, subscribe, until
from tests.signals.webhooks.stage import an_active_webhook
from tests.staff import verified

pytestmark = pytest.mark.django_db

OWNERS = "Your webhooks may repeat or miss events"
STAFFS = "The platform's webhooks may repeat or miss events"
RETIRED = "Morning was retired"


def start_epoch():
    output = io.StringIO()
    call_command("new_epoch", stdout=output)
    return output.getvalue()


def cut_off_the_last_event():
    """What a restore of an older log does to rows that were not restored with it."""
    Event.objects.latest("position").delete()
    Head.objects.update(position=Event.objects.latest("position").position)


def cursor_of(webhook):
    webhook.refresh_from_db()
    return webhook.cursor_epoch, webhook.cursor_position


class TestReaders:
    def test_an_earlier_cursor_is_refused_and_a_later_one_resumes(self):
        engine = a_platform_token()
        before = get(EVENTS, engine).json()["next"]
        output = start_epoch()
        assert code(get(f"{EVENTS}?after={before}", engine)) == "cursor_lost"
        after = get(EVENTS, engine).json()["next"]
        desk = a_desk()
        (event,) = get(f"{EVENTS}?after={after}", engine).json()["events"]
        assert (event["kind"], event["userId"]) == ("desk.created", desk.public_id)
        assert Head.objects.get().epoch in output

    def test_if_it_runs_between_a_look_for_a_cursor_and_the_page_the_cursor_is_lost(self):
        engine = a_platform_token()
        before = get(EVENTS, engine).json()["next"]
        looks = itertools.count()

        def replace_the_log_before_the_second_look(execute, sql, *rest):
            if Head._meta.db_table in sql and next(looks) == 1:
                start_epoch()
            return execute(sql, *rest)

        with connection.execute_wrapper(replace_the_log_before_the_second_look):
            assert code(get(f"{EVENTS}?after={before}", engine)) == "cursor_lost"
        assert Head.objects.get().epoch != place_of(before)[0]

    def test_a_halted_log_is_written_again(self):
        engine = a_platform_token()
        Head.objects.update(halted=True)
        assert code(push(fanout(), engine)) == "unavailable"
        start_epoch()
        a_card()
        assert code(push(fanout(), engine)) == "ok"

    def test_the_log_stays_as_it_is(self):
        a_platform_token()
        head, events = Head.objects.get(), list(Event.objects.values())
        start_epoch()
        now = Head.objects.get()
        assert (now.position, list(Event.objects.values())) == (head.position, events)
        assert now.epoch != head.epoch


class TestNotices:
    def test_what_happened_before_the_runners_next_look_is_told_once(self, card):
        for _ in range(20):
            a_ready_desk(card)
        write()
        desks.retire_card(actor=SYSTEM)
        start_epoch()
        write(), write()
        assert waiting() == [RETIRED] * 20

    def test_a_bookmark_beyond_the_log_goes_on_from_its_end(self, bot):
        a_desk()
        write()
        cut_off_the_last_event()
        start_epoch()
        push(tradingview(bot, pair="NOT/IT"), secret=bot.secret)
        write()
        assert waiting() == ["A signal of Chart was refused"]

    def test_what_was_never_told_before_and_what_lost_an_earlier_epoch_stay_as_they_are(self, bot):
        push(tradingview(bot, pair="NOT/IT"), secret=bot.secret)
        start_epoch()
        write()
        assert waiting() == []
        push(tradingview(bot, pair="NOT/IT"), secret=bot.secret)
        Bookmark.objects.filter(name=LOG).update(epoch=another_epoch())
        start_epoch()
        write()
        assert waiting() == []

    def test_bookmarks_whose_position_is_none_of_the_log_do_not_move(self):
        far = {"position": 10**9}
        Bookmark.objects.create(name="another", epoch="01234567", **far)
        Bookmark.objects.create(name=f"{LAPSED}card_1", **far)
        start_epoch()
        assert set(Bookmark.objects.values_list("epoch", "position")) == {
            ("01234567", 10**9),
            ("", 10**9),
        }


class TestWebhooks:
    def test_each_goes_on_at_its_own_position_in_whatever_state(self, desk):
        webhooks = [an_active_webhook(desk) for _ in range(3)] + [an_active_webhook()]
        actions.pause(webhook=webhooks[1], actor=SYSTEM)
        positions = [cursor_of(webhook)[1] for webhook in webhooks]
        output = start_epoch()
        epoch = Head.objects.get().epoch
        assert [cursor_of(webhook) for webhook in webhooks] == [(epoch, at) for at in positions]
        assert "their own position: 4" in output
        assert "the end of the log: 0" in output
        assert actions.resume(webhook=webhooks[1], actor=SYSTEM).state == State.ACTIVE

    def test_one_beyond_the_log_goes_on_from_its_end(self, desk):
        webhook = an_active_webhook(desk)
        a_desk()
        head = Head.objects.get()
        Subscription.objects.update(cursor_position=head.position)
        cut_off_the_last_event()
        assert "the end of the log: 1" in start_epoch()
        assert cursor_of(webhook) == (Head.objects.get().epoch, head.position - 1)

    def test_one_that_lost_an_earlier_epoch_stays_lost(self, desk):
        webhook = an_active_webhook(desk)
        lost = another_epoch(), 10**9
        Subscription.objects.update(cursor_epoch=lost[0], cursor_position=lost[1])
        start_epoch()
        assert cursor_of(webhook) == lost
        write()
        assert waiting() == []

    def test_a_runner_that_leased_one_before_changes_nothing_after(self, desk):
        webhook = an_active_webhook(desk)
        start_epoch()
        assert not actions.disable(webhook=webhook, reason=DisabledReason.CURSOR_LOST)
        webhook.refresh_from_db()
        assert webhook.state == State.ACTIVE


class TestTelling:
    def test_each_owner_and_each_member_of_staff_is_told_once(self, desk, stranger):
        staff = a_staff_user()
        for _ in range(3):
            an_active_webhook(desk), an_active_webhook()
        start_epoch()
        start_epoch()  # again, before the runner looks
        write(), write()
        told = {(notice.user, notice.subject, notice.kind) for notice in QueuedNotice.objects.all()}
        assert told == {
            (desk.user, OWNERS, NoticeKind.ENDINGS),
            (staff, STAFFS, NoticeKind.OPERATIONS),
        }
        assert len(waiting()) == 2
        assert not Bookmark.objects.filter(name=RESTORED).exists()
        texts = sorted(QueuedNotice.objects.values_list("body", flat=True), key=len)
        assert texts[0].endswith("/webhooks")
        assert texts[1].endswith("/control/signals/subscription/")
        assert "may get events again" in texts[0]

    def test_a_second_restore_is_told_again(self, desk):
        an_active_webhook(desk)
        for _ in range(2):
            start_epoch()
            write()
        assert waiting() == [OWNERS] * 2

    def test_it_is_a_notice_of_its_own_however_late(self, desk):
        an_active_webhook(desk)
        start_epoch()
        with time_machine.travel(timezone.now() + timedelta(days=2)):
            write()
        assert waiting() == [OWNERS]

    def test_whose_webhook_is_newer_is_not_told(self, desk):
        an_active_webhook(a_desk())
        start_epoch()
        webhook = an_active_webhook(desk)
        later = Bookmark.objects.get(name=RESTORED).at + timedelta(milliseconds=1)
        Subscription.objects.filter(pk=webhook.pk).update(created_at=later)
        write()
        assert QueuedNotice.objects.get().user != desk.user


def test_a_database_without_a_log_is_refused():
    Head.objects.all().delete()
    with pytest.raises(CommandError, match="migrate"):
        start_epoch()


on_postgresql = pytest.mark.skipif(
    "connection.vendor != 'postgresql'", reason="SQLite takes one process"
)


@on_postgresql
@pytest.mark.processes
@pytest.mark.django_db(transaction=True)
def test_a_runner_that_starts_after_it_delivers_on_and_mails_what_was_not_told(tmp_path, settings):
    """Real processes: the command, then a runner. No webhook is disabled, no notice is lost."""
    settings.DELIVERY_ALLOW, settings.REQUIRE_HTTPS = [ip_network("127.0.0.0/8")], False
    owners = [a_ready_desk(card).user for card in [a_card()] for _ in range(20)]
    for user in owners:
        verified(user)
    folder = tmp_path / "mails"
    folder.mkdir()
    with endpoint() as heard, endpoint() as ahead:
        bot = a_bot(owners[0].desk)
        subscribe(heard.url(), owners[0].desk)
        _, beyond = subscribe(ahead.url())
        write()
        QueuedNotice.objects.all().delete()
        Subscription.objects.filter(pk=beyond.pk).update(cursor_position=10**6)
        desks.retire_card(actor=SYSTEM)
        last = Head.objects.get().position
        done = subprocess.run(
            [sys.executable, "manage.py", "new_epoch"],
            cwd=ROOT, env=environment(), capture_output=True, text=True,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        push(tradingview(bot, pair="NOT/IT"), secret=bot.secret)
        address = f"filemail:///{folder}"
        with runners(tmp_path, EMAIL_URL=address, BASE_URL="http://testserver", NOTICE_RATE="off"):
            until(lambda: not waiting() and len(mails_in(folder)) >= 22)
            until(lambda: ahead.requests and len(heard.requests) >= 2)
    subjects = [str(mail["Subject"]) for mail in mails_in(folder)]
    assert sorted(subjects) == sorted([*[RETIRED] * 20, OWNERS, "A signal of Chart was refused"])
    epoch = Head.objects.get().epoch
    assert ids(heard) == [f"evt_{last}_{epoch}", f"evt_{last + 1}_{epoch}"]
    assert ids(ahead) == [f"evt_{last + 1}_{epoch}"]
    assert set(Subscription.objects.values_list("state", flat=True)) == {State.ACTIVE}


def ids(heard):
    return [request.headers["webhook-id"] for request in heard.requests]


@on_postgresql
@pytest.mark.processes
@pytest.mark.django_db(transaction=True)
def test_one_that_is_killed_leaves_nothing_half_done(desk):
    webhook = an_active_webhook(desk)
    write()
    before = state_of_everything()
    with transaction.atomic():
        Subscription.objects.select_for_update().get(pk=webhook.pk)  # it waits for this row
        command = subprocess.Popen(
            [sys.executable, "manage.py", "new_epoch"], cwd=ROOT, env=environment()
        )
        until(waits_for_a_row)
        command.kill()
        command.wait()
    until(lambda: not waits_for_a_row())
    assert state_of_everything() == before
    start_epoch()
    assert cursor_of(webhook) == (Head.objects.get().epoch, before["webhooks"][0][1])


def waits_for_a_row():
    """Whether a process waits for the lock of a webhook."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")  # a transaction keeps its first look
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND wait_event_type = 'Lock' AND query LIKE %s",
            ["%signals_subscription%"],
        )
        return cursor.fetchone()[0]


def state_of_everything():
    return {
        "head": list(Head.objects.values_list("epoch", "position")),
        "bookmarks": sorted(Bookmark.objects.values_list("name", "epoch", "position")),
        "webhooks": list(Subscription.objects.values_list("cursor_epoch", "cursor_position")),
    }
