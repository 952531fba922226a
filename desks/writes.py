"""Row changes and checks that the actions share. Each one needs the caller's turn at the log."""

from collections.abc import Callable, Iterable
from typing import Any

from django.db.models import F

from desks.models import Automation, Card, Connection, Desk, Election, User
from desks.models.automation import NOT_EXPECTED
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


class Withdrawals:
    """Elections of a desk that are withdrawn in one turn, with their events.

    ``withdraw`` appends the event of one. ``save`` updates the rows of all: one statement for each
    table, however many they are.
    """

    def __init__(self, turn: log.Turn, desk: Desk, reason: Reason) -> None:
        self._turn, self._desk, self._reason = turn, desk, reason
        self._closed: list[Election] = []

    def withdraw(self, election: Election) -> None:
        election.closed, election.reason = self._turn.next_position(), self._reason
        self._closed.append(election)
        self._turn.append(
            Kind.ELECTION_WITHDRAWN,
            topic=self._desk.public_id,
            data={**election.as_event_data(), "reason": self._reason},
        )

    def save(self) -> None:
        if not self._closed:
            return
        Election.objects.bulk_update(self._closed, ["closed", "reason"])
        last_change = {"changed": self._closed[-1].closed, "updated_at": self._turn.at}
        on_cards = [election.card_id for election in self._closed if election.card_id]
        if on_cards:  # of a desk, only the one on the published card can stand
            Card.objects.filter(pk__in=on_cards).update(standing=F("standing") - 1)
            last_change["enrolled"] = None
        Desk.objects.filter(pk=self._desk.pk).update(**last_change)


def close_elections(
    turn: log.Turn, desk: Desk, elections: Iterable[Election], reason: Reason
) -> None:
    """Withdraws elections of a desk."""
    withdrawals = Withdrawals(turn, desk, reason)
    for election in elections:
        withdrawals.withdraw(election)
    withdrawals.save()


def remove_bots(
    turn: log.Turn,
    desk: Desk,
    bots: Iterable[Automation],
    reason: Reason,
    *,
    end_secrets: Callable[[Automation], None] = lambda bot: None,
) -> None:
    """Removes bots of a desk and withdraws their elections: one statement for each table.

    ``end_secrets`` appends the events of a bot's secrets, which come before the bot's own.
    """
    removed = list(bots)
    if not removed:
        return
    standing = Election.objects.standing().filter(automation__in=removed)
    elections = {election.automation_id: election for election in standing}
    withdrawals = Withdrawals(turn, desk, reason)
    for bot in removed:
        end_secrets(bot)
        if election := elections.get(bot.pk):
            withdrawals.withdraw(election)
        turn.append(Kind.AUTOMATION_REMOVED, topic=desk.public_id, data=bot.as_event_data())
    withdrawals.save()
    rows = Automation.objects.filter(pk__in=[bot.pk for bot in removed])
    rows.update(removed_at=turn.at, **NOT_EXPECTED)


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
