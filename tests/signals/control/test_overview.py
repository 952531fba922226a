"""The first page of the control area: notices, figures and charts."""

import re
from datetime import timedelta

import pytest
import time_machine
from django.utils import timezone

from desks import actions as desks
from events.actors import SYSTEM
from events.models import Head
from signals.notices.triggers import follow
from signals.reports import traffic
from signals.reports.overview import platform_overview
from tests import factories
from tests.client import push
from tests.crowd import a_crowd
from tests.pages import source, words
from tests.signals import bodies
from tests.staff import staff_client  # noqa: F401 - the fixture "client"
from tokens import actions
from tokens.choices import Source
from tokens.models import SigningSecret, Token

pytestmark = pytest.mark.django_db

CONTROL = "/control/"


def notices(now=None):
    return [concern.sentence for concern in platform_overview(now or timezone.now()).concerns]


def later(**span):
    return timezone.now() + timedelta(**span)


class TestNotices:
    def test_a_platform_in_use_has_a_notice_for_each_missing_part(self, client, engine, desk):
        push(bodies.fanout(), engine)
        desks.retire_card(actor=SYSTEM)
        actions.revoke(token=Token.objects.get(), actor=SYSTEM)
        card, read, send = notices()
        assert card.startswith("No card is published")
        assert read.startswith("No platform token can read")
        assert send.startswith("No token can write")
        page = words(client.get(CONTROL))
        assert all(sentence in page for sentence in (card, read, send))
        assert "All clear" not in page
        for concern in platform_overview(timezone.now()).concerns:
            assert client.get(concern.url).status_code == 200

    def test_a_shared_secret_suffices_to_send(self, card):
        factories.a_platform_token("read")
        factories.a_shared_secret()
        assert notices() == []

    def test_desk_tokens_and_revoked_tokens_do_not_suffice(self, card, desk):
        factories.a_desk_token(desk)
        push(bodies.fanout(), factories.a_platform_token())
        actions.revoke(token=Token.objects.get(desk=None), actor=SYSTEM)
        assert len(notices()) == 2

    @pytest.mark.parametrize(
        ("left", "shown"),
        [
            (timedelta(days=14, hours=1), None),
            (timedelta(days=13, hours=1), "13 days"),
            (timedelta(days=1, hours=1), "1 day"),
            (timedelta(minutes=59, seconds=30), "59 minutes"),
        ],
    )
    def test_a_token_that_expires_within_two_weeks_has_a_notice(self, engine, left, shown):
        now = timezone.now()
        actions.mint_platform_token(
            name="Reader", scopes=["read"], expires_at=now + left, actor=SYSTEM
        )
        found = [sentence for sentence in notices(now) if "expires in" in sentence]
        assert len(found) == (shown is not None)
        assert all(f"expires in {shown}." in sentence for sentence in found)

    def test_a_secret_older_than_90_days_has_a_notice_until_it_is_replaced(self, engine):
        factories.a_shared_secret()
        assert notices(later(days=89)) == []
        (old,) = notices(later(days=91))
        assert old == "The Floor secret is 3 months old. Replace it with an overlap."
        with time_machine.travel(later(days=91)):
            factories.a_shared_secret()
            assert notices() == []

    def test_an_hour_with_more_refusals_than_fills_has_a_notice_with_the_reason(self, engine, desk):
        for _ in range(4):
            push(bodies.fanout(), engine)
        for _ in range(5):
            push(bodies.fanout(pair="SOL/USDT"), engine)
        assert notices() == []  # of nine in all: too few to say anything
        push(bodies.fanout(elected="true"), engine)
        (notice,) = notices()
        assert notice.startswith(
            "6 of 10 signals in the last hour were refused, 5 for pair_mismatch. Find"
        )
        (of_the_day,) = [each for each in notices(later(hours=2)) if "refused" in each]
        assert of_the_day.startswith("6 of 10 signals in the last day were refused, 5 for pair_")
        assert not any("refused" in sentence for sentence in notices(later(hours=25)))

    def test_a_share_of_more_than_it_counts_is_one_of_the_newest(self, engine, desk, monkeypatch):
        monkeypatch.setattr(traffic, "SCAN_LIMIT", 10)
        for _ in range(12):
            push(bodies.fanout(pair="SOL/USDT"), engine)
        for now in (timezone.now(), later(hours=2)):
            (notice,) = [each for each in notices(now) if "refused" in each]
            assert notice.startswith("10 of the newest 10 signals were refused, 10 for pair_mism")

    @pytest.mark.parametrize(("refused", "shown"), [(2, False), (3, True)])
    def test_more_than_a_fifth_of_refusals_has_a_notice(self, engine, desk, refused, shown):
        for _ in range(9):
            push(bodies.fanout(), engine)
        for _ in range(refused):
            push(bodies.fanout(pair="SOL/USDT"), engine)
        assert bool(notices()) == shown

    def test_few_ready_desks_of_those_that_are_connected_have_a_notice(self, engine, card):
        for _ in range(2):
            factories.a_ready_desk(card)
            factories.a_connected_desk()
        assert notices() == []  # two of four: too few desks to say anything
        factories.a_connected_desk()
        (notice,) = notices()
        assert notice.startswith("2 of 5 connected desks are ready.")
        assert "ask their owners to enrol in Morning." in notice
        factories.a_ready_desk(card)
        assert notices() == []

    def test_a_card_that_unenrolled_the_desks_has_a_notice(self, engine, card):
        ready = [factories.a_ready_desk(card) for _ in range(5)]
        evening = factories.a_card("Evening")
        desks.enrol(desk=ready[0], card_id=evening.pk, actor=SYSTEM)
        (notice,) = notices()
        assert notice.startswith("1 of 5 connected desks is ready.")
        for desk in ready[1:4]:
            desks.enrol(desk=desk, card_id=evening.pk, actor=SYSTEM)
        assert notices() == []

    def test_an_engine_that_is_silent_for_longer_than_usual_has_a_notice(self, engine, desk):
        now = timezone.now()
        Head.objects.update(at=now - timedelta(days=2))  # the log's time never runs back
        for minutes in range(100, 0, -10):
            with time_machine.travel(now - timedelta(minutes=minutes), tick=False):
                push(bodies.fanout(), engine)
        assert notices(now + timedelta(minutes=11)) == []  # in its first day nothing is usual
        Token.objects.update(created_at=now - timedelta(days=1))
        assert notices(now + timedelta(minutes=9)) == []
        silent = notices(now + timedelta(minutes=11))
        hint = Token.objects.get().hint
        assert (
            f"The engine with the token Engine ({hint}) has sent nothing for 21 minutes; its "
            "longest pause before was 10 minutes. Check that the engine runs and gets answers."
        ) in silent

    def test_an_engine_that_was_heard_a_few_times_only_is_not_silent(self, engine, desk):
        for _ in range(9):
            push(bodies.fanout(), engine)
        assert not any("sent nothing" in sentence for sentence in notices(later(days=1)))

    def test_a_halted_log_has_a_notice_of_which_staff_are_told(self, client, engine):
        Head.objects.update(halted=True)
        (notice,) = notices()
        assert "nothing is written" in notice
        assert notice in words(client.get(CONTROL))
        assert [each.sentence for each in platform_overview(timezone.now()).notified] == [notice]

    def test_a_log_that_does_not_move_has_a_notice(self, card):
        factories.a_platform_token()
        for _ in range(4):
            factories.a_connected_desk()
        assert notices(later(hours=23)) == []  # in its first day nothing is usual
        (notice,) = [each for each in notices(later(hours=25)) if "log" in each]
        assert notice.startswith("The log has not moved for 1 day; its longest pause before was")

    def test_a_secret_that_ends_soon_has_a_notice_with_its_last_use(self, engine, desk):
        old = factories.a_shared_secret()
        push(bodies.fanout(), secret=old)
        hint = SigningSecret.objects.get().hint
        actions.generate_secret(
            source=Source.FLOOR, actor=SYSTEM, overlap=timedelta(days=2, hours=1)
        )
        (notice,) = notices(later(minutes=5))
        assert notice == (
            f"The Floor secret {hint} ends in 2 days. It last signed 5 minutes ago. "
            "Make sure that every sender signs with the new one."
        )
        assert not any(hint in sentence for sentence in notices(later(days=3)))


class TestSetUp:
    def steps(self):
        return [step.is_done for step in platform_overview(timezone.now()).set_up]

    def test_an_empty_installation_has_a_list_of_steps_and_no_notice(self, client):
        assert notices() == []
        assert self.steps() == [False, False, False, False, False, None]
        page = words(client.get(CONTROL))
        assert "Set up this installation" in page
        assert "to do Publish a card." in page
        assert "check it yourself Back up the database and the keys" in page
        assert "All clear" not in page
        for step in platform_overview(timezone.now()).set_up:
            assert not step.url or client.get(step.url).status_code == 200

    def test_each_step_is_done_by_what_it_names_and_a_list_that_is_done_is_gone(self, settings):
        factories.a_card()
        assert self.steps() == [True, False, False, False, False, None]
        factories.a_platform_token("read")
        assert self.steps() == [True, True, False, False, False, None]
        factories.a_shared_secret()
        assert self.steps() == [True, True, True, False, False, None]
        follow(timezone.now())  # as the runner does
        assert self.steps() == [True, True, True, False, True, None]
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        assert self.steps() == []

    def test_an_installation_that_a_signal_reached_is_not_new(self, engine, desk):
        assert self.steps()
        push(bodies.fanout(pair="SOL/USDT"), engine)
        assert self.steps() == []


class TestFigures:
    def test_desks_are_counted_by_state(self, card, desk):
        factories.a_connected_desk()
        factories.a_desk()
        found = platform_overview(timezone.now())
        assert (found.desks, found.connected, found.ready) == (3, 2, 1)

    def test_active_tokens_are_sorted_by_expiry(self, engine, client):
        for name, in_days in (("Later", 30), ("Sooner", 20)):
            actions.mint_platform_token(
                name=name, scopes=["read"], expires_at=later(days=in_days), actor=SYSTEM
            )
        assert [token.name for token in platform_overview(timezone.now()).tokens] == [
            "Sooner",
            "Later",
            "Engine",
        ]

    def test_it_says_which_secret_signs_for_nox(self, client, engine):
        factories.a_shared_secret()
        assert "none: the Floor secret signs this source" in words(client.get(CONTROL))
        factories.a_shared_secret(Source.NOX)
        actions.end_secret(secret=SigningSecret.objects.get(source=Source.NOX), actor=SYSTEM)
        assert "none: signed requests of this source are refused" in words(client.get(CONTROL))

    def test_the_page_shows_no_secret(self, client, engine):
        secret = factories.a_shared_secret()
        page = source(client.get(CONTROL))
        assert engine not in page
        assert secret not in page


class TestTraffic:
    def test_it_is_counted_by_source_and_by_code(self, engine, desk):
        bot = factories.a_bot(desk)
        for _ in range(2):
            push(bodies.fanout(), engine)
        push(bodies.tradingview(bot), secret=bot.secret)
        push(bodies.tradingview(bot, direction="long"), secret=bot.secret)
        push(bodies.fanout(pair="SOL/USDT"), engine)
        found = traffic.recent_traffic(timezone.now())
        assert [(one.name, one.accepted, one.refused) for one in found.sources] == [
            ("floor", 2, 1),
            ("tradingview", 1, 1),
        ]
        assert [(one.name, one.refused) for one in found.codes] == [
            ("direction_mismatch", 1),
            ("pair_mismatch", 1),
        ]
        assert (found.day.accepted, found.day.refused, found.since) == (3, 2, None)

    def test_a_code_leads_to_its_page_and_what_stands_for_refusals_left_out_has_none(
        self, client, engine, desk, settings
    ):
        settings.LIMITS = {**settings.LIMITS, "refusals": "1/minute"}
        for _ in range(2):
            push(bodies.fanout(pair="SOL/USDT"), engine)
        page = source(client.get(CONTROL))
        assert "<code>refusals_suppressed</code>" in page
        assert re.findall(r'href="/problems/(\w+)"', page) == ["pair_mismatch"]

    def test_an_unknown_source_is_one_row(self, engine, desk):
        push({**bodies.fanout(), "source": "a"}, engine)
        push({**bodies.fanout(), "source": "b"}, engine)
        (only,) = traffic.recent_traffic(timezone.now()).sources
        assert (only.name, only.refused) == (traffic.UNKNOWN_SOURCE, 2)

    def test_the_hour_and_the_day_end_now(self, engine, desk):
        now = timezone.now()
        Head.objects.update(at=now - timedelta(days=2))  # the log's time never runs back
        for minutes in (24 * 60 + 1, 23 * 60, 59, 1):
            with time_machine.travel(now - timedelta(minutes=minutes), tick=False):
                push(bodies.fanout(), engine)
        found = traffic.recent_traffic(now)
        assert (found.day.accepted, found.hour.accepted) == (3, 2)
        assert found.sources[0].hour_accepted == 2
        assert [index for index, bar in enumerate(found.hour.bars) if bar.up] == [0, 11]

    def test_if_the_day_was_too_busy_it_says_when_the_counts_begin(
        self, engine, desk, client, monkeypatch
    ):
        monkeypatch.setattr(traffic, "SCAN_LIMIT", 2)
        now = timezone.now()
        Head.objects.update(at=now - timedelta(days=2))  # the log's time never runs back
        for hours in (3, 2, 1):
            with time_machine.travel(now - timedelta(hours=hours), tick=False):
                push(bodies.fanout(pair="SOL/USDT"), engine)
                push(bodies.fanout(), engine)
        found = traffic.recent_traffic(now)
        assert (found.day.accepted, found.day.refused) == (2, 2)
        assert abs(now - timedelta(hours=2) - found.since) < timedelta(seconds=1)
        assert "Too many signals to count them all" in words(client.get(CONTROL))

    def test_each_chart_has_a_text_alternative(self, engine, desk, client):
        push(bodies.fanout(), engine)
        page = source(client.get(CONTROL))
        assert "The last hour, in steps of five minutes: 1 accepted, 0 refused" in page
        assert "The last day, in steps of one hour: 1 accepted, 0 refused" in page
        assert "<title>5 to 0 minutes ago: 1 accepted, 0 refused</title>" in page
        table = page.partition('id="hour-table"')[2].partition("</details>")[0]
        assert table.count("<tr>") == 13
        assert '<th scope="row">5 to 0 minutes ago</th>' in table


def test_the_number_of_queries_does_not_depend_on_the_size_of_the_platform(
    client, engine, card, django_assert_num_queries
):
    with django_assert_num_queries(14):  # one for the steps of its set-up
        client.get(CONTROL)
    a_crowd(card, 50)
    for _ in range(20):
        push(bodies.fanout(), engine)
        push(bodies.fanout(pair="SOL/USDT"), engine)
        factories.a_platform_token()
    with django_assert_num_queries(13):
        client.get(CONTROL)
