"""What a customer does, and what the log says of it."""

from importlib import import_module
from typing import Any

import pytest
from django.apps import apps

from desks import actions
from desks.models import Automation, Card, Connection, Desk, Election, User
from desks.models.automation import MOST_BOTS
from events import log
from events.models import Event, Head
from events.refusals import Invalid, NotAllowed
from tests.factories import (
    UserFactory,
    a_bot,
    a_card,
    a_connected_desk,
    a_desk,
    a_ready_desk,
    a_staff_user,
)

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def contiguous(db: None):
    """After each test: every position has its event, and the counter stands on the last."""
    yield
    positions = list(Event.objects.values_list("position", flat=True))
    assert positions == list(range(1, Head.objects.get().position + 1))


@pytest.fixture(autouse=True)
def said_again(db: None):
    """After each test: a desk repeats what its connection and its elections say."""
    yield
    said = {desk.pk: (desk.connected, desk.enrolled_id) for desk in Desk.objects.all()}
    assert said == {desk.pk: (is_connected(desk), enrolled(desk)) for desk in Desk.objects.all()}


def is_connected(desk: Desk) -> bool:
    return Connection.objects.filter(desk=desk).exists()


def enrolled(desk: Desk) -> str | None:
    """The card of its last election, if neither that was withdrawn nor the desk disconnected."""
    last = Election.objects.filter(desk=desk, card__isnull=False, closed=None).last()
    return last.card_id if last and is_connected(desk) else None


def last(number: int = 1) -> list[tuple[str, str | None, dict[str, Any]]]:
    """The last events: kind, topic, data."""
    events = Event.objects.order_by("-position")[:number]
    return [(e.kind, e.topic, e.content["data"]) for e in events][::-1]


def standing(desk: Desk) -> int:
    return Election.objects.standing().filter(desk=desk).count()


def counted(card: Card) -> int:
    return Card.objects.get(pk=card.pk).standing


class TestOpeningADesk:
    def test_it_is_made_once(self):
        user = UserFactory()
        assert actions.open_desk(user=user) == actions.open_desk(user=user)
        assert last(5) == [("desk.created", user.desk.public_id, {"venue": None})]

    def test_staff_have_none(self):
        assert actions.open_desk(user=a_staff_user()) is None


class TestConnecting:
    def test_it_keeps_the_venue_and_the_time_and_says_so(self):
        desk = a_desk()
        actions.connect(desk=desk, venue="Kraken")
        assert last() == [("desk.connected", desk.public_id, {"venue": "Kraken"})]
        connection, desk = Connection.objects.get(), Desk.objects.get()
        assert connection.connected_at == desk.updated_at == Event.objects.last().at

    def test_a_connected_desk_is_not_connected_again(self):
        desk = a_connected_desk()
        with pytest.raises(Invalid):
            actions.connect(desk=desk, venue="Other")
        assert Connection.objects.get().venue == "Kraken"

    def test_disconnecting_withdraws_every_election_and_then_says_disconnected(self, card):
        desk = a_ready_desk(card)
        a_bot(desk)
        actions.disconnect(desk=desk)
        kinds = [kind for kind, _, _ in last(3)]
        assert kinds == ["election.withdrawn", "election.withdrawn", "desk.disconnected"]
        assert {data["reason"] for _, _, data in last(3)[:2]} == {"disconnected"}
        assert (standing(desk), counted(card), Connection.objects.count()) == (0, 0, 0)

    def test_disconnecting_twice_says_nothing_twice(self):
        desk = a_connected_desk()
        actions.disconnect(desk=desk)
        actions.disconnect(desk=desk)
        assert Event.objects.filter(kind="desk.disconnected").count() == 1

    def test_a_deactivated_user_cannot_connect(self):
        desk = a_desk()
        User.objects.update(is_active=False)
        with pytest.raises(NotAllowed):
            actions.connect(desk=desk, venue="Kraken")


class TestEnrolling:
    def test_it_takes_the_cards_pair_and_direction_from_its_position_on(self, card):
        desk = a_connected_desk()
        actions.enrol(desk=desk, card_id=card.pk)
        election = Election.objects.get()
        assert (election.pair, election.direction) == (card.pair, card.direction)
        assert election.opened == Event.objects.last().position
        assert last() == [
            (
                "election.made",
                desk.public_id,
                {"pair": card.pair, "direction": card.direction, "card": card.name},
            )
        ]

    def test_the_card_counts_who_stands_on_it(self, card):
        desks = [a_ready_desk(card) for _ in range(3)]
        assert counted(card) == 3
        actions.withdraw_from_card(desk=desks[0])
        assert counted(card) == 2

    def test_enrolling_again_changes_nothing(self, card):
        desk = a_ready_desk(card)
        before = Event.objects.count()
        actions.enrol(desk=desk, card_id=card.pk)
        assert (Event.objects.count(), counted(card)) == (before, 1)

    def test_a_desk_that_is_not_connected_cannot_enrol(self, card):
        with pytest.raises(Invalid):
            actions.enrol(desk=a_desk(), card_id=card.pk)

    def test_consent_to_a_card_that_was_retired_meanwhile_is_not_consent_to_the_next(self, card):
        desk = a_connected_desk()
        a_card(name="Evening")
        with pytest.raises(Invalid):
            actions.enrol(desk=desk, card_id=card.pk)
        assert standing(desk) == 0

    def test_a_deactivated_user_cannot_enrol(self, card):
        desk = a_connected_desk()
        User.objects.update(is_active=False)
        with pytest.raises(NotAllowed):
            actions.enrol(desk=desk, card_id=card.pk)

    def test_withdrawing_says_that_it_was_asked(self, card):
        desk = a_ready_desk(card)
        actions.withdraw_from_card(desk=desk)
        [(kind, topic, data)] = last()
        assert (kind, topic, data["reason"]) == ("election.withdrawn", desk.public_id, "asked")
        assert Election.objects.get().closed == Event.objects.last().position

    def test_withdrawing_twice_says_nothing_twice(self, card):
        desk = a_ready_desk(card)
        actions.withdraw_from_card(desk=desk)
        actions.withdraw_from_card(desk=desk)
        assert (Event.objects.filter(kind="election.withdrawn").count(), counted(card)) == (1, 0)

    def test_withdrawing_leaves_the_bots_elections(self, card):
        desk = a_ready_desk(card)
        a_bot(desk)
        actions.withdraw_from_card(desk=desk)
        assert standing(desk) == 1


class TestCards:
    def test_publishing_retires_the_one_before_it_in_one_turn(self, card):
        evening = a_card(name="Evening", pair="ETH/USDT", direction="short")
        assert list(Card.objects.published()) == [evening]
        assert last(2) == [
            ("card.retired", "all", {"card": card.as_json()}),
            ("card.published", "all", {"card": evening.as_json()}),
        ]
        retired = Card.objects.get(pk=card.pk)
        assert (retired.closed, evening.opened) == (2, 3)

    def test_retiring_lapses_elections_without_touching_them_or_their_desks(self, card):
        desk = a_ready_desk(card)
        before = Desk.objects.get(pk=desk.pk).updated_at
        actions.retire_card()
        assert standing(desk) == 0
        assert Election.objects.get().closed is None
        assert Desk.objects.get(pk=desk.pk).updated_at == before

    def test_a_lapsed_election_does_not_come_back_with_the_next_card(self, card):
        desk = a_ready_desk(card)
        again = a_card()
        assert standing(desk) == 0
        assert counted(again) == 0

    def test_retiring_without_a_card_says_nothing(self):
        actions.retire_card()
        assert Event.objects.count() == 0

    def test_disconnecting_after_the_card_lapsed_withdraws_nothing_of_it(self, card):
        desk = a_ready_desk(card)
        actions.retire_card()
        actions.disconnect(desk=desk)
        assert not Event.objects.filter(kind="election.withdrawn").exists()


class TestAutomations:
    def test_a_new_bot_is_said_to_its_desk(self, desk):
        bot = actions.add_automation(desk=desk, name="Chart")
        data = {"botId": bot.pk, "name": "Chart"}
        assert last() == [("automation.created", desk.public_id, data)]

    def test_a_desk_has_at_most_fifty(self, desk):
        for _ in range(MOST_BOTS):
            bot = actions.add_automation(desk=desk, name="Chart")
        with pytest.raises(Invalid):
            actions.add_automation(desk=desk, name="One too many")
        actions.remove_automation(automation=bot)
        actions.add_automation(desk=desk, name="Room again")

    def test_electing_again_replaces(self, desk):
        bot = a_bot(desk, "ETH/USDT", "short").automation
        actions.elect(automation=bot, pair="SOL/USDT", direction="long")
        (_, _, withdrawn), (_, _, made) = last(2)
        assert (withdrawn["reason"], withdrawn["pair"]) == ("replaced", "ETH/USDT")
        assert made == {"pair": "SOL/USDT", "direction": "long", "botId": bot.pk}
        assert Election.objects.standing().filter(automation=bot).count() == 1

    def test_electing_the_same_again_changes_nothing(self, desk):
        bot = a_bot(desk, "ETH/USDT", "short").automation
        before = Event.objects.count()
        actions.elect(automation=bot, pair="ETH/USDT", direction="short")
        assert Event.objects.count() == before

    def test_a_bot_of_a_desk_that_is_not_connected_cannot_elect(self):
        bot = actions.add_automation(desk=a_desk(), name="Chart")
        with pytest.raises(Invalid):
            actions.elect(automation=bot, pair="A/B", direction="long")

    def test_a_removed_bot_cannot_elect(self, desk):
        bot = actions.add_automation(desk=desk, name="Chart")
        actions.remove_automation(automation=bot)
        with pytest.raises(Invalid):
            actions.elect(automation=bot, pair="A/B", direction="long")

    def test_removing_withdraws_its_election_and_keeps_the_row(self, desk):
        bot = a_bot(desk).automation
        actions.remove_automation(automation=bot)
        (_, _, withdrawn), (kind, _, _) = last(2)
        assert (withdrawn["reason"], kind) == ("removed", "automation.removed")
        assert Automation.objects.get(pk=bot.pk).removed_at is not None

    def test_removing_twice_says_nothing_twice(self, desk):
        bot = a_bot(desk).automation
        actions.remove_automation(automation=bot)
        actions.remove_automation(automation=bot)
        assert Event.objects.filter(kind="automation.removed").count() == 1

    def test_withdrawing_leaves_the_bot(self, desk):
        bot = a_bot(desk).automation
        actions.withdraw_from_automation(automation=bot)
        assert not Election.objects.standing().filter(automation=bot).exists()
        assert Automation.objects.kept().filter(pk=bot.pk).exists()

    def test_a_deactivated_user_can_neither_add_nor_elect(self, desk):
        bot = actions.add_automation(desk=desk, name="Chart")
        User.objects.update(is_active=False)
        with pytest.raises(NotAllowed):
            actions.add_automation(desk=desk, name="Another")
        with pytest.raises(NotAllowed):
            actions.elect(automation=bot, pair="A/B", direction="long")


def test_when_the_event_cannot_be_written_nothing_is_saved(card, monkeypatch):
    desk = a_connected_desk()

    def broken(*args: object, **kwargs: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(log.Turn, "append", broken)
    for act in (
        lambda: actions.enrol(desk=desk, card_id=card.pk),
        lambda: actions.disconnect(desk=desk),
        lambda: actions.add_automation(desk=desk, name="Chart"),
        lambda: actions.publish_card(name="X", pair="A/B", direction="long"),
    ):
        with pytest.raises(OSError, match="disk"):
            act()
    assert (Election.objects.count(), Connection.objects.count()) == (0, 1)
    assert (Automation.objects.count(), Card.objects.count(), counted(card)) == (0, 1, 0)


def test_what_a_desk_repeats_is_found_for_the_desks_of_before():
    a_ready_desk(a_card())  # in a card that the next one retires
    card = a_card()
    for _ in range(2):
        desk = a_ready_desk(card)
    actions.disconnect(desk=desk)
    a_connected_desk()
    a_desk()
    said = list(Desk.objects.values_list("connected", "enrolled"))
    Desk.objects.update(connected=False, enrolled=None)
    import_module("desks.migrations.0003_connected_and_enrolled").say_again(apps, None)
    assert list(Desk.objects.values_list("connected", "enrolled")) == said
