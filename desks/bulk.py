"""Opens many desks in one turn, with the same rows and events as the actions of each desk."""

from collections.abc import Sequence
from typing import Any

from django.db.models import F

from desks.models import Card, Connection, Desk, Election, User
from events import log
from events.actors import Actor
from events.http.refusals import Invalid
from events.kinds import Kind
from events.log import Entry, Turn

# The events of a ready desk, in order. A desk that is not connected has only the first.
READY_DESK_EVENTS = (Kind.DESK_CREATED, Kind.DESK_CONNECTED, Kind.ELECTION_MADE)


def open_desks(*, users: Sequence[User], actor: Actor) -> list[Desk]:
    """Opens a desk for each user. The desks are not connected."""
    with log.turn(actor=actor) as turn:
        desks = _open(turn, users, events=1)
        turn.append_many([_created(desk) for desk in desks])
    return desks


def open_ready_desks(*, users: Sequence[User], venue: str, card: Card, actor: Actor) -> list[Desk]:
    """Opens a desk for each user, connects it and enrols it in the card.

    Raises ``Invalid`` if the card is not published.
    """
    with log.turn(actor=actor) as turn:
        if not Card.objects.published().filter(pk=card.pk).exists():
            raise Invalid("This card is no longer published. Review the current card.")
        desks = _open(turn, users, events=len(READY_DESK_EVENTS), connected=True, enrolled=card)
        Connection.objects.bulk_create(
            Connection(desk=desk, venue=venue, connected_at=turn.at) for desk in desks
        )
        elections = Election.objects.bulk_create(_elections(turn, desks, card))
        Card.objects.filter(pk=card.pk).update(standing=F("standing") + len(desks))
        turn.append_many(
            [
                entry
                for desk, election in zip(desks, elections, strict=True)
                for entry in (
                    _created(desk),
                    Entry(Kind.DESK_CONNECTED, desk.public_id, {"venue": venue}),
                    Entry(Kind.ELECTION_MADE, desk.public_id, election.as_event_data()),
                )
            ]
        )
    return desks


def _open(turn: Turn, users: Sequence[User], events: int, **state: Any) -> list[Desk]:
    """Opens a desk for each user. ``events`` is how many events follow of each desk."""
    before = turn.next_position() - 1
    return Desk.objects.bulk_create(
        Desk(
            user=user,
            created_at=turn.at,
            updated_at=turn.at,
            changed=before + number * events,
            **state,
        )
        for number, user in enumerate(users, start=1)
    )


def _elections(turn: Turn, desks: Sequence[Desk], card: Card) -> list[Election]:
    """An election for each desk, opened at the position of its last event."""
    return [
        Election(
            desk=desk,
            card=card,
            pair=card.pair,
            direction=card.direction,
            opened=desk.changed,
            elected_at=turn.at,
        )
        for desk in desks
    ]


def _created(desk: Desk) -> Entry:
    return Entry(Kind.DESK_CREATED, desk.public_id, {"venue": None})
