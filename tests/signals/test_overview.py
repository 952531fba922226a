"""What the control area opens with: what needs somebody, the figures, and the charts of signals."""

from datetime import timedelta

import pytest
import time_machine
from django.test import Client
from django.utils import timezone

from desks import actions as desks
from desks.models import Card
from signals import traffic
from signals.overview import days, overview
from tests import factories, staff
from tests.client import push
from tests.crowd import a_crowd
from tests.pages import source, words
from tests.signals import bodies
from tokens import actions
from tokens.models import SigningSecret, Source, Token

pytestmark = pytest.mark.django_db

CONTROL = "/control/"


@pytest.fixture
def client() -> Client:
    return staff.a_client()


@pytest.fixture
def engine(card) -> str:
    """The value of a token that may read and write: with it and a card nothing is missing."""
    return factories.a_platform_token()


def notices(now=None):
    return [notice.sentence for notice in overview(now or timezone.now()).notices]


def later(**span):
    return timezone.now() + timedelta(**span)


class TestWhatNeedsSomebody:
    def test_of_a_platform_that_is_set_up_nothing_does(self, engine):
        assert notices() == []

    def test_a_platform_that_was_just_installed_needs_everything(self, client):
        card, read, send = notices()
        assert card.startswith("No card is published")
        assert read.startswith("No platform token may read")
        assert send.startswith("No engine can send")
        page = words(client.get(CONTROL))
        assert all(sentence in page for sentence in (card, read, send))

    def test_a_secret_is_a_way_to_send(self, card):
        factories.a_platform_token("read")
        factories.a_shared_secret()
        assert notices() == []

    def test_a_desks_token_and_one_that_is_revoked_are_no_way_in(self, card, desk):
        factories.a_desk_token(desk)
        factories.a_platform_token()
        actions.revoke(token=Token.objects.get(desk=None))
        assert len(notices()) == 2

    def test_a_retired_card_is_told(self, engine):
        desks.retire_card(card=Card.objects.get())
        assert notices()[0].startswith("No card is published")

    @pytest.mark.parametrize(
        ("left", "told"),
        [
            (timedelta(days=14, hours=1), None),
            (timedelta(days=13, hours=1), "13 days"),
            (timedelta(days=1, hours=1), "1 day"),
            (timedelta(hours=1), "less than a day"),
        ],
    )
    def test_a_token_that_expires_within_two_weeks_is_told(self, engine, left, told):
        now = timezone.now()
        actions.mint_platform_token(name="Reader", scopes=["read"], expires_at=now + left)
        found = [sentence for sentence in notices(now) if "expires in" in sentence]
        assert len(found) == (told is not None)
        assert all(f"expires in {told}:" in sentence for sentence in found)

    def test_a_secret_of_more_than_ninety_days_is_told_and_its_successor_is_not(self, engine):
        factories.a_shared_secret()
        assert notices(later(days=89)) == []
        (old,) = notices(later(days=91))
        assert old == "The Floor secret is 91 days old: replace it, with an overlap."
        with time_machine.travel(later(days=91)):
            factories.a_shared_secret()
            assert notices() == []

    def test_an_hour_of_more_refusals_than_fills_is_told_with_the_reason(self, engine, desk):
        for _ in range(4):
            push(bodies.fanout(), engine)
        for _ in range(5):
            push(bodies.fanout(pair="SOL/USDT"), engine)
        assert notices() == []  # of nine in all: too few to say anything
        push(bodies.fanout(elected="true"), engine)
        (told,) = notices()
        assert told == "Of the last hour's 10 signals 6 were refused, most for pair_mismatch."
        assert notices(later(hours=2)) == []

    def test_each_leads_to_where_it_is_done(self, client):
        for notice in overview(timezone.now()).notices:
            assert client.get(notice.url).status_code == 200


class TestTheFigures:
    def test_desks_are_counted_by_how_far_they_are(self, card, desk):
        factories.a_connected_desk()
        factories.a_desk()
        found = overview(timezone.now())
        assert (found.desks, found.connected, found.ready) == (3, 2, 1)

    def test_tokens_in_force_stand_there_the_next_to_expire_first(self, engine, client):
        for name, in_days in (("Later", 30), ("Sooner", 20)):
            actions.mint_platform_token(name=name, scopes=["read"], expires_at=later(days=in_days))
        assert [token.name for token in overview(timezone.now()).tokens] == [
            "Sooner",
            "Later",
            "Engine",
        ]

    def test_of_nox_it_says_who_signs_for_it(self, client, engine):
        factories.a_shared_secret()
        assert "none: the Floor secret signs it" in words(client.get(CONTROL))
        factories.a_shared_secret(Source.NOX)
        actions.end_secret(secret=SigningSecret.objects.get(source=Source.NOX))
        assert "none: what is signed for it is refused" in words(client.get(CONTROL))

    def test_the_page_shows_no_value(self, client, engine):
        secret = factories.a_shared_secret()
        page = source(client.get(CONTROL))
        assert engine not in page
        assert secret not in page


class TestTheTraffic:
    def test_it_is_counted_by_source_and_by_code(self, engine, desk):
        bot = factories.a_bot(desk)
        for _ in range(2):
            push(bodies.fanout(), engine)
        push(bodies.tradingview(bot), secret=bot.secret)
        push(bodies.tradingview(bot, direction="long"), secret=bot.secret)
        push(bodies.fanout(pair="SOL/USDT"), engine)
        found = traffic.traffic(timezone.now())
        assert [(one.name, one.accepted, one.refused) for one in found.sources] == [
            ("floor", 2, 1),
            ("tradingview", 1, 1),
        ]
        assert [(one.name, one.refused) for one in found.codes] == [
            ("direction_mismatch", 1),
            ("pair_mismatch", 1),
        ]
        assert (found.day.accepted, found.day.refused, found.since) == (3, 2, None)

    def test_an_unknown_source_is_one_row(self, engine, desk):
        push({**bodies.fanout(), "source": "a"}, engine)
        push({**bodies.fanout(), "source": "b"}, engine)
        (only,) = traffic.traffic(timezone.now()).sources
        assert (only.name, only.refused) == (traffic.UNKNOWN_SOURCE, 2)

    def test_the_hour_and_the_day_end_now(self, engine, desk):
        now = timezone.now()
        for minutes in (24 * 60 + 1, 23 * 60, 59, 1):
            with time_machine.travel(now - timedelta(minutes=minutes), tick=False):
                push(bodies.fanout(), engine)
        found = traffic.traffic(now)
        assert (found.day.accepted, found.hour.accepted) == (3, 2)
        assert found.sources[0].hour_accepted == 2
        assert [index for index, bar in enumerate(found.hour.bars) if bar.up] == [0, 11]

    def test_where_the_day_was_busier_it_says_since_when_it_counts(
        self, engine, desk, client, monkeypatch
    ):
        monkeypatch.setattr(traffic, "LOOKED_THROUGH", 2)
        now = timezone.now()
        for hours in (3, 2, 1):
            with time_machine.travel(now - timedelta(hours=hours), tick=False):
                push(bodies.fanout(pair="SOL/USDT"), engine)
                push(bodies.fanout(), engine)
        found = traffic.traffic(now)
        assert (found.day.accepted, found.day.refused) == (2, 2)
        assert abs(now - timedelta(hours=2) - found.since) < timedelta(seconds=1)
        assert "Busier than this page counts" in words(client.get(CONTROL))

    def test_each_chart_says_in_words_what_it_draws(self, engine, desk, client):
        push(bodies.fanout(), engine)
        page = source(client.get(CONTROL))
        assert "The last hour, by each five minutes: 1 accepted, 0 refused" in page
        assert "The last day, by each hour: 1 accepted, 0 refused" in page


def test_the_page_asks_no_more_of_a_platform_that_has_grown(
    client, engine, card, django_assert_num_queries
):
    with django_assert_num_queries(12):
        client.get(CONTROL)
    a_crowd(card, 50)
    for _ in range(20):
        push(bodies.fanout(), engine)
        push(bodies.fanout(pair="SOL/USDT"), engine)
        factories.a_platform_token()
    with django_assert_num_queries(12):
        client.get(CONTROL)


@pytest.mark.parametrize(
    ("hours", "told"), [(23, "less than a day"), (24, "1 day"), (71, "2 days")]
)
def test_a_span_is_told_in_whole_days(hours, told):
    assert days(timedelta(hours=hours)) == told
