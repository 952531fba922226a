"""Pages that are read together are those that each session would read alone."""

import json
import random

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from desks import actions
from desks.models import Card, Desk
from desks.visibility import desks_spans
from events.actors import SYSTEM
from events.http.refusals import Refused
from events.kinds import GROUPS
from events.models import Event, Head
from signals.webhooks.runner import pending_events
from signals.webhooks.runner.delivery import lease
from signals.webhooks.runner.pending_events import read_alone, read_together
from tests.client import push
from tests.factories import a_bot, a_card, a_platform_token, a_ready_desk, enrol_in_many
from tests.signals.bodies import fanout
from tests.signals.webhooks.runner.stage import subscribe

pytestmark = pytest.mark.django_db

ROUNDS = 80


def a_history(seed: int) -> None:
    """Whatever changes what three desks see, and signals to them, at random."""
    rng, token = random.Random(seed), a_platform_token()
    desks = list(Desk.objects.all())

    def publish(_):
        direction = "long" if Card.objects.published().get().direction == "short" else "short"
        actions.publish_card(name="Next", pair="BTC/USDT", direction=direction, actor=SYSTEM)

    def enrol(desk):
        actions.enrol(desk=desk, card_id=Card.objects.published().get().pk, actor=SYSTEM)

    def connect(desk):
        actions.connect(desk=desk, venue="Kraken", actor=SYSTEM)

    def fan_out(_):
        push(fanout(direction=Card.objects.published().get().direction), token)

    changes = {
        fan_out: 20,
        enrol: 10,
        lambda desk: actions.withdraw(desk=desk, actor=SYSTEM): 6,
        lambda desk: actions.disconnect(desk=desk, actor=SYSTEM): 2,
        connect: 3,
        publish: 2,
        a_bot: 1,
    }
    for _ in range(ROUNDS):
        [change] = rng.choices(list(changes), list(changes.values()))
        try:
            change(rng.choice(desks))
        except Refused:  # a desk that is not connected, or connected already
            continue


@pytest.fixture
def rows():
    """Leased subscriptions of three desks: to everything, and to two kinds."""
    card = a_card()
    made = [
        subscribe("https://hooks.example/", desk, kinds)[1]
        for desk in (a_ready_desk(card) for _ in range(3))
        for kinds in ((), ("signal.filled", "card.published"))
    ]
    leased, _ = lease([row.pk for row in made])
    return [one.row for one in leased]


def each_way(rows, position, apart=0):
    """The pages of these behind a position, read together and one by one.

    Each is so many positions before the last.
    """
    for number, row in enumerate(rows):
        row.cursor_position = max(0, position - apart * number)
    return read_together(rows), {row.pk: read_alone(row) for row in rows}


def all_alone(row):
    """The messages of all pages that a session reads alone, one after the other."""
    messages, more = [], True
    while more:
        batch = read_alone(row)
        messages += batch.messages
        row.cursor_position, more = batch.examined, batch.more
    return messages


@pytest.mark.parametrize("seed", range(2))
def test_they_are_those_that_each_reads_alone(rows, seed):
    a_history(seed)
    head = Head.objects.get().position
    found = 0
    first = rows[0].cursor_position
    for position in range(first, head + 1):
        together, alone = each_way(rows, position, apart=7)
        assert together == alone
        found += sum(len(batch.messages) for batch in together.values())
    assert found > ROUNDS
    assert Event.objects.filter(kind="election.withdrawn").count() > 5
    assert Event.objects.filter(kind="signal.filled").count() > 5


def test_what_is_more_than_a_page_follows(rows, monkeypatch):
    monkeypatch.setattr(pending_events, "PAGE", 3)
    a_history(1)
    start = rows[0].cursor_position
    together, alone = each_way(rows, start)
    assert together == alone
    assert any(batch.more for batch in together.values())


def test_a_hundred_take_three_statements(rows):
    a_history(1)
    with CaptureQueriesContext(connection) as counted:
        read_together(rows)
    assert len(counted) == 3


def test_the_spans_are_read_after_the_head_and_before_the_events(rows, monkeypatch):
    """A withdrawal between two statements shows nothing that the desk did not see."""
    row = rows[0]

    def withdraw_first(desks, window):
        actions.withdraw(desk=row.desk, actor=SYSTEM)
        push(fanout(), a_platform_token())
        return desks_spans(desks, window)

    monkeypatch.setattr(pending_events, "desks_spans", withdraw_first)
    head = Head.objects.get().position
    together = read_together([row])
    assert together[row.pk].examined == head
    assert all(message.position <= head for message in together[row.pk].messages)


class TestAlone:
    """These read the feed's own page."""

    def test_the_platform(self):
        _, row = subscribe("https://hooks.example/")
        assert read_together([row]) == {}

    def test_one_of_another_epoch_whose_cursor_is_lost(self, rows):
        rows[0].cursor_epoch = "another"
        together, alone = each_way(rows[:2], rows[0].cursor_position)
        assert alone.pop(rows[0].pk) is None
        assert together == alone

    def test_one_whose_cursor_is_beyond_the_head(self, rows):
        together, alone = each_way(rows[:1], Head.objects.get().position + 1)
        assert (together, alone) == ({}, {rows[0].pk: None})

    def test_one_that_is_far_behind(self, rows, monkeypatch):
        a_history(2)
        monkeypatch.setattr(pending_events, "REACH", 3)
        head = Head.objects.get().position
        assert each_way(rows[:1], head - 4)[0] == {}
        together, alone = each_way(rows[:1], head - 3)
        assert together == alone

    def test_one_limited_to_every_kind_whose_desk_enrolled_in_many_cards(self, rows):
        """It gets what one gets that is limited to no kind, and waits for as much."""
        engine, row = a_platform_token(), rows[0]
        _, limited = subscribe("https://hooks.example/", row.desk, list(GROUPS))
        limited.cursor_position = row.cursor_position
        for _ in enrol_in_many(row.desk):
            push(fanout(), engine)
        together, lags = read_together([row, limited]), [row.lag, limited.lag]
        assert together[row.pk] == together[limited.pk]
        messages = all_alone(row)
        assert all_alone(limited) == messages
        assert lags == [len(messages)] * 2
        kinds = [json.loads(message.body)["type"] for message in messages]
        assert kinds.count("signal.filled") == 20

    def test_those_with_too_many_events_for_one_query(self, rows, monkeypatch):
        a_history(2)
        monkeypatch.setattr(pending_events, "MOST_EVENTS", 5)
        assert each_way(rows, rows[0].cursor_position)[0] == {}
