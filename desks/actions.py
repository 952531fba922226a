"""Actions that change a desk, and that publish and retire cards.

Each action is one turn at the log. Under the lock it rereads the state, changes the rows and writes
the event, all in one transaction. An action that is called inside another turn joins that turn.

Withdrawals have no rate limit. So a withdrawal first checks without the lock whether there is
anything to withdraw, and takes no turn if there is not. It checks again under the lock.
"""

from django.db.models import F

from desks.models import Automation, Card, Connection, Desk, Election
from desks.models.automation import MAX_BOTS
from desks.models.election import ElectionQuerySet, Reason
from desks.writes import (
    close_elections,
    open_election,
    refuse_inactive,
    refuse_removed,
    remove_bots,
    require_connection,
    update_desk,
)
from events import log
from events.actors import Actor
from events.http.names import require_name
from events.http.refusals import Invalid
from events.kinds import EVERYONE, Kind


def open_desk(*, desk: Desk, actor: Actor) -> Desk | None:
    """Saves a new desk and returns it. Returns the existing desk if the user already has one.

    Returns None for staff, who have no desk (contract, section 1). ``desk`` is an unsaved instance,
    so that its owner can be the ``actor``.
    """
    if desk.user.is_staff:
        return None
    with log.turn(actor=actor) as turn:
        opened = Desk.objects.filter(user=desk.user).first()
        if opened is not None:
            return opened
        desk.created_at = desk.updated_at = turn.at
        desk.changed = turn.next_position()
        desk.save(force_insert=True)
        turn.append(Kind.DESK_CREATED, topic=desk.public_id, data={"venue": None})
    return desk


def connect(*, desk: Desk, venue: str, actor: Actor) -> None:
    """Connects the desk to a venue. The caller checks that the owner confirmed trade-only access.

    Raises ``Invalid`` if the desk is already connected.
    """
    require_name(venue, field="venue")
    with log.turn(actor=actor) as turn:
        refuse_inactive(desk)
        _, created = Connection.objects.get_or_create(
            desk=desk, defaults={"venue": venue, "connected_at": turn.at}
        )
        if not created:
            raise Invalid("This desk is already connected. Disconnect it first.")
        update_desk(turn, desk, connected=True)
        turn.append(Kind.DESK_CONNECTED, topic=desk.public_id, data={"venue": venue})


def disconnect(*, desk: Desk, actor: Actor, reason: Reason = Reason.DISCONNECTED) -> None:
    """Disconnects the desk and withdraws all of its elections."""
    connections = Connection.objects.filter(desk=desk)
    if not connections.exists():
        return
    with log.turn(actor=actor) as turn:
        connection = connections.first()
        if connection is None:
            return
        standing = Election.objects.standing().filter(desk=desk).select_related("card")
        close_elections(turn, desk, standing, reason)
        connection.delete()
        update_desk(turn, desk, connected=False, enrolled=None)
        turn.append(Kind.DESK_DISCONNECTED, topic=desk.public_id, data={"venue": connection.venue})


def deactivate_desk(*, desk: Desk, actor: Actor) -> None:
    """Removes the desk from lists. ``tokens.actions.deactivate`` deactivates its owner."""
    _set_deactivated(desk, actor, True, Kind.DESK_DEACTIVATED)


def reactivate_desk(*, desk: Desk, actor: Actor) -> None:
    """Lists the desk again. It is still disconnected and has no elections."""
    _set_deactivated(desk, actor, False, Kind.DESK_REACTIVATED)


def close_desk(*, desk: Desk, actor: Actor) -> None:
    """Removes the desk from lists for good. ``tokens.closing`` closes its owner's account."""
    _set_deactivated(desk, actor, True, Kind.DESK_CLOSED)


def enrol(*, desk: Desk, card_id: str, actor: Actor) -> None:
    """Enrols the desk in the published card.

    Raises ``Invalid`` if ``card_id`` is not the published card or the desk is not connected.
    """
    with log.turn(actor=actor) as turn:
        refuse_inactive(desk)
        require_connection(desk)
        card = Card.objects.published().filter(pk=card_id).first()
        if card is None:
            raise Invalid("This card is no longer published. Review the current card.")
        if Election.objects.standing().filter(desk=desk, card=card).exists():
            return
        open_election(turn, desk, card.pair, card.direction, card=card)
        Card.objects.filter(pk=card.pk).update(standing=F("standing") + 1)


def withdraw_from_card(*, desk: Desk, actor: Actor) -> None:
    """Withdraws the desk's election on the published card, if there is one."""
    _withdraw(Election.objects.standing().filter(desk=desk, card__isnull=False), desk, actor)


def add_automation(*, desk: Desk, name: str, actor: Actor) -> Automation:
    """Adds a bot to the desk. Raises ``Invalid`` if it already has ``MAX_BOTS``."""
    require_name(name)
    with log.turn(actor=actor) as turn:
        refuse_inactive(desk)
        if Automation.objects.not_removed().filter(desk=desk).count() >= MAX_BOTS:
            raise Invalid(f"A desk has at most {MAX_BOTS} bots. Remove one first.")
        automation = Automation.objects.create(desk=desk, name=name, created_at=turn.at)
        data = automation.as_event_data()
        turn.append(Kind.AUTOMATION_CREATED, topic=desk.public_id, data=data)
    return automation


def remove_automation(
    *, automation: Automation, actor: Actor, reason: Reason = Reason.REMOVED
) -> None:
    """Removes a bot and withdraws its election. ``tokens.actions`` ends its secrets."""
    current = Automation.objects.not_removed().filter(pk=automation.pk)
    if current.exists():
        with log.turn(actor=actor) as turn:
            remove_bots(turn, automation.desk, current.all(), reason)


def elect(*, automation: Automation, pair: str, direction: str, actor: Actor) -> None:
    """Elects a pair and a direction for a bot, and withdraws its previous election as replaced.

    Raises ``Invalid`` if the desk is not connected or the bot was removed.
    """
    with log.turn(actor=actor) as turn:
        desk = automation.desk
        refuse_inactive(desk)
        require_connection(desk)
        refuse_removed(automation)
        standing = Election.objects.standing().filter(automation=automation).first()
        if standing is not None:
            if (standing.pair, standing.direction) == (pair, direction):
                return
            close_elections(turn, desk, [standing], Reason.REPLACED)
        open_election(turn, desk, pair, direction, automation=automation)


def withdraw_from_automation(*, automation: Automation, actor: Actor) -> None:
    """Withdraws a bot's election, if there is one."""
    elections = Election.objects.standing().filter(automation=automation)
    _withdraw(elections, automation.desk, actor)


def publish_card(
    *, name: str, pair: str, direction: str, actor: Actor, retires: str | None = None
) -> Card:
    """Publishes a new card and retires the previous one. The elections on that one lapse.

    ``retires`` is the id of the card that the caller agreed to retire, empty for none. Raises
    ``Invalid`` if it is given and another card is published by now, or none.
    """
    require_name(name)
    with log.turn(actor=actor) as turn:
        published = Card.objects.published().first()
        if retires not in (None, published.pk if published else ""):
            raise Invalid("The published card has changed. Check again what is retired.")
        retire_card(actor=actor)
        card = Card.objects.create(
            name=name,
            pair=pair,
            direction=direction,
            opened=turn.next_position(),
            published_at=turn.at,
        )
        turn.append(Kind.CARD_PUBLISHED, topic=EVERYONE, data=card.as_event_data())
    return card


def retire_card(*, actor: Actor, card: Card | None = None) -> None:
    """Retires the published card. Closing the card's row ends every election on it.

    Raises ``Invalid`` if ``card`` is given and is not the published card.
    """
    with log.turn(actor=actor) as turn:
        published = Card.objects.published().first()
        if card is not None and card != published:
            raise Invalid("This card was already retired.")
        if published is None:
            return
        ended = {"closed": turn.next_position(), "retired_at": turn.at}
        Card.objects.filter(pk=published.pk).update(**ended)
        turn.append(Kind.CARD_RETIRED, topic=EVERYONE, data=published.as_event_data())


def _withdraw(elections: ElectionQuerySet, desk: Desk, actor: Actor) -> None:
    if elections.exists():
        with log.turn(actor=actor) as turn:
            close_elections(turn, desk, elections.select_related("card"), Reason.ASKED)


def _set_deactivated(desk: Desk, actor: Actor, deactivated: bool, kind: Kind) -> None:
    with log.turn(actor=actor) as turn:
        if Desk.objects.filter(pk=desk.pk, deactivated=deactivated).exists():
            return
        update_desk(turn, desk, deactivated=deactivated)
        turn.append(kind, topic=desk.public_id, data={"venue": None})
