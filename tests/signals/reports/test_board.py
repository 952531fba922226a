"""How each bot is doing: its last days, its latest signals, and when its next one is due."""

from datetime import timedelta

import pytest
import time_machine
from django.utils import timezone

from desks.expectations import watch
from events.models import Event, Head
from signals.reports import counts
from signals.reports.activity import board
from signals.reports.attention import bots_at_a_glance
from signals.reports.charts import HEIGHT, MIN_LENGTH, chart
from tests.client import push, signed_in
from tests.factories import a_bot, a_platform_token, expect, expecting, move_the_log_back
from tests.pages import source, words
from tests.signals.bodies import fanout, send

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def of(desk, bot, now=None):
    """The bot's row on the board."""
    now = now or timezone.now()
    return next(
        row for row in board(desk, list(bots_at_a_glance(desk, now)), now) if row.bot.pk == bot.id
    )


def total(row):
    return str(row.tally.month.total.filled), str(row.tally.month.total.refused)


class TestBoard:
    pytestmark = pytest.mark.django_db

    def test_a_bot_without_signals_was_never_heard(self, desk, bot):
        row = of(desk, bot)
        assert (row.heard_at, row.last_code, total(row), row.due_at) == (
            None,
            None,
            ("0", "0"),
            None,
        )

    def test_it_counts_fills_and_refusals_and_tells_the_latest(self, desk, bot):
        send(bot)
        send(bot, pair="SOL/USDT")
        send(bot, pair="SOL/USDT")
        row = of(desk, bot)
        assert (total(row), row.last_code) == (("1", "2"), "pair_mismatch")
        assert row.heard_at == Event.objects.latest("position").at

    def test_signals_of_other_bots_and_of_the_engine_do_not_count(self, desk, bot, stranger):
        send(a_bot(desk))
        send(a_bot(stranger))
        push(fanout(), a_platform_token())
        assert total(of(desk, bot)) == ("0", "0")

    def test_each_day_is_a_day_in_the_zone_of_the_owner(self, desk, bot):
        move_the_log_back(days=60)
        midnight = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)
        for at in (midnight - 31 * DAY, midnight - HOUR, midnight + HOUR):
            with time_machine.travel(at, tick=False):
                send(bot)
        now = midnight + 2 * HOUR

        def filled():
            days = of(desk, bot, now).tally.month.days
            return {day: tally.filled.number for day, tally in days if tally.filled.number}

        today = midnight.date()
        assert filled() == {today: 1, today - DAY: 1}
        with timezone.override("Asia/Tokyo"):
            assert filled() == {today: 2}

    def test_the_latest_events_are_counted_up_to_a_limit(self, desk, bot, monkeypatch):
        monkeypatch.setattr(counts, "MAX_OF_BOT_MONTH", 3)
        move_the_log_back(days=60)
        noon = timezone.now().replace(hour=12)
        with time_machine.travel(noon - DAY):
            send(bot, pair="SOL/USDT")
            send(bot)
            assert total(of(desk, bot)) == ("1", "1")
        with time_machine.travel(noon):
            send(bot)
            send(bot)
            row = of(desk, bot)
        assert total(row) == ("3+", "0+")
        days = [(str(tally.filled), str(tally.refused)) for _, tally in row.tally.month.days[-3:]]
        assert days == [("0+", "0+"), ("1+", "0+"), ("2", "0")]

    @pytest.mark.parametrize("rhythm", [4 * HOUR, None])
    def test_the_next_signal_is_due_after_the_latest_fill_and_not_after_a_refusal(
        self, desk, bot, rhythm
    ):
        expectation = expecting(rhythm, HOUR)
        expect(bot, expectation)
        expected_since = Event.objects.latest("position").at
        assert of(desk, bot).due_at == expectation.deadline(expected_since, "UTC")
        with time_machine.travel(timezone.now() + 3 * DAY):
            send(bot)
            filled_at = Event.objects.latest("position").at
            send(bot, pair="SOL/USDT")
            assert of(desk, bot).due_at == expectation.deadline(filled_at, "UTC")

    def test_the_page_marks_a_silent_bot_and_one_that_is_refused(self, desk, bot):
        owner, other = signed_in(desk.user), a_bot(desk)
        expect(bot, expecting(HOUR, timedelta(0)))
        assert "Next due in 59 minutes" in words(owner.get("/bots"))
        with time_machine.travel(timezone.now() + 2 * HOUR):
            watch(timezone.now())
            for _ in range(counts.IN_A_ROW):
                send(other, pair="SOL/USDT")
            page = owner.get("/bots")
        silent = "silent for 2 hours 0 filled, 0 refused Last heard never Next due overdue"
        assert silent in words(page)
        assert "refused five times in a row 0 filled, 5 refused Last heard just now" in words(page)
        assert source(page).count("pill-failing") == 2
        assert "accepts signals" not in words(page)

    def test_the_page_of_fifty_bots_takes_as_many_queries_as_that_of_one_and_stays_light(
        self, desk, bot, django_assert_num_queries, django_assert_max_num_queries
    ):
        browser = signed_in(desk.user)
        Head.objects.update(at=timezone.now() - 31 * DAY)  # the log's time never runs back
        for ago in range(30, -1, -1):
            with time_machine.travel(timezone.now() - ago * DAY):
                send(bot)
                send(bot, pair="SOL/USDT")
        with django_assert_max_num_queries(12) as one:
            browser.get("/bots")
        for _ in range(49):
            a_bot(desk)
        with django_assert_num_queries(len(one)):
            page = browser.get("/bots")
        assert source(page).count('class="pulse"') == 50
        assert len(page.content) < 150_000


class TestChart:
    def test_the_axes_have_round_counts_and_distances_from_now(self):
        hour, day = chart([(3, 0)] * 12, HOUR / 12), chart([(21, 130)] * 24, HOUR)
        assert (hour.top, hour.ticks) == (4, ["60 minutes ago", "45", "30", "15", "now"])
        assert (day.top, day.ticks) == (200, ["24 hours ago", "18", "12", "6", "now"])
        assert (hour.bars[0].label, hour.bars[-1].label) == (
            "60 to 55 minutes ago",
            "5 to 0 minutes ago",
        )
        assert (day.bars[0].label, day.bars[-1].label) == ("24 to 23 hours ago", "1 to 0 hours ago")

    def test_the_highest_count_has_full_height_and_zero_has_no_bar(self):
        bars = chart([(4, 0), (2, 4), (0, 0)], HOUR).bars
        assert [(bar.up, bar.down) for bar in bars] == [(HEIGHT, 0), (HEIGHT // 2, HEIGHT), (0, 0)]

    def test_a_count_of_one_is_visible(self):
        assert chart([(10_000, 1)], HOUR).bars[0].down == MIN_LENGTH

    def test_a_chart_without_counts_is_a_line(self):
        empty = chart([(0, 0)] * 24, HOUR)
        assert (empty.accepted, empty.refused, {bar.up for bar in empty.bars}) == (0, 0, {0})

    def test_the_outline_of_the_bars_has_a_part_for_each_that_is_not_empty(self):
        found = chart([(2, 0), (0, 0), (0, 2)], HOUR)
        assert (found.up, found.down) == ("M0 18v-18h4v18z", "M12 18v18h4v-18z")
