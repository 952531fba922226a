"""What a desk may see of the log: its spans, and the events that change them.

A desk sees its own events, public events, and the events of a card while its election on that card
stands. ``desk_visibility`` finds this in the tables, for a page of the log. ``topic_changes`` finds
it in the events, for a reader that follows the log as it grows. Both say the same.
"""

from collections.abc import Collection, Sequence

from desks.feed.statements import card_spans, card_spans_of
from desks.models import Desk
from events.feed import Span, Visibility, Window
from events.kinds import EVERYONE, Kind
from events.live.readers import Change
from events.models import Event


def desk_visibility(desk: Desk) -> Visibility:
    """What a desk may read: its own events, public events, and the events of cards it enrolled in.

    It may read a card's events only while its election on that card was standing.
    """

    def spans(window: Window) -> Sequence[Span]:
        return [*_always(desk), *card_spans(desk, window)]

    return spans


def desks_spans(desks: Collection[Desk], window: Window) -> dict[int, Sequence[Span]]:
    """What ``desk_visibility`` finds for each of these desks, by primary key. One statement."""
    cards = card_spans_of(desks, window)
    return {desk.pk: [*_always(desk), *cards[desk.pk]] for desk in desks}


def _always(desk: Desk) -> list[Span]:
    """What a desk sees whatever it elected."""
    return [Span(desk.public_id), Span(EVERYONE)]


def topic_changes(event: Event) -> Sequence[Change]:
    """Which readers begin or cease to see a card's topic behind this event."""
    if event.kind not in (Kind.ELECTION_MADE, Kind.ELECTION_WITHDRAWN, Kind.CARD_RETIRED):
        return ()
    card_id = event.content["data"].get("cardId")
    if card_id is None:  # an election on a bot
        return ()
    if event.kind == Kind.CARD_RETIRED:
        return (Change(card_id, opens=False),)
    return (Change(card_id, opens=event.kind == Kind.ELECTION_MADE, readers_of=event.topic),)
