"""The activity of a bot: its last day by the hour, its last signal, and the chart."""

from datetime import timedelta

import pytest
import time_machine
from django.utils import timezone

from events.models import Head
from signals.reports import activity
from signals.reports.charts import HEIGHT, MIN_LENGTH, chart
from tests.client import push, signed_in
from tests.factories import a_bot, a_platform_token
from tests.pages import source, words
from tests.signals.bodies import fanout, tradingview

HOUR = timedelta(hours=1)


def of(desk, bot, now=None):
    return activity.bot_activities(desk, {bot.id: "Chart"}, now or timezone.now())[bot.id]


def counts(found):
    return found.day.accepted, found.day.refused


class TestBotActivity:
    pytestmark = pytest.mark.django_db

    def test_a_bot_without_signals_has_no_last_signal(self, desk, bot):
        found = of(desk, bot)
        assert (found.last, counts(found), found.is_complete) == (None, (0, 0), True)

    def test_it_counts_accepted_and_refused_signals(self, desk, bot):
        push(tradingview(bot), secret=bot.secret)
        push(tradingview(bot, pair="SOL/USDT"), secret=bot.secret)
        push(tradingview(bot, pair="SOL/USDT"), secret=bot.secret)
        found = of(desk, bot)
        assert counts(found) == (1, 2)
        assert found.last.data["code"] == "pair_mismatch"

    def test_signals_of_other_bots_and_of_the_engine_do_not_count(self, desk, bot, stranger):
        own, other = a_bot(desk), a_bot(stranger)
        push(tradingview(own), secret=own.secret)
        push(tradingview(other), secret=other.secret)
        push(fanout(), a_platform_token())
        assert counts(of(desk, bot)) == (0, 0)

    def test_a_day_has_24_bars(self, desk, bot):
        now = timezone.now()
        Head.objects.update(at=now - timedelta(days=2))  # the log's time never runs back
        for hours in (30, 23, 1, 0):
            with time_machine.travel(now - timedelta(hours=hours, minutes=30), tick=False):
                push(tradingview(bot), secret=bot.secret)
        found = of(desk, bot, now)
        assert [bool(bar.up) for bar in found.day.bars] == [True, *[False] * 21, True, True]
        assert len(found.latest) == 4

    def test_it_says_if_the_counts_do_not_cover_the_whole_day(self, desk, bot, monkeypatch):
        monkeypatch.setattr(activity, "SCAN_LIMIT", 2)
        for _ in range(3):
            push(tradingview(bot), secret=bot.secret)
        found = of(desk, bot)
        assert (counts(found), found.is_complete) == ((2, 0), False)
        page = signed_in(desk.user).get("/bots")
        assert "2 accepted, 0 refused in the last day (latest events only)" in words(page)

    def test_the_page_of_fifty_bots_takes_as_many_queries_as_that_of_one(
        self, desk, bot, django_assert_num_queries, django_assert_max_num_queries
    ):
        browser = signed_in(desk.user)
        with django_assert_max_num_queries(12) as one:
            browser.get("/bots")
        for _ in range(49):
            a_bot(desk)
        with django_assert_num_queries(len(one)):
            page = browser.get("/bots")
        assert source(page).count('class="pulse"') == 50


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
        assert [bar.top for bar in bars] == [0, HEIGHT // 2, HEIGHT]

    def test_a_count_of_one_is_visible(self):
        assert chart([(10_000, 1)], HOUR).bars[0].down == MIN_LENGTH

    def test_a_chart_without_counts_is_a_line(self):
        empty = chart([(0, 0)] * 24, HOUR)
        assert (empty.accepted, empty.refused, {bar.up for bar in empty.bars}) == (0, 0, {0})
