"""The desk at a glance: what needs attention, today by bot, and the last days."""

import re
from datetime import timedelta

import pytest
import time_machine
from django.utils import timezone

from desks import actions as desks
from events.actors import SYSTEM
from events.kinds import SUPPRESSED
from events.models import Event, Head
from signals.reports import counts
from signals.reports.counts import DAYS
from tests.client import push, signed_in
from tests.factories import (
    a_bot,
    a_card,
    a_connected_desk,
    a_desk_token,
    a_platform_token,
    move_the_log_back,
)
from tests.pages import source, words
from tests.signals.bodies import fanout, floor, send
from tokens import actions as tokens
from tokens.choices import Source
from tokens.models import SigningSecret, Token

pytestmark = [pytest.mark.django_db, pytest.mark.once]


def attention(browser):
    """What the page says needs attention."""
    page = words(browser.get("/desk"))
    if "Needs your attention" not in page:
        return ""
    return page.partition("Needs your attention ")[2].partition(" Connection Venue")[0]


def days(browser):
    """The table of days: fills and refusals as shown, by date, the newest first."""
    table = source(browser.get("/desk")).partition("Counts of each day")[2]
    found = re.findall(
        r'<time datetime="([\d-]+)".*?class="count">([\d+]+)<.*?class="count">([\d+]+)<',
        table,
        re.S,
    )
    return {day: (filled, refused) for day, filled, refused in found}


def today_of(browser, name):
    """The row of a bot: its state, fills and refusals of today."""
    row = source(browser.get("/desk")).partition(f">{name}</a>")[2].partition("</tr>")[0]
    state = re.search(r'class="state[^"]*">([^<]+)<', row).group(1)
    return state, *re.findall(r'class="count">([\d+]+)<', row)


class TestAttention:
    def test_a_desk_that_is_well_needs_none(self, owner, bot):
        a_desk_token(bot.automation.desk)
        send(bot)
        assert attention(owner) == ""

    def test_a_consent_that_lapsed_offers_to_enrol_again(self, owner, desk):
        new = a_card("Evening range", "SOL/USDT", "short")
        page = owner.get("/desk")
        assert "Morning was replaced by Evening range. Enrol again. SOL/USDT short" in words(page)
        assert source(page).count(f'name="card" value="{new.pk}"') == 1
        assert source(page).count('class="button"') == 1
        owner.post("/desk/enrol", {"card": new.pk})
        assert attention(owner) == ""
        assert "ready" in words(owner.get("/desk"))

    def test_a_card_that_was_retired_without_a_successor_asks_for_nothing(self, owner, desk):
        desks.retire_card(actor=SYSTEM)
        assert attention(owner).startswith("Morning was retired, and your consent ended with it.")
        assert 'name="card"' not in source(owner.get("/desk"))

    def test_a_consent_that_was_withdrawn_did_not_lapse(self, owner, desk):
        desks.withdraw(desk=desk, actor=SYSTEM)
        a_card("Evening range", "SOL/USDT", "short")
        assert attention(owner) == ""

    @pytest.mark.parametrize(("in_days", "is_told"), [(6, True), (8, False)])
    def test_a_token_that_ends_soon(self, owner, desk, in_days, is_told):
        a_desk_token(desk)
        Token.objects.update(expires_at=timezone.now() + timedelta(days=in_days))
        assert ("Your desk token ends in" in attention(owner)) is is_told

    @pytest.mark.parametrize(("in_days", "is_told"), [(6, True), (8, False)])
    def test_a_secret_that_ends_soon(self, owner, bot, in_days, is_told):
        at = timezone.now() + timedelta(days=in_days)
        SigningSecret.objects.filter(automation=bot.id).update(ends_at=at)
        assert ("A signing secret of Chart ends in" in attention(owner)) is is_told

    def test_a_secret_that_has_ended_is_no_news(self, owner, bot):
        tokens.end_secret(secret=SigningSecret.objects.get(automation=bot.id), actor=SYSTEM)
        assert "signing secret of Chart ends" not in attention(owner)
        assert today_of(owner, "Chart")[0] == "no secret"

    def test_a_bot_that_was_refused_five_times_in_a_row(self, owner, bot):
        send(bot)
        for _ in range(4):
            send(bot, pair="SOL/USDT")
        assert attention(owner) == ""
        last = send(bot, direction="long")
        assert last.status_code == 422
        told = attention(owner)
        assert "Chart was refused five times in a row: Direction differs from the election." in told
        assert f'href="/activity/evt_{Head.objects.get().position}">See the last refusal' in source(
            owner.get("/desk")
        )
        send(bot)
        assert attention(owner) == ""

    def test_a_bot_of_which_refusals_were_left_out_was_refused_for_a_reason(
        self, owner, bot, settings
    ):
        settings.LIMITS = {**settings.LIMITS, "refusals": "4/minute"}
        for _ in range(6):
            send(bot, pair="SOL/USDT")
        last = Head.objects.get().position
        assert Event.objects.get(position=last).code == SUPPRESSED
        assert "five times in a row: Pair differs from the election." in attention(owner)
        assert f'href="/activity/evt_{last - 1}">See the last refusal' in source(owner.get("/desk"))

    def test_the_refusals_of_two_bots_are_not_counted_together(self, owner, desk, bot):
        other = a_bot(desk)
        for one in (bot, bot, bot, other, other):
            send(one, pair="SOL/USDT")
        assert attention(owner) == ""

    def test_what_happens_to_another_desk_is_neither_told_nor_counted(self, owner, desk, stranger):
        a_bot(desk)
        bot = a_bot(stranger)
        send(bot)
        for _ in range(5):
            send(bot, pair="SOL/USDT")
        assert attention(owner) == ""
        assert set(days(owner).values()) == {("0", "0")}


@pytest.mark.usefixtures("noon")
class TestToday:
    def test_each_bot_has_its_state_fills_and_refusals(self, owner, desk, bot):
        idle = desks.add_automation(desk=desk, name="Idle", actor=SYSTEM)
        send(bot)
        send(bot)
        send(bot, pair="SOL/USDT")
        push(fanout(), a_platform_token())
        assert today_of(owner, "Chart") == ("accepts signals", "2", "1")
        assert today_of(owner, "Idle") == ("no election", "0", "0")
        desks.elect(automation=idle, pair="A/B", direction="long", actor=SYSTEM)
        assert today_of(owner, "Idle")[0] == "no secret"
        tokens.generate_secret(source=Source.TRADINGVIEW, automation=idle, actor=SYSTEM)
        assert today_of(owner, "Idle")[0] == "accepts signals"

    def test_a_count_stops_at_its_limit(self, owner, bot, monkeypatch):
        monkeypatch.setattr(counts, "MAX_OF_DAY", 3)
        for _ in range(4):
            send(bot)
        assert next(iter(days(owner).values())) == ("3+", "0")


# Around the end of summer time in New York, whose 3 November has 25 hours.
TIMES = [
    *("2030-11-02T18:29:59Z", "2030-11-02T18:30:00Z"),  # midnight in Kolkata
    *("2030-11-03T03:59:59Z", "2030-11-03T04:00:00Z"),  # midnight in New York, in summer time
    *("2030-11-04T04:59:59Z", "2030-11-04T05:00:00Z"),  # the next one, in standard time
]
FILLS_OF_DAYS = {"Asia/Kolkata": [1, 3, 2], "America/New_York": [3, 2, 1], "Etc/UTC": [2, 2, 2]}


class TestTimeZones:
    @pytest.mark.parametrize("zone", FILLS_OF_DAYS)
    def test_days_are_days_of_the_users_zone_in_counts_and_in_the_filter(self, desk, bot, zone):
        desk.user.time_zone = zone
        desk.user.save()
        for at in TIMES:
            with time_machine.travel(at, tick=False):
                send(bot)
        with time_machine.travel("2030-11-04T06:00:00Z", tick=False):
            owner = signed_in(desk.user)
            of_days = {day: int(filled) for day, (filled, _) in days(owner).items()}
            asked = ["2030-11-02", "2030-11-03", "2030-11-04"]
            assert [of_days[day] for day in asked] == FILLS_OF_DAYS[zone]
            assert today_of(owner, "Chart")[1] == str(FILLS_OF_DAYS[zone][-1])
            for day in asked:
                query = f"kind=signal.filled&since={day}&until={day}"
                file = owner.get(f"/activity.csv?{query}").getvalue()
                assert file.count(b"signal.filled") == of_days[day]
            named = zone.removeprefix("Etc/")
            assert f"since midnight ({named})" in words(owner.get("/desk"))
            assert f"From day ({named}) To day ({named})" in words(owner.get("/activity"))
            for edge in ("since=0001-01-01", "until=0001-01-01", "since=9999-12-31"):
                assert owner.get(f"/activity?{edge}").status_code == 200


class TestDays:
    def test_fan_outs_deploys_and_bots_are_counted_by_day(self, owner, desk, bot):
        engine = a_platform_token()
        move_the_log_back(days=40)
        now = timezone.now()
        for ago in (31, 5):
            with time_machine.travel(now - timedelta(days=ago), tick=False):
                push(fanout(), engine)
                push(floor(desk), engine)
                send(bot)
                send(bot, pair="SOL/USDT")
        found = days(owner)
        assert len(found) == DAYS
        day = f"{now - timedelta(days=5):%Y-%m-%d}"
        assert {date: counts for date, counts in found.items() if counts != ("0", "0")} == {
            day: ("3", "1")
        }

    def test_a_fan_out_counts_only_while_the_desk_was_enrolled(self, card):
        engine, late = a_platform_token(), a_connected_desk()
        push(fanout(), engine)
        desks.enrol(desk=late, card_id=card.pk, actor=SYSTEM)
        push(fanout(), engine)
        desks.withdraw(desk=late, actor=SYSTEM)
        push(fanout(), engine)
        assert next(iter(days(signed_in(late.user)).values())) == ("1", "0")

    def test_the_chart_says_its_sums_and_has_a_table(self, owner, bot):
        send(bot)
        send(bot, pair="SOL/USDT")
        page = source(owner.get("/desk"))
        label = "Fills and refusals by day, which the table below lists: 1 filled, 1 refused."
        assert f'role="img" aria-label="{label}"' in page
        assert " style=" not in page

    def test_it_says_if_fills_of_the_first_days_are_missing(self, owner, desk, card):
        for _ in range(21):
            desks.withdraw(desk=desk, actor=SYSTEM)
            desks.enrol(desk=desk, card_id=card.pk, actor=SYSTEM)
        a_bot(desk)
        assert "the earliest of them lack some fills" in words(owner.get("/desk"))

    def test_a_new_desk_shows_no_empty_chart(self, owner, desk):
        assert "The last 30 days" not in words(owner.get("/desk"))
