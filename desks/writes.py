"""Row changes and checks that the actions share. Each one needs the caller's turn at the log."""

from typing import Any

from django.db.models import F

from desks.models import Automation, Card, Connection, Desk, Election, User
from desks.models.election import Reason
from events import log
from events.http.refusals import Invalid, NotAllowed
from events.kinds import Kind


def open_election(
    turn: log.Turn,
    desk: Desk,
    pair: str,
    direction: str,
    *,
    card: Card | None = None,
    automation: Automation | None = None,
) -> None:
    """Opens an election on a card or for a bot."""
    election = Election.objects.create(
        desk=desk,
        card=card,
        automation=automation,
        pair=pair,
        direction=direction,
        opened=turn.next_position(),
        elected_at=turn.at,
    )
    update_desk(turn, desk, **({"enrolled": card} if card else {}))
    turn.append(Kind.ELECTION_MADE, topic=desk.public_id, data=election.as_event_data())


def close_election(turn: log.Turn, desk: Desk, election: Election, reason: Reason) -> None:
    """Closes an election."""
    Election.objects.filter(pk=election.pk).update(closed=turn.next_position(), reason=reason)
    if election.card_id:
        Card.objects.filter(pk=election.card_id).update(standing=F("standing") - 1)
    update_desk(turn, desk, **({"enrolled": None} if election.card_id else {}))
    turn.append(
        Kind.ELECTION_WITHDRAWN,
        topic=desk.public_id,
        data={**election.as_event_data(), "reason": reason},
    )


def update_desk(turn: log.Turn, desk: Desk, **columns: Any) -> None:
    """Updates columns of the desk, and the position and time of its last change.

    The position is that of the next event, which the caller appends.
    """
    last_change = {"changed": turn.next_position(), "updated_at": turn.at}
    Desk.objects.filter(pk=desk.pk).update(**last_change, **columns)


def require_connection(desk: Desk) -> None:
    """Raises ``Invalid`` unless the desk is connected."""
    if not Connection.objects.filter(desk=desk).exists():
        raise Invalid("Connect the desk first.")


def refuse_inactive(desk: Desk) -> None:
    """Raises ``NotAllowed`` if the desk's owner is deactivated."""
    if not User.objects.filter(pk=desk.user_id, is_active=True).exists():
        raise NotAllowed("This account was deactivated.")


def refuse_removed(automation: Automation) -> None:
    """Raises ``Invalid`` if the bot was removed."""
    if not Automation.objects.not_removed().filter(pk=automation.pk).exists():
        raise Invalid("This bot was removed.")
