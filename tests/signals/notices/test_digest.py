"""The daily digest: for who asks for it, once a day, of everything since the last one."""

from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.db import connection  # noqa: F401 - a condition names it
from django.test import Client
from django.utils import timezone

from desks import actions as desks
from desks.expectation_rules import Expectation
from desks.expectations.watch import Watch
from desks.models import Card, Digest, Notice, User
from desks.models.notice_kinds import NoticeKind
from desks.notices import outbox
from desks.notices.digests import choose_hour, next_due
from events.actors import SYSTEM
from signals.notices.digest import reading
from signals.notices.digest.writing import write_digests
from signals.webhooks import outcomes
from signals.webhooks.models import Reason
from tests.client import push, signed_in
from tests.factories import a_bot, a_card, a_platform_token, a_ready_desk, a_staff_user, expect
from tests.notices import send, waiting, write
from tests.pages import words
from tests.processes import run_together
from tests.signals.bodies import fanout, tradingview
from tests.signals.webhooks.stage import an_active_webhook
from tests.staff import a_client, verified
from tokens import actions as tokens
from tokens.closing import close_account

pytestmark = pytest.mark.django_db

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
EVENING = datetime(2026, 11, 20, 18, 30, tzinfo=UTC)  # a Friday; it is 19:30 in Berlin


@pytest.fixture
def clock():
    with time_machine.travel(EVENING, tick=False) as clock:
        yield clock


@pytest.fixture
def desk(clock, db):
    """A ready desk in Berlin whose owner chose eight o'clock."""
    desk = a_ready_desk(a_card())
    user = verified(desk.user)
    user.time_zone = "Europe/Berlin"
    user.save()
    choose_hour(user, 8, timezone.now())
    return desk


@pytest.fixture
def bot(desk):
    return a_bot(desk)


def signal(bot, **changes):
    push(tradingview(bot, **changes), secret=bot.secret)


def digests() -> list[str]:
    """The texts of the digests that are written now."""
    while write_digests(timezone.now()):
        pass
    return list(Notice.objects.filter(kind=NoticeKind.DIGEST).values_list("body", flat=True))


def morning(clock, days: int = 1) -> list[str]:
    """The digest of so many mornings later, after which nothing waits."""
    clock.move_to(EVENING.replace(hour=7, minute=0) + days * DAY)
    found = digests()
    Notice.objects.all().delete()
    return found


class TestHours:
    @pytest.mark.parametrize(
        ("after", "zone", "due"),
        [
            ("2026-11-20T06:59:59", "Europe/Berlin", "2026-11-20T07:00"),
            ("2026-11-20T07:00:00", "Europe/Berlin", "2026-11-21T07:00"),
            ("2026-11-20T23:30:00", "Asia/Tokyo", "2026-11-21T23:00"),
            ("2026-11-20T08:00:00", "UTC", "2026-11-21T08:00"),
            ("2026-03-28T12:00:00", "Europe/Berlin", "2026-03-29T06:00"),  # the clocks go forward
        ],
    )
    def test_the_next_one_is_at_the_hour_of_the_owners_zone(self, after, zone, due):
        start = datetime.fromisoformat(after).replace(tzinfo=UTC)
        assert next_due(start, 8, zone) == datetime.fromisoformat(due).replace(tzinfo=UTC)

    def test_an_hour_that_is_skipped_or_shown_twice_counts_once_a_day(self):
        for day in (datetime(2026, 3, 28, 12, tzinfo=UTC), datetime(2026, 10, 24, 12, tzinfo=UTC)):
            first = next_due(day, 2, "Europe/Berlin")
            second = next_due(first, 2, "Europe/Berlin")
            assert first - day < DAY
            assert second.date() - first.date() == DAY

    def test_another_zone_moves_the_next_one(self, desk, owner):
        owner.post("/accounts/preferences/", {"time_zone": "Asia/Tokyo", "theme": "system"})
        assert Digest.objects.get().due_at == datetime(2026, 11, 20, 23, tzinfo=UTC)


def choose_for_all(users):
    """What several processes do at once, as for a form that is sent twice."""
    for user in User.objects.filter(pk__in=users).order_by("pk"):
        choose_hour(user, 8, timezone.now())


@pytest.mark.django_db(transaction=True)
@pytest.mark.processes
@pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite has one writer")
def test_a_form_that_is_sent_twice_at_once_chooses_once():
    users = [a_staff_user(f"{number}@example.com").pk for number in range(30)]
    run_together(choose_for_all, [(users,)] * 4)
    assert Digest.objects.count() == len(users)


class TestChoosing:
    def test_nobody_gets_one_without_asking(self, stranger, clock):
        browser = signed_in(stranger.user)
        assert browser.get("/notices").context["digest_form"]["hour"].value() == ""
        push(fanout(), a_platform_token())
        assert morning(clock, 2) == []

    def test_the_hour_is_chosen_on_the_page_of_notices(self, desk, owner):
        Digest.objects.all().delete()
        answer = owner.post("/notices/digest", {"hour": "7"}, follow=True)
        assert "Your digest is saved." in words(answer)
        assert answer.context["digest_form"]["hour"].value() == 7
        assert "your time zone, Europe/Berlin" in words(answer)
        assert Digest.objects.get().due_at == datetime(2026, 11, 21, 6, tzinfo=UTC)
        owner.post("/notices/digest", {"hour": ""})
        assert not Digest.objects.exists()

    @pytest.mark.parametrize("wrong", ["24", "-1", "x", "8.5"])
    def test_what_is_no_hour_is_refused(self, desk, owner, wrong):
        assert owner.post("/notices/digest", {"hour": wrong}).status_code == 422
        assert Digest.objects.get().hour == 8

    def test_staff_have_none(self, db):
        assert "digest" not in words(a_client(a_staff_user()).get("/notices")).lower()

    def test_the_link_of_a_mail_turns_it_off_without_a_session(self, bot, clock):
        signal(bot)
        clock.shift(DAY)
        write()
        (mail,) = send()
        link = mail.extra_headers["List-Unsubscribe"].strip("<>")
        page = Client().get(link.removeprefix("http://testserver"))
        assert "A digest each day of what happened on your desk." in words(page)
        assert Digest.objects.exists()
        Client(enforce_csrf_checks=True).post(link.removeprefix("http://testserver"))
        assert not Digest.objects.exists()


class TestContent:
    def test_it_tells_fills_refusals_bots_news_and_what_waits(self, bot, desk, clock):
        engine, idle = a_platform_token(), a_bot(desk).automation
        webhook = an_active_webhook(desk)
        push(fanout(), engine)
        signal(bot)
        for _ in range(2):
            signal(bot, pair="NOT/IT")
        signal(bot, elected="true")
        outcomes.disable(subscription=webhook, reason=Reason.GONE)
        [text] = morning(clock)
        lines = text.splitlines()
        assert lines[:2] == [
            "Since 20 November 2026, 19:30 CET, on paper: 2 filled, 3 refused.",
            "http://testserver/activity",
        ]
        happened, refused, attention, bots, webhooks = (
            lines.index(f"{title}:")
            for title in (
                "What happened",
                "Refused",
                "Needs your attention",
                "Bots",
                "Waiting at webhooks",
            )
        )
        assert happened < refused < attention < bots < webhooks
        assert lines[happened + 2].startswith("- The webhook to hooks.example.com is disabled (20")
        assert lines[refused + 2].endswith(
            "The bot Chart sent the pair NOT/IT; you elected ETH/USDT. Send exactly what you "
            "elected, or elect what the bot sends."
        )
        assert "(2)" in lines[refused + 2]
        assert lines[refused + 3].startswith("  http://testserver/activity/evt_")
        assert "is not marked as elected" in lines[refused + 4]
        assert lines[attention + 2] == (
            "- The webhook to hooks.example.com is disabled. Its events wait."
        )
        assert "- Chart (ETH/USDT short): 1 filled, 3 refused, accepts signals" in lines
        assert "- Chart (ETH/USDT short): 0 filled, 0 refused, accepts signals" in lines
        assert lines[webhooks + 2] == "- hooks.example.com, disabled: 7 events"
        assert lines[-1].endswith("http://testserver/notices")
        assert idle.pk not in text

    def test_what_a_link_leads_to_is_the_last_refusal_of_its_reason(self, bot, owner, clock):
        for pair in ("ONE/X", "TWO/X"):
            signal(bot, pair=pair)
        [text] = morning(clock)
        link = next(line for line in text.splitlines() if "evt_" in line).strip()
        assert "sent the pair TWO/X" in words(owner.get(link.removeprefix("http://testserver")))

    def test_a_silent_bot_and_a_retired_card_are_told(self, bot, clock):
        expect(bot, Expectation(HOUR, timedelta(0)))
        a_card("Evening")
        clock.shift(HOUR)
        Watch().look(timezone.now())
        [text] = morning(clock)
        assert "- Chart is silent (20 November 2026, 20:30 CET)" in text
        assert (
            "- Chart is silent: no signal was accepted since 20 November 2026, 19:30 CET." in text
        )
        assert "0 filled, 0 refused, silent since 20 November 2026, 19:30 CET" in text
        assert "- The card Morning was retired (20 November 2026, 19:30 CET)" in text
        assert "- Morning was replaced by Evening. Enrol again.\n  http://testserver/desk" in text

    def test_other_desks_are_not_told_of(self, desk, clock):
        other = a_bot(a_ready_desk(Card.objects.get()))
        signal(other)
        signal(other, pair="NOT/IT")
        assert morning(clock) == []

    def test_a_fill_of_the_card_counts_only_while_it_was_elected(self, desk, clock):
        engine = a_platform_token()
        push(fanout(), engine)
        desks.withdraw_from_card(desk=desk, actor=SYSTEM)
        push(fanout(), engine)
        [text] = morning(clock)
        assert "1 filled, 0 refused" in text

    def test_counting_stops_at_a_limit(self, bot, clock, monkeypatch):
        monkeypatch.setattr(reading, "MAX_COUNTED", 3)
        for _ in range(5):
            signal(bot)
        [text] = morning(clock)
        assert "3 or more filled" in text


class TestOnce:
    def test_it_comes_once_a_day_and_tells_what_is_new(self, bot, clock):
        signal(bot)
        assert len(morning(clock)) == 1
        clock.shift(HOUR)
        assert digests() == []
        signal(bot)
        signal(bot)
        [text] = morning(clock, 2)
        assert text.startswith("Since 21 November 2026, 08:00 CET, on paper: 2 filled, 0 refused.")

    def test_none_comes_if_nothing_happened(self, bot, clock):
        assert morning(clock) == []
        signal(bot)
        assert len(morning(clock, 2)) == 1

    def test_days_that_were_missed_come_as_one(self, bot, clock):
        for _ in range(3):
            signal(bot)
            clock.shift(DAY)
        [text] = digests()
        assert text.startswith("Since 20 November 2026, 19:30 CET, on paper: 3 filled, 0 refused.")
        assert Digest.objects.get().due_at == datetime(2026, 11, 24, 7, tzinfo=UTC)

    def test_while_one_was_not_sent_the_next_one_waits_and_tells_both_days(self, bot, clock):
        signal(bot)
        clock.shift(DAY)
        assert len(digests()) == 1
        signal(bot)
        clock.shift(DAY)
        assert len(digests()) == 1
        Notice.objects.all().delete()
        signal(bot)
        [text] = morning(clock, 3)
        assert "2 filled" in text

    def test_it_waits_while_many_notices_wait(self, bot, clock, monkeypatch):
        monkeypatch.setattr(outbox, "MAX_WAITING", 0)
        signal(bot)
        clock.shift(DAY)
        assert digests() == []
        monkeypatch.undo()
        assert len(digests()) == 1

    def test_who_is_deactivated_gets_none_and_who_closes_leaves_no_row(self, bot, desk, clock):
        signal(bot)
        tokens.deactivate(user=desk.user, actor=SYSTEM)
        assert morning(clock) == []
        tokens.reactivate(user=desk.user, actor=SYSTEM)
        close_account(desk)
        assert not Digest.objects.exists()

    def test_another_hour_keeps_what_was_not_told(self, bot, owner, clock):
        signal(bot)
        owner.post("/notices/digest", {"hour": "20"})
        clock.shift(HOUR)
        [text] = digests()
        assert "1 filled" in text


def write_all(number: int) -> None:
    """What each process of the service does."""
    while write_digests(timezone.now()):
        pass


@pytest.mark.django_db(transaction=True)
@pytest.mark.processes
@pytest.mark.alone
def test_several_processes_write_each_once():
    card = a_card()
    bots = [a_bot(a_ready_desk(card)) for _ in range(12)]
    for bot in bots:
        choose_hour(bot.automation.desk.user, 8, timezone.now())
        signal(bot)
    Digest.objects.update(due_at=timezone.now())
    run_together(write_all, [(number,) for number in range(4)])
    assert len(waiting()) == 12
    assert set(Notice.objects.values_list("user", flat=True)) == {
        bot.automation.desk.user_id for bot in bots
    }
