"""What a desk may see of the log: its spans.

A desk sees its own events, public events, and the events of a card while its election on that card
stands. This finds it in the tables, for a page of the log. ``events.live.hub.topic_changes`` finds
it in the events, for a reader that follows the log as it grows. Both say the same.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence

from django.db import connection

from desks.models import Card, Desk, Election
from events.feed import MAX_POSITION, MAX_SPANS_PER_PAGE, Span, Visibility, Window
from events.kinds import EVERYONE
from events.statements import fetch_all

# Every page of the feed runs this statement, so it is handwritten.
ELECTION, CARD = Election._meta.db_table, Card._meta.db_table
# An election ends at the earlier of its own end and its card's (``Election.objects.with_end``).
ENDED = f"""{{least}}(COALESCE({ELECTION}.closed, {MAX_POSITION}),
                      COALESCE({CARD}.closed, {MAX_POSITION}))"""
SPANS = f"""
SELECT {ELECTION}.card_id, {ELECTION}.opened, {ENDED}
FROM {ELECTION} JOIN {CARD} ON {CARD}.id = {ELECTION}.card_id
WHERE {ELECTION}.desk_id = %s AND {ELECTION}.opened < %s AND {ENDED} > %s
ORDER BY {ELECTION}.opened {{order}} LIMIT {MAX_SPANS_PER_PAGE + 1}"""


def desk_visibility(desk: Desk) -> Visibility:
    """What a desk may read: its own events, public events, and the events of cards it enrolled in.

    It may read a card's events only while its election on that card was standing.
    """

    def spans(window: Window) -> Sequence[Span]:
        return [*_always(desk), *_card_spans(desk, window)]

    return spans


def desks_spans(desks: Collection[Desk], window: Window) -> dict[int, Sequence[Span]]:
    """What ``desk_visibility`` finds for each of these desks, by primary key. One statement."""
    cards = _card_spans_of(desks, window)
    return {desk.pk: [*_always(desk), *cards[desk.pk]] for desk in desks}


def _always(desk: Desk) -> list[Span]:
    """What a desk sees whatever it elected."""
    return [Span(desk.public_id), Span(EVERYONE)]


def _card_spans(desk: Desk, window: Window) -> list[Span]:
    """The spans of the cards' topics that the desk sees in this window, in the window's order.

    Returns at most one span more than a page of the feed reads. A desk's spans never overlap, so
    ordering by ``opened`` is chronological.
    """
    least = "LEAST" if connection.vendor == "postgresql" else "MIN"
    statement = SPANS.format(least=least, order="DESC" if window.descending else "ASC")
    return [Span(*row) for row in fetch_all(statement, [desk.pk, window.high, window.low])]


def _card_spans_of(desks: Collection[Desk], window: Window) -> defaultdict[int, list[Span]]:
    """The spans of the cards' topics that each of these desks sees in this window, by primary key.

    Returns all of them, so the window should be short.
    """
    elections = Election.objects.with_end().filter(desk__in=desks, card__isnull=False)
    found = elections.filter(opened__lt=window.high, end__gt=window.low)  # type: ignore[misc]
    spans: defaultdict[int, list[Span]] = defaultdict(list)
    for desk_id, *span in found.values_list("desk_id", "card_id", "opened", "end"):  # type: ignore[misc]
        spans[desk_id].append(Span(*span))
    return spans
