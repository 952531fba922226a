"""Actions of customers and the events that they write."""

from typing import Any

import pytest

from desks import actions
from desks.models import Automation, Card, Connection, Desk, Election, User
from desks.models.automation import MAX_BOTS
from events import log
from events.actors import SYSTEM
from events.http.refusals import Invalid, NotAllowed
from events.models import Event
from tests.factories import (
    UserFactory,
    a_bot,
    a_card,
    a_connected_desk,
    a_desk,
    a_ready_desk,
    a_staff_user,
)
from tokens import actions as tokens

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("contiguous")]


@pytest.fixture(autouse=True)
def derived_columns_match(db: None):
    """Checks after each test that a desk's derived columns match its connection and elections."""
    yield
    stored = {desk.pk: (desk.connected, desk.enrolled_id) for desk in Desk.objects.all()}
    assert stored == {desk.pk: (is_connected(desk), enrolled(desk)) for desk in Desk.objects.all()}


def is_connected(desk: Desk) -> bool:
    return Connection.objects.filter(desk=desk).exists()


def enrolled(desk: Desk) -> str | None:
    """The card of the desk's last election on a card, or None if it was withdrawn."""
    last = Election.objects.filter(desk=desk, card__isnull=False, closed=None).last()
    return last.card_id if last and is_connected(desk) else None


def last(number: int = 1) -> list[tuple[str, str | None, dict[str, Any]]]:
    """Kind, topic and data of the last events."""
    events = Event.objects.order_by("-position")[:number]
    return [(e.kind, e.topic, e.content["data"]) for e in events][::-1]


def standing(desk: Desk) -> int:
    return Election.objects.standing().filter(desk=desk).count()


def counted(card: Card) -> int:
    return Card.objects.get(pk=card.pk).standing


class TestOpeningADesk:
    def test_a_second_call_returns_the_same_desk(self):
        user = UserFactory.create()
        desk = actions.open_desk(desk=Desk(user=user), actor=SYSTEM)
        assert desk == actions.open_desk(desk=Desk(user=user), actor=SYSTEM)
        assert last(5) == [("desk.created", desk.public_id, {"venue": None})]

    def test_staff_have_no_desk(self):
        assert actions.open_desk(desk=Desk(user=a_staff_user()), actor=SYSTEM) is None


class TestConnecting:
    def test_it_stores_the_venue_and_the_time_and_writes_an_event(self):
        desk = a_desk()
        actions.connect(desk=desk, venue="Kraken", actor=SYSTEM)
        assert last() == [("desk.connected", desk.public_id, {"venue": "Kraken"})]
        connection, desk = Connection.objects.get(), Desk.objects.get()
        assert connection.connected_at == desk.updated_at == Event.objects.last().at

    def test_connecting_a_connected_desk_is_refused(self):
        desk = a_connected_desk()
        with pytest.raises(Invalid):
            actions.connect(desk=desk, venue="Other", actor=SYSTEM)
        assert Connection.objects.get().venue == "Kraken"

    def test_disconnecting_withdraws_every_election_before_its_own_event(self, card):
        desk = a_ready_desk(card)
        a_bot(desk)
        actions.disconnect(desk=desk, actor=SYSTEM)
        kinds = [kind for kind, _, _ in last(3)]
        assert kinds == ["election.withdrawn", "election.withdrawn", "desk.disconnected"]
        assert {data["reason"] for _, _, data in last(3)[:2]} == {"disconnected"}
        assert (standing(desk), counted(card), Connection.objects.count()) == (0, 0, 0)

    def test_disconnecting_twice_writes_one_event(self):
        desk = a_connected_desk()
        actions.disconnect(desk=desk, actor=SYSTEM)
        actions.disconnect(desk=desk, actor=SYSTEM)
        assert Event.objects.filter(kind="desk.disconnected").count() == 1

    def test_a_deactivated_user_cannot_connect(self):
        desk = a_desk()
        User.objects.update(is_active=False)
        with pytest.raises(NotAllowed):
            actions.connect(desk=desk, venue="Kraken", actor=SYSTEM)


class TestEnrolling:
    def test_it_elects_the_cards_pair_and_direction_from_its_position_on(self, card):
        desk = a_connected_desk()
        actions.enrol(desk=desk, card_id=card.pk, actor=SYSTEM)
        election = Election.objects.get()
        assert (election.pair, election.direction) == (card.pair, card.direction)
        assert election.opened == Event.objects.last().position
        assert last() == [
            (
                "election.made",
                desk.public_id,
                {
                    "pair": card.pair,
                    "direction": card.direction,
                    "card": card.name,
                    "cardId": card.pk,
                },
            )
        ]

    def test_the_card_counts_its_standing_elections(self, card):
        desks = [a_ready_desk(card) for _ in range(3)]
        assert counted(card) == 3
        actions.withdraw(desk=desks[0], actor=SYSTEM)
        assert counted(card) == 2

    def test_enrolling_again_changes_nothing(self, card):
        desk = a_ready_desk(card)
        before = Event.objects.count()
        actions.enrol(desk=desk, card_id=card.pk, actor=SYSTEM)
        assert (Event.objects.count(), counted(card)) == (before, 1)

    def test_a_desk_that_is_not_connected_cannot_enrol(self, card):
        with pytest.raises(Invalid):
            actions.enrol(desk=a_desk(), card_id=card.pk, actor=SYSTEM)

    def test_enrolling_in_a_retired_card_does_not_enrol_in_the_next(self, card):
        desk = a_connected_desk()
        a_card(name="Evening")
        with pytest.raises(Invalid):
            actions.enrol(desk=desk, card_id=card.pk, actor=SYSTEM)
        assert standing(desk) == 0

    def test_a_deactivated_user_cannot_enrol(self, card):
        desk = a_connected_desk()
        User.objects.update(is_active=False)
        with pytest.raises(NotAllowed):
            actions.enrol(desk=desk, card_id=card.pk, actor=SYSTEM)

    def test_withdrawing_has_the_reason_asked(self, card):
        desk = a_ready_desk(card)
        actions.withdraw(desk=desk, actor=SYSTEM)
        [(kind, topic, data)] = last()
        assert (kind, topic, data["reason"]) == ("election.withdrawn", desk.public_id, "asked")
        election = Election.objects.get()
        assert (election.closed, election.reason) == (Event.objects.last().position, "asked")

    def test_withdrawing_twice_writes_one_event(self, card):
        desk = a_ready_desk(card)
        actions.withdraw(desk=desk, actor=SYSTEM)
        actions.withdraw(desk=desk, actor=SYSTEM)
        assert (Event.objects.filter(kind="election.withdrawn").count(), counted(card)) == (1, 0)

    def test_withdrawing_leaves_the_bots_elections(self, card):
        desk = a_ready_desk(card)
        a_bot(desk)
        actions.withdraw(desk=desk, actor=SYSTEM)
        assert standing(desk) == 1


class TestCards:
    def test_publishing_retires_the_previous_card_in_the_same_turn(self, card):
        evening = a_card(name="Evening", pair="ETH/USDT", direction="short")
        assert list(Card.objects.published()) == [evening]
        assert last(2) == [
            ("card.retired", "all", {"card": card.to_dict(), "cardId": card.pk}),
            ("card.published", "all", {"card": evening.to_dict(), "cardId": evening.pk}),
        ]
        retired = Card.objects.get(pk=card.pk)
        assert (retired.closed, evening.opened) == (2, 3)

    def test_retiring_lapses_elections_without_touching_them_or_their_desks(self, card):
        desk = a_ready_desk(card)
        before = Desk.objects.get(pk=desk.pk).updated_at
        actions.retire_card(actor=SYSTEM)
        assert standing(desk) == 0
        assert Election.objects.get().closed is None
        assert Desk.objects.get(pk=desk.pk).updated_at == before

    def test_a_lapsed_election_stays_lapsed_after_the_next_card(self, card):
        desk = a_ready_desk(card)
        again = a_card()
        assert standing(desk) == 0
        assert counted(again) == 0

    def test_retiring_without_a_published_card_writes_no_event(self):
        actions.retire_card(actor=SYSTEM)
        assert Event.objects.count() == 0

    def test_disconnecting_after_the_card_was_retired_withdraws_no_lapsed_election(self, card):
        desk = a_ready_desk(card)
        actions.retire_card(actor=SYSTEM)
        actions.disconnect(desk=desk, actor=SYSTEM)
        assert not Event.objects.filter(kind="election.withdrawn").exists()


class TestAutomations:
    def test_a_new_bot_writes_an_event_for_its_desk(self, desk):
        bot = actions.add_automation(desk=desk, name="Chart", actor=SYSTEM)
        data = {"botId": bot.pk, "name": "Chart"}
        assert last() == [("automation.created", desk.public_id, data)]

    def test_a_desk_has_at_most_fifty(self, desk):
        for _ in range(MAX_BOTS):
            bot = actions.add_automation(desk=desk, name="Chart", actor=SYSTEM)
        with pytest.raises(Invalid):
            actions.add_automation(desk=desk, name="One too many", actor=SYSTEM)
        tokens.remove_automation(automation=bot, actor=SYSTEM)
        actions.add_automation(desk=desk, name="Room again", actor=SYSTEM)

    def test_electing_again_replaces_the_election(self, desk):
        bot = a_bot(desk, "ETH/USDT", "short").automation
        actions.elect(automation=bot, pair="SOL/USDT", direction="long", actor=SYSTEM)
        (_, _, withdrawn), (_, _, made) = last(2)
        assert (withdrawn["reason"], withdrawn["pair"]) == ("replaced", "ETH/USDT")
        assert made == {"pair": "SOL/USDT", "direction": "long", "botId": bot.pk}
        assert Election.objects.standing().filter(automation=bot).count() == 1

    def test_electing_the_same_again_changes_nothing(self, desk):
        bot = a_bot(desk, "ETH/USDT", "short").automation
        before = Event.objects.count()
        actions.elect(automation=bot, pair="ETH/USDT", direction="short", actor=SYSTEM)
        assert Event.objects.count() == before

    def test_a_bot_of_a_desk_that_is_not_connected_cannot_elect(self):
        bot = actions.add_automation(desk=a_desk(), name="Chart", actor=SYSTEM)
        with pytest.raises(Invalid):
            actions.elect(automation=bot, pair="A/B", direction="long", actor=SYSTEM)

    def test_a_removed_bot_cannot_elect(self, desk):
        bot = actions.add_automation(desk=desk, name="Chart", actor=SYSTEM)
        tokens.remove_automation(automation=bot, actor=SYSTEM)
        with pytest.raises(Invalid):
            actions.elect(automation=bot, pair="A/B", direction="long", actor=SYSTEM)

    def test_removing_withdraws_its_election_and_keeps_the_row(self, desk):
        bot = a_bot(desk).automation
        tokens.remove_automation(automation=bot, actor=SYSTEM)
        (_, _, withdrawn), (kind, _, _) = last(2)
        assert (withdrawn["reason"], kind) == ("removed", "automation.removed")
        assert Automation.objects.get(pk=bot.pk).removed_at is not None

    def test_removing_twice_writes_one_event(self, desk):
        bot = a_bot(desk).automation
        tokens.remove_automation(automation=bot, actor=SYSTEM)
        tokens.remove_automation(automation=bot, actor=SYSTEM)
        assert Event.objects.filter(kind="automation.removed").count() == 1

    def test_withdrawing_leaves_the_bot(self, desk):
        bot = a_bot(desk).automation
        actions.withdraw(desk=bot.desk, automation=bot, actor=SYSTEM)
        assert not Election.objects.standing().filter(automation=bot).exists()
        assert Automation.objects.not_removed().filter(pk=bot.pk).exists()

    def test_a_deactivated_user_can_neither_add_nor_elect(self, desk):
        bot = actions.add_automation(desk=desk, name="Chart", actor=SYSTEM)
        User.objects.update(is_active=False)
        with pytest.raises(NotAllowed):
            actions.add_automation(desk=desk, name="Another", actor=SYSTEM)
        with pytest.raises(NotAllowed):
            actions.elect(automation=bot, pair="A/B", direction="long", actor=SYSTEM)


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
    assert (Automation.objects.count(), Card.objects.count(), counted(card)) == (0, 1, 0)
