"""Many ready desks at once, inserted by SQL without events.

For performance tests only: their elections name positions that have no event.
"""

from django.db import connection
from django.db.models import F

from desks.models import Card
from events.models import Head

NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count}) "

USERS = """INSERT INTO desks_user
(id, password, is_superuser, email, is_active, is_staff, date_joined, time_zone, theme)
SELECT {start} + i, '', {no}, 'crowd-' || i || '@example.com', {yes}, {no}, '{now}', '',
    'system' FROM n"""
DESKS = """INSERT INTO desks_desk
(id, public_id, user_id, created_at, updated_at, changed, connected, enrolled_id, deactivated)
SELECT {start} + i, 'usr_crowd' || i, {start} + i, '{now}', '{now}', {head} + i, {yes},
    '{card}', {no} FROM n"""
CONNECTIONS = """INSERT INTO desks_connection (desk_id, venue, connected_at)
SELECT {start} + i, 'Kraken', '{now}' FROM n"""
ELECTIONS = """INSERT INTO desks_election (desk_id, card_id, pair, direction, opened, elected_at)
SELECT {start} + i, '{card}', '{pair}', '{direction}', {head} + i, '{now}' FROM n"""


def a_crowd(card: Card, count: int) -> None:
    """Inserts ``count`` more desks with a standing election on the card."""
    head = Head.objects.get().position
    values = {
        "count": count,
        "start": 1_000_000,
        "head": head,
        "card": card.pk,
        "pair": card.pair,
        "direction": card.direction,
        "now": card.published_at.isoformat(),
        "yes": "TRUE",
        "no": "FALSE",
    }
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET LOCAL statement_timeout = 0")  # rows by the hundred thousand
        for statement in (USERS, DESKS, CONNECTIONS, ELECTIONS):
            cursor.execute((NUMBERS + statement).format(**values))
    Head.objects.update(position=head + count)
    Card.objects.filter(pk=card.pk).update(standing=F("standing") + count)
