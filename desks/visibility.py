"""What a desk may see of the log: its spans.

A desk sees its own events, public events, and the events of a card while its election on that card
stands. This finds it in the tables, for a page of the log. ``events.live.hub.topic_change`` finds
it in the events, for a reader that follows the log as it grows. Both say the same.
"""

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
SELECT {ELECTION}.desk_id, {ELECTION}.card_id, {ELECTION}.opened, {ENDED}
FROM {ELECTION} JOIN {CARD} ON {CARD}.id = {ELECTION}.card_id
WHERE {ELECTION}.desk_id IN ({{desks}}) AND {ELECTION}.opened < %s AND {ENDED} > %s
ORDER BY {ELECTION}.opened {{order}} {{limit}}"""
# One span more than a page of the feed reads.
LIMIT = f"LIMIT {MAX_SPANS_PER_PAGE + 1}"


def desk_visibility(desk: Desk) -> Visibility:
    """What a desk may read: its own events, public events, and the events of cards it enrolled in.

    It may read a card's events only while its election on that card was standing. Returns at most
    ``LIMIT`` of these. A desk's spans never overlap, so ordering by ``opened`` is chronological.
    """

    def spans(window: Window) -> Sequence[Span]:
        return desks_spans([desk], window, LIMIT)[desk.pk]

    return spans


def desks_spans(desks: Collection[Desk], window: Window, limit: str = "") -> dict[int, list[Span]]:
    """What each of these desks sees in this window, by primary key. One statement.

    Without a limit it returns all spans, so the window should be short.
    """
    found = {desk.pk: [Span(desk.public_id), Span(EVERYONE)] for desk in desks}
    if not found:
        return found
    statement = SPANS.format(
        least="LEAST" if connection.vendor == "postgresql" else "MIN",
        desks=", ".join(["%s"] * len(found)),
        order="DESC" if window.descending else "ASC",
        limit=limit,
    )
    for desk_id, *span in fetch_all(statement, [*found, window.high, window.low]):
        found[desk_id].append(Span(*span))
    return found
