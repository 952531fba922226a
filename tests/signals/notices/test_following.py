"""What happens to a desk is told to its owner, once."""

import re
from datetime import timedelta

import pytest
import time_machine
from django.db import Error, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from desks import actions as desks
from desks.expectations import watch
from desks.models import Bookmark, NoticeChoice, QueuedNotice, RefusalTold
from desks.models.notice import MAIL, NoticeKind
from desks.notices.outbox import write_security
from events.actors import SYSTEM
from events.control.lists import row_url
from events.models import Event, Head
from signals.notices import texts, triggers
from signals.notices.sending import LEASE, take
from signals.webhooks import actions as webhook_actions
from signals.webhooks.models import DisabledReason
from tests.client import push, signed_in
from tests.factories import (
    a_bot,
    a_card,
    a_desk,
    a_platform_token,
    a_ready_desk,
    expect,
    expecting,
    move_the_log_back,
)
from tests.notices import elsewhere, table_away, waiting, write
from tests.pages import words
from tests.processes import run_together
from tests.signals.bodies import fanout, tradingview
from tests.signals.notices.chats.stage import a_chat
from tests.signals.webhooks.stage import an_active_webhook
from tests.staff import a_client
from tokens import actions as tokens
from tokens.choices import Source
from tokens.models import SigningSecret

pytestmark = pytest.mark.django_db

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
OFTEN = expecting(HOUR, timedelta(0))


@pytest.fixture
def clock(bot):
    """A clock that only the test moves. What happened before is not told."""
    write()
    with time_machine.travel(timezone.now(), tick=False) as clock:
        yield clock


def the_platform_is_refused(**body):
    assert push(body, a_platform_token()).status_code == 422


def the_floor_secret_ends():
    _, secret = tokens.generate_secret(source=Source.FLOOR, actor=SYSTEM)
    tokens.end_secret(secret=secret, actor=SYSTEM)


@pytest.mark.parametrize(
    "happens",
    [
        lambda: the_platform_is_refused(**fanout(pair="XRP/USDT")),
        lambda: the_platform_is_refused(source="nobody"),
        the_floor_secret_ends,
    ],
)
def test_an_event_that_only_the_platform_sees_holds_up_no_notice(bot, clock, happens):
    """No desk owns it, so nobody is told; what follows it in the log is told as ever."""
    happens()
    assert Event.objects.last().topic is None
    sent(bot, direction="long")
    write()
    assert waiting() == ["A signal of Chart was refused"]


def test_a_mail_about_an_invalid_signal_names_its_fields(bot, clock):
    sent(bot, nonce="My Long Entry Id")
    write()
    assert "nonce: Send 1 to 128 visible ASCII characters." in QueuedNotice.objects.get().body


def a_webhook_is_disabled(bot):
    webhook = an_active_webhook(bot.automation.desk)
    assert webhook_actions.disable(webhook=webhook, reason=DisabledReason.GONE)


def a_secret_is_replaced(bot):
    tokens.generate_secret(
        source=Source.TRADINGVIEW, automation=bot.automation, overlap=7 * DAY, actor=SYSTEM
    )


@pytest.mark.parametrize("happens", [a_webhook_is_disabled, a_secret_is_replaced])
def test_an_event_whose_notice_cannot_be_written_holds_up_no_other(bot, clock, caplog, happens):
    happens(bot)
    kinds = ["subscription.disabled", "secret.ended"]
    assert Event.objects.filter(kind__in=kinds).update(content={}) == 1
    sent(bot, direction="long")
    write()
    assert waiting() == ["A signal of Chart was refused"]
    [line] = [line for line in caplog.records if line.exc_info]
    assert line.name == "signals.notices.triggers"


@pytest.mark.django_db(transaction=True)
def test_a_kind_of_notice_that_cannot_be_written_holds_up_no_other(bot, clock):
    a_secret_is_replaced(bot)
    with table_away(RefusalTold):
        with pytest.raises(Error):
            triggers.summarise_refusals(timezone.now())
        triggers.follow(timezone.now())
    assert len(waiting(NoticeKind.ENDINGS)) == 1


def sent(bot, **changes):
    return push(tradingview(bot, **changes), secret=bot.secret)


def look():
    watch(timezone.now())
    write()


def test_what_happened_before_the_first_time_is_not_told(bot):
    sent(bot, pair="NOT/IT")
    write()
    assert waiting() == []


def test_a_silent_bot_and_its_return_are_told_once_each(bot, desk, clock):
    expect(bot, OFTEN)
    clock.shift(2 * HOUR)
    look()
    look()
    assert waiting() == ["Chart is silent"]
    notice = QueuedNotice.objects.get()
    assert (notice.user, notice.kind) == (desk.user, "silence")
    assert f"/bots/{bot.id}" in notice.body
    sent(bot)
    look()
    assert waiting() == ["Chart is silent", "Chart sends again"]


def test_nobody_reads_of_a_signal_before_the_first_one(bot, desk, clock):
    """The silence of a bot that was never heard began when its owner said that it is expected."""
    expect(bot, OFTEN)
    since = texts.shown(Event.objects.last().at, desk.user)
    clock.shift(2 * HOUR)
    look()
    sent(bot)
    look()
    assert f"Before that none was accepted after {since}." in QueuedNotice.objects.last().body
    told = Event.objects.get(kind="automation.heard")
    said = "The bot Chart {}sends again. Before that nothing was accepted for 2 hours."
    assert said.format("") in words(signed_in(desk.user).get(f"/activity/{told.id}"))
    named = f"{bot.id} of the desk of {desk.user.email} "
    assert said.format(named) in words(a_client().get(row_url(told)))


def test_a_batch_takes_as_many_statements_however_many_silent_bots_it_tells_of(desk, clock):
    """They are executed in the transaction that holds the bookmark."""
    taken = []
    for count in (1, 5):
        for _ in range(count):
            expect(a_bot(desk), OFTEN)
        write()
        clock.shift(2 * HOUR)
        watch(timezone.now())
        QueuedNotice.objects.all().delete()
        with CaptureQueriesContext(connection) as queries:
            triggers.follow(timezone.now())
        assert waiting() == ["Chart is silent"] * count
        taken.append(len(queries))
    assert taken[0] == taken[1]


def test_a_notice_of_a_bot_that_was_removed_meanwhile_leads_to_the_event(bot, desk, clock):
    expect(bot, OFTEN)
    clock.shift(2 * HOUR)
    watch(timezone.now())
    sent(bot)
    watch(timezone.now())
    tokens.remove_automation(automation=bot.automation, actor=SYSTEM)
    write()
    assert waiting() == ["Chart is silent", "Chart sends again"]
    for notice in QueuedNotice.objects.all():
        path = notice.body.split()[-1].removeprefix("http://testserver")
        assert signed_in(desk.user).get(path).status_code == 200


class TestRefusals:
    def test_the_first_is_told_at_once_and_then_their_number_after_an_hour(self, bot, clock):
        sent(bot, pair="NOT/IT")
        write()
        assert waiting() == ["A signal of Chart was refused"]
        assert "sent the pair NOT/IT" in QueuedNotice.objects.get().body
        for _ in range(3):
            clock.shift(10 * MINUTE)
            sent(bot, pair="NOT/IT")
            sent(bot)
            write()
        assert len(waiting()) == 1
        clock.shift(30 * MINUTE)
        write()
        assert waiting()[1:] == ["3 more refusals of Chart"]
        clock.shift(2 * HOUR)
        write()
        assert len(waiting()) == 2

    def test_after_a_quiet_hour_the_next_is_told_at_once_again(self, bot, clock):
        sent(bot, pair="NOT/IT")
        write()
        sent(bot)
        clock.shift(HOUR)
        sent(bot, pair="NOT/IT")
        write()
        assert waiting() == ["A signal of Chart was refused"] * 2

    @pytest.mark.django_db(transaction=True)
    @pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite takes one process")
    def test_their_number_is_not_told_while_another_process_counts(self, bot, clock):
        for _ in range(3):
            sent(bot, pair="NOT/IT")
        write()
        clock.shift(2 * HOUR)
        with elsewhere(triggers.bookmarked(triggers.LOG)):
            triggers.summarise_refusals(timezone.now())
            assert len(waiting()) == 1
        triggers.summarise_refusals(timezone.now())
        assert waiting()[1:] == ["2 more refusals of Chart"]

    def test_the_number_of_a_removed_bot_is_not_told(self, bot, desk, clock):
        other = a_bot(desk)
        for each in (bot, other):
            for _ in range(3):
                sent(each, pair="NOT/IT")
        write()
        tokens.remove_automation(automation=bot.automation, actor=SYSTEM)
        clock.shift(2 * HOUR)
        write()
        assert waiting()[2:] == ["2 more refusals of Chart"]
        assert f"/bots/{other.id}" in QueuedNotice.objects.last().body
        assert not RefusalTold.objects.exclude(due_at=None).exists()

    def test_each_bot_is_told_by_itself(self, bot, desk, clock):
        sent(bot, pair="NOT/IT")
        sent(a_bot(desk), pair="NOT/IT")
        write()
        assert len(waiting()) == 2


class TestLapses:
    def test_each_desk_of_a_retired_card_is_told_and_no_other(self, desk, stranger, clock):
        a_desk()
        desks.withdraw(desk=stranger, actor=SYSTEM)
        a_card("Evening")
        write()
        notice = QueuedNotice.objects.get()
        assert (notice.user, notice.subject) == (desk.user, "Morning was retired: enrol again")
        assert "Now Evening (BTC/USDT long) is published." in notice.body

    def test_who_can_enrol_in_nothing_is_not_asked_to(self, desk, clock):
        desks.retire_card(actor=SYSTEM)
        write()
        notice = QueuedNotice.objects.get()
        assert notice.subject == "Morning was retired"
        assert "No card is published now." in notice.body

    def test_who_enrolled_again_before_is_not_told(self, desk, clock):
        card = a_card("Evening")
        desks.enrol(desk=desk, card_id=card.pk, actor=SYSTEM)
        write()
        assert waiting() == []

    def test_many_desks_are_told_a_few_at_a_time_while_few_notices_wait(
        self, card, clock, monkeypatch
    ):
        monkeypatch.setattr(triggers, "DESKS_AT_ONCE", 2)
        monkeypatch.setattr(triggers, "MAX_WAITING", 3)
        for _ in range(6):
            a_ready_desk(card)
        desks.retire_card(actor=SYSTEM)
        write()
        assert len(waiting()) == 4
        QueuedNotice.objects.all().delete()
        write()
        assert len(waiting()) == 3  # of seven desks
        QueuedNotice.objects.all().delete()
        write()
        assert (waiting(), Bookmark.objects.filter(name__startswith="lapsed").count()) == ([], 0)

    @pytest.mark.parametrize(
        ("attempts", "due_in", "told"),
        [(0, timedelta(0), 0), (1, LEASE, 0), (2, timedelta(0), 1), (2, HOUR, 1), (0, 6 * DAY, 1)],
        ids=["untried", "taken", "refused", "refused again", "later"],
    )
    def test_they_wait_for_mails_that_are_due_and_untried_and_for_no_others(
        self, desk, clock, monkeypatch, attempts, due_in, told
    ):
        monkeypatch.setattr(triggers, "MAX_WAITING", 1)
        write_security(desk.user_id, "First", "", at=timezone.now() + due_in)
        QueuedNotice.objects.update(attempts=attempts)
        desks.retire_card(actor=SYSTEM)
        write()
        assert len(waiting(NoticeKind.CONSENT)) == told


class TestEndings:
    def test_a_secret_with_a_long_overlap_is_told_a_day_before_its_end(self, bot, clock):
        def replace(overlap):
            tokens.generate_secret(
                source=Source.TRADINGVIEW, automation=bot.automation, overlap=overlap, actor=SYSTEM
            )

        replace(DAY)
        write()
        assert waiting(NoticeKind.ENDINGS) == []
        replace(7 * DAY)
        write()
        notice = QueuedNotice.objects.get(kind=NoticeKind.ENDINGS)
        assert notice.due_at == timezone.now().replace(microsecond=notice.due_at.microsecond) + (
            6 * DAY
        )

    @pytest.mark.parametrize("at_once", [False, True], ids=["later", "in the same look"])
    @pytest.mark.parametrize("end", ["ended", "replaced", "bot removed"])
    def test_a_secret_that_ended_before_its_overlap_is_told_no_more(self, bot, clock, end, at_once):
        old = tokens.generate_secret(**self.secret_of(bot))[1]
        tokens.generate_secret(**self.secret_of(bot), overlap=7 * DAY)
        if not at_once:
            write()
            assert len(waiting(NoticeKind.ENDINGS)) == 1
        if end == "ended":
            tokens.end_secret(secret=SigningSecret.objects.get(pk=old.pk), actor=SYSTEM)
        elif end == "replaced":
            tokens.generate_secret(**self.secret_of(bot))
        else:
            tokens.remove_automation(automation=bot.automation, actor=SYSTEM)
        write()
        assert waiting(NoticeKind.ENDINGS) == []

    def secret_of(self, bot):
        return {"source": Source.TRADINGVIEW, "automation": bot.automation, "actor": SYSTEM}

    def test_a_webhook_that_the_service_disabled_is_told(self, desk, clock):
        webhook_actions.disable(webhook=an_active_webhook(desk), reason=DisabledReason.GONE)
        write()
        assert waiting(NoticeKind.ENDINGS) == ["Your webhook to hooks.example.com is disabled"]


def test_a_process_that_another_one_overtook_tells_nothing_again(bot, desk, clock, monkeypatch):
    sent(bot, pair="NOT/IT")
    load_routes = texts.load_routes

    def overtake():
        """What another process does between this one's look at the log and its turn."""
        monkeypatch.setattr(triggers, "load_routes", load_routes)
        webhook_actions.disable(webhook=an_active_webhook(desk), reason=DisabledReason.GONE)
        triggers.follow(timezone.now())
        load_routes()

    monkeypatch.setattr(triggers, "load_routes", overtake)
    triggers.follow(timezone.now())
    write()
    assert waiting(NoticeKind.ENDINGS) == ["Your webhook to hooks.example.com is disabled"]


def test_a_kind_that_was_turned_off_is_not_told(bot, desk, clock):
    NoticeChoice.objects.create(user=desk.user, off=["silence"])
    expect(bot, OFTEN)
    clock.shift(2 * HOUR)
    look()
    sent(bot, pair="NOT/IT")
    write()
    assert waiting() == ["A signal of Chart was refused"]


def test_what_was_missed_for_an_hour_is_told_late_and_once(bot, clock):
    sent(bot, pair="NOT/IT")
    clock.shift(23 * HOUR)
    write()
    write()
    assert waiting() == ["A signal of Chart was refused"]


def test_what_is_older_than_a_day_is_told_in_one_notice(bot, desk, clock):
    desk.user.time_zone = "Asia/Kolkata"
    desk.user.save()
    for _ in range(3):
        sent(bot, pair="NOT/IT")
        clock.shift(2 * HOUR)
    clock.shift(2 * DAY)
    write()
    assert waiting() == ["Late notices"]
    body = QueuedNotice.objects.get().body
    assert len(re.findall(r"- A signal of Chart was refused \(.* IST\)", body)) == 3


def test_many_that_are_older_than_a_day_are_told_in_lists_of_twenty(bot, desk, clock):
    a_chat(desk.user)
    for _ in range(30):
        sent(bot, pair="NOT/IT")
        clock.shift(2 * HOUR)
    clock.shift(2 * DAY)
    write()
    told = [
        f"- A signal of Chart was refused ({texts.shown(refused.at, desk.user)})"
        for refused in Event.objects.filter(kind="signal.refused")
    ]
    for channel in (MAIL, "discord"):
        notices = QueuedNotice.objects.filter(channel=channel).order_by("due_at", "pk")
        lists = [re.findall("^- .*", notice.body, re.MULTILINE) for notice in notices]
        assert lists == [told[:20], told[20:]]
        assert {notice.body.split()[-1] for notice in notices} == {"http://testserver/activity"}


def test_a_retired_card_and_a_number_of_refusals_are_told_by_themselves_however_late(
    bot, desk, clock
):
    for _ in range(2):
        sent(bot, pair="NOT/IT")
    write()
    QueuedNotice.objects.all().delete()
    desks.retire_card(actor=SYSTEM)
    clock.shift(2 * DAY)
    write()
    assert sorted(waiting()) == ["Another refusal of Chart", "Morning was retired"]


@pytest.mark.parametrize("taken", [MAIL, "discord"])
def test_a_late_notice_that_is_being_sent_gets_no_more_lines(bot, desk, clock, taken):
    a_chat(desk.user)
    for _ in range(2):
        sent(bot, pair="NOT/IT")
        clock.shift(2 * DAY)
        write()
        clock.shift(2 * MINUTE)
        assert take(taken, timezone.now())
    assert waiting() == ["Late notices"] * 2
    lines = [body.count("\n- ") for body in QueuedNotice.objects.values_list("body", flat=True)]
    assert lines == [1] * 4


def test_a_log_of_another_epoch_tells_nothing_old(bot, clock):
    sent(bot, pair="NOT/IT")
    Head.objects.update(epoch="ffffffff")
    write()
    assert waiting() == []
    clock.shift(2 * HOUR)
    sent(bot, pair="NOT/IT")
    write()
    assert waiting() == ["A signal of Chart was refused"]


def test_a_page_of_many_events_is_followed_by_the_next(bot, clock, monkeypatch):
    monkeypatch.setattr(triggers, "PER_PAGE", 2)
    bots = [a_bot(bot.automation.desk) for _ in range(5)]
    write()
    for one in bots:
        sent(one, pair="NOT/IT")
    write()
    assert len(waiting()) == 5


def decide_all(number: int) -> None:
    """What each process of the service does."""
    for _ in range(10):
        watch(timezone.now())
        for trigger in triggers.TRIGGERS:
            trigger(timezone.now())


@pytest.mark.django_db(transaction=True)
@pytest.mark.processes
def test_several_processes_tell_each_alarm_once():
    desk = a_ready_desk(a_card())
    bots = [a_bot(desk) for _ in range(20)]
    write()
    move_the_log_back(days=1)
    with time_machine.travel(timezone.now() - 5 * HOUR):
        for bot in bots:
            expect(bot, OFTEN)
    run_together(decide_all, [(number,) for number in range(4)])
    write()
    quiet = Event.objects.filter(kind="automation.quiet")
    assert sorted(quiet.values_list("bot_id", flat=True)) == sorted(bot.id for bot in bots)
    assert waiting() == ["Chart is silent"] * 20
