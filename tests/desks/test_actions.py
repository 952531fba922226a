"""Actions of customers, beside the histories of ``tests/model``, which try each of them."""

import pytest

from desks import actions
from desks.models import Automation, Card, Connection, Desk, Election, User
from desks.models.automation import MAX_BOTS
from events import log
from events.actors import SYSTEM
from events.http.refusals import Invalid, NotAllowed
from events.models import Event
from tests.factories import UserFactory, a_card, a_connected_desk, a_desk, a_staff_user
from tokens import actions as tokens

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("contiguous")]


class TestOpeningADesk:
    def test_a_second_call_returns_the_same_desk(self):
        user = UserFactory.create()
        desk = actions.open_desk(desk=Desk(user=user), actor=SYSTEM)
        assert desk == actions.open_desk(desk=Desk(user=user), actor=SYSTEM)
        assert [event.kind for event in Event.objects.all()] == ["desk.created"]

    def test_staff_have_no_desk(self):
        assert actions.open_desk(desk=Desk(user=a_staff_user()), actor=SYSTEM) is None


class TestEnrolling:
    def test_it_elects_the_cards_pair_and_direction_from_its_position_on(self, card):
        desk = a_connected_desk()
        actions.enrol(desk=desk, card_id=card.pk, actor=SYSTEM)
        election, made = Election.objects.get(), Event.objects.last()
        assert (election.pair, election.direction) == (card.pair, card.direction)
        assert (made.kind, made.topic) == ("election.made", desk.public_id)
        assert election.opened == made.position
        assert made.content["data"] == {
            "pair": card.pair,
            "direction": card.direction,
            "card": card.name,
            "cardId": card.pk,
        }

    def test_a_desk_that_is_not_connected_cannot_enrol(self, card):
        with pytest.raises(Invalid):
            actions.enrol(desk=a_desk(), card_id=card.pk, actor=SYSTEM)

    def test_enrolling_in_a_retired_card_does_not_enrol_in_the_next(self, card):
        desk = a_connected_desk()
        a_card(name="Evening")
        with pytest.raises(Invalid):
            actions.enrol(desk=desk, card_id=card.pk, actor=SYSTEM)
        assert not Election.objects.exists()


def test_retiring_a_card_lapses_elections_without_touching_them_or_their_desks(card, desk):
    before = Desk.objects.get(pk=desk.pk).updated_at
    actions.retire_card(actor=SYSTEM)
    assert not Election.objects.standing().exists()
    assert Election.objects.get().closed is None
    assert Desk.objects.get(pk=desk.pk).updated_at == before


def test_a_bot_of_a_desk_that_is_not_connected_cannot_elect():
    bot = actions.add_automation(desk=a_desk(), name="Chart", actor=SYSTEM)
    with pytest.raises(Invalid):
        actions.elect(automation=bot, pair="A/B", direction="long", actor=SYSTEM)


def test_a_desk_has_at_most_fifty_bots(desk):
    for _ in range(MAX_BOTS):
        bot = actions.add_automation(desk=desk, name="Chart", actor=SYSTEM)
    with pytest.raises(Invalid):
        actions.add_automation(desk=desk, name="One too many", actor=SYSTEM)
    tokens.remove_automation(automation=bot, actor=SYSTEM)
    actions.add_automation(desk=desk, name="Room again", actor=SYSTEM)


def test_a_deactivated_user_can_neither_connect_nor_enrol_nor_add_a_bot_nor_elect(card):
    desk, connected = a_desk(), a_connected_desk()
    bot = actions.add_automation(desk=connected, name="Chart", actor=SYSTEM)
    User.objects.update(is_active=False)
    for act in (
        lambda: actions.connect(desk=desk, venue="Kraken", actor=SYSTEM),
        lambda: actions.enrol(desk=connected, card_id=card.pk, actor=SYSTEM),
        lambda: actions.add_automation(desk=connected, name="Another", actor=SYSTEM),
        lambda: actions.elect(automation=bot, pair="A/B", direction="long", actor=SYSTEM),
    ):
        with pytest.raises(NotAllowed):
            act()


def test_when_the_event_cannot_be_written_nothing_is_saved(card, monkeypatch):
    desk = a_connected_desk()

    def broken(*args: object, **kwargs: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(log.Turn, "append", broken)
    for act in (
        lambda: actions.enrol(desk=desk, card_id=card.pk, actor=SYSTEM),
        lambda: actions.disconnect(desk=desk, actor=SYSTEM),
        lambda: actions.add_automation(desk=desk, name="Chart", actor=SYSTEM),
        lambda: actions.publish_card(name="X", pair="A/B", direction="long", actor=SYSTEM),
    ):
        with pytest.raises(OSError, match="disk"):
            act()
    assert (Election.objects.count(), Connection.objects.count()) == (0, 1)
    assert (Automation.objects.count(), Card.objects.get()) == (0, card)
    assert Card.objects.get().standing == 0
