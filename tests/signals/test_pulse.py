"""How a bot is doing: its last day hour by hour, what was last heard of it, and the bars of it."""

from datetime import timedelta

import pytest
import time_machine
from django.utils import timezone

from signals import pulse
from signals.charts import HEIGHT, LEAST, chart
from tests.client import push, signed_in
from tests.factories import a_bot, a_platform_token
from tests.pages import source, words
from tests.signals.bodies import fanout, tradingview


@pytest.fixture
def bot(desk):
    return a_bot(desk)


def of(desk, bot, now=None):
    return pulse.pulses(desk, {bot.id: "Chart"}, now or timezone.now())[bot.id]


def counts(found):
    return found.day.accepted, found.day.refused


class TestAPulse:
    pytestmark = pytest.mark.django_db

    def test_a_silent_bot_was_not_heard(self, desk, bot):
        found = of(desk, bot)
        assert (found.last, counts(found), found.whole) == (None, (0, 0), True)

    def test_it_counts_what_was_accepted_and_what_was_refused(self, desk, bot):
        push(tradingview(bot), secret=bot.secret)
        push(tradingview(bot, pair="SOL/USDT"), secret=bot.secret)
        push(tradingview(bot, pair="SOL/USDT"), secret=bot.secret)
        found = of(desk, bot)
        assert counts(found) == (1, 2)
        assert found.last.data["code"] == "pair_mismatch"

    def test_another_bots_and_the_engines_do_not_count(self, desk, bot, stranger):
        own, other = a_bot(desk), a_bot(stranger)
        push(tradingview(own), secret=own.secret)
        push(tradingview(other), secret=other.secret)
        push(fanout(), a_platform_token())
        assert counts(of(desk, bot)) == (0, 0)

    def test_each_hour_has_its_bar_and_a_day_is_24_of_them(self, desk, bot):
        now = timezone.now()
        for hours in (30, 23, 1, 0):
            with time_machine.travel(now - timedelta(hours=hours, minutes=30), tick=False):
                push(tradingview(bot), secret=bot.secret)
        found = of(desk, bot, now)
        assert [bool(bar.up) for bar in found.day.bars] == [True, *[False] * 21, True, True]
        assert len(found.latest) == 4

    def test_where_the_latest_do_not_reach_back_a_day_it_says_so(self, desk, bot, monkeypatch):
        monkeypatch.setattr(pulse, "LOOKED_THROUGH", 2)
        for _ in range(3):
            push(tradingview(bot), secret=bot.secret)
        found = of(desk, bot)
        assert (counts(found), found.whole) == ((2, 0), False)
        page = signed_in(desk.user).get("/bots")
        assert "2 accepted, 0 refused in the last day, of the desk's latest" in words(page)

    def test_the_page_of_fifty_bots_asks_no_more_than_that_of_one(
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


class TestAChart:
    def test_the_highest_count_fills_the_height_and_none_has_no_bar(self):
        bars = chart([(4, 0), (2, 4), (0, 0)]).bars
        assert [(bar.up, bar.down) for bar in bars] == [(HEIGHT, 0), (HEIGHT // 2, HEIGHT), (0, 0)]
        assert [bar.top for bar in bars] == [0, HEIGHT // 2, HEIGHT]

    def test_one_of_many_is_still_seen(self):
        assert chart([(10_000, 1)]).bars[0].down == LEAST

    def test_nothing_at_all_is_a_line(self):
        empty = chart([(0, 0)] * 24)
        assert (empty.accepted, empty.refused, {bar.up for bar in empty.bars}) == (0, 0, {0})
