"""What changes a customer's desk, and the publishing of cards.

Each is one turn at the log: the state is read again under the lock, the rows change, and the event
that says so is written in the same transaction. Called inside another turn, they are a part of it.
"""

from typing import Any

from django.db.models import F

from desks.models import Automation, Card, Connection, Desk, Election, User
from desks.models.automation import MOST_BOTS
from desks.models.election import Reason
from events import log
from events.kinds import EVERYONE, Kind
from events.refusals import Invalid, NotAllowed


def open_desk(*, user: User) -> Desk | None:
    """The user's desk, made if it is not there yet. Staff have none (contract, section 1)."""
    if user.is_staff:
        return None
    with log.turn() as turn:
        desk, made = Desk.objects.get_or_create(
            user=user, defaults={"created_at": turn.at, "updated_at": turn.at}
        )
        if made:
            turn.append(Kind.DESK_CREATED, topic=desk.public_id, data={"venue": None})
    return desk


def connect(*, desk: Desk, venue: str) -> None:
    """Connects the desk to a venue; its owner has confirmed that the access is trade-only."""
    with log.turn() as turn:
        _refuse_inactive(desk)
        _, made = Connection.objects.get_or_create(
            desk=desk, defaults={"venue": venue, "connected_at": turn.at}
        )
        if not made:
            raise Invalid("This desk is connected already. Disconnect it first.")
        _touch(turn, desk, connected=True)
        turn.append(Kind.DESK_CONNECTED, topic=desk.public_id, data={"venue": venue})


def disconnect(*, desk: Desk, reason: Reason = Reason.DISCONNECTED) -> None:
    """Disconnects the desk, which withdraws every election of it."""
    with log.turn() as turn:
        connection = Connection.objects.filter(desk=desk).first()
        if connection is None:
            return
        for election in Election.objects.standing().filter(desk=desk):
            _withdraw(turn, desk, election, reason)
        connection.delete()
        _touch(turn, desk, connected=False, enrolled=None)
        turn.append(Kind.DESK_DISCONNECTED, topic=desk.public_id, data={"venue": connection.venue})


def enrol(*, desk: Desk, card_id: str) -> None:
    """Elects the published card for the desk: the one that its owner was shown, or none.

    Raises ``Invalid`` where that card is no longer the published one, or the desk not connected.
    """
    with log.turn() as turn:
        _refuse_inactive(desk)
        _require_connection(desk)
        card = Card.objects.published().filter(pk=card_id).first()
        if card is None:
            raise Invalid("This card is no longer published. Look at the one that is.")
        if Election.objects.standing().filter(desk=desk, card=card).exists():
            return
        _elect(turn, desk, card.pair, card.direction, card=card)
        Card.objects.filter(pk=card.pk).update(standing=F("standing") + 1)


def withdraw_from_card(*, desk: Desk) -> None:
    """Withdraws the desk's election on the published card, if one stands."""
    with log.turn() as turn:
        for election in Election.objects.standing().filter(desk=desk, card__isnull=False):
            _withdraw(turn, desk, election, Reason.ASKED)


def add_automation(*, desk: Desk, name: str) -> Automation:
    """A new bot of this desk; raises ``Invalid`` beyond 50."""
    with log.turn() as turn:
        _refuse_inactive(desk)
        if Automation.objects.kept().filter(desk=desk).count() >= MOST_BOTS:
            raise Invalid(f"A desk has at most {MOST_BOTS} bots. Remove one first.")
        automation = Automation.objects.create(desk=desk, name=name, created_at=turn.at)
        turn.append(
            Kind.AUTOMATION_CREATED,
            topic=desk.public_id,
            data={"botId": automation.pk, "name": name},
        )
    return automation


def remove_automation(*, automation: Automation, reason: Reason = Reason.REMOVED) -> None:
    """Removes a bot and withdraws its election. Its secrets are ended by ``tokens.actions``."""
    with log.turn() as turn:
        desk = automation.desk
        if not Automation.objects.kept().filter(pk=automation.pk).exists():
            return
        for election in Election.objects.standing().filter(automation=automation):
            _withdraw(turn, desk, election, reason)
        Automation.objects.filter(pk=automation.pk).update(removed_at=turn.at)
        turn.append(
            Kind.AUTOMATION_REMOVED,
            topic=desk.public_id,
            data={"botId": automation.pk, "name": automation.name},
        )


def elect(*, automation: Automation, pair: str, direction: str) -> None:
    """Elects a pair and a direction for a bot; one that stood before is withdrawn as replaced."""
    with log.turn() as turn:
        desk = automation.desk
        _refuse_inactive(desk)
        _require_connection(desk)
        if not Automation.objects.kept().filter(pk=automation.pk).exists():
            raise Invalid("This bot was removed.")
        standing = Election.objects.standing().filter(automation=automation).first()
        if standing is not None:
            if (standing.pair, standing.direction) == (pair, direction):
                return
            _withdraw(turn, desk, standing, Reason.REPLACED)
        _elect(turn, desk, pair, direction, automation=automation)


def withdraw_from_automation(*, automation: Automation) -> None:
    """Withdraws a bot's election, if one stands."""
    with log.turn() as turn:
        for election in Election.objects.standing().filter(automation=automation):
            _withdraw(turn, automation.desk, election, Reason.ASKED)


def publish_card(*, name: str, pair: str, direction: str) -> Card:
    """Publishes a new card; the one before it is retired, and the elections on it lapse."""
    with log.turn() as turn:
        retire_card()
        card = Card.objects.create(
            name=name,
            pair=pair,
            direction=direction,
            opened=turn.next_position(),
            published_at=turn.at,
        )
        turn.append(Kind.CARD_PUBLISHED, topic=EVERYONE, data={"card": card.as_json()})
    return card


def retire_card(*, card: Card | None = None) -> None:
    """Retires the published card. It closes one row: the elections on it lapse by that.

    Raises ``Invalid`` where ``card`` is given and is no longer the published one.
    """
    with log.turn() as turn:
        published = Card.objects.published().first()
        if card is not None and card != published:
            raise Invalid("This card was retired meanwhile.")
        if published is None:
            return
        ended = {"closed": turn.next_position(), "retired_at": turn.at}
        Card.objects.filter(pk=published.pk).update(**ended)
        turn.append(Kind.CARD_RETIRED, topic=EVERYONE, data={"card": published.as_json()})


def _elect(
    turn: log.Turn,
    desk: Desk,
    pair: str,
    direction: str,
    *,
    card: Card | None = None,
    automation: Automation | None = None,
) -> None:
    election = Election.objects.create(
        desk=desk,
        card=card,
        automation=automation,
        pair=pair,
        direction=direction,
        opened=turn.next_position(),
        elected_at=turn.at,
    )
    _touch(turn, desk, **({"enrolled": card} if card else {}))
    turn.append(Kind.ELECTION_MADE, topic=desk.public_id, data=election.as_json())


def _withdraw(turn: log.Turn, desk: Desk, election: Election, reason: Reason) -> None:
    Election.objects.filter(pk=election.pk).update(closed=turn.next_position())
    if election.card_id:
        Card.objects.filter(pk=election.card_id).update(standing=F("standing") - 1)
    _touch(turn, desk, **({"enrolled": None} if election.card_id else {}))
    turn.append(
        Kind.ELECTION_WITHDRAWN,
        topic=desk.public_id,
        data={**election.as_json(), "reason": reason},
    )


def _touch(turn: log.Turn, desk: Desk, **changed: Any) -> None:
    Desk.objects.filter(pk=desk.pk).update(updated_at=turn.at, **changed)


def _require_connection(desk: Desk) -> None:
    if not Connection.objects.filter(desk=desk).exists():
        raise Invalid("Connect the desk first.")


def _refuse_inactive(desk: Desk) -> None:
    if not User.objects.filter(pk=desk.user_id, is_active=True).exists():
        raise NotAllowed("This account was deactivated.")
