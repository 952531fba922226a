"""Inserts millions of desks, events and signals with SQL, to measure a large service.

Each desk is connected and stands on the published card. Of every ten events behind their elections
six fill one desk or another, two are fan-outs, one fills the first desk, which so has a long feed,
and one is a refusal that only the platform sees.
"""

import psycopg

from tests.server import Server

START = 10_000_000  # the first id, far above those of ``seed``
FEED_OF = "usr_grown1"

ROWS = """
INSERT INTO desks_user
    (id, password, is_superuser, email, is_active, is_staff, date_joined, time_zone, theme)
SELECT {start} + i, '', false, 'grown-' || i || '@example.com', true, false, now(), '', 'system'
FROM generate_series(1, {desks}) AS i;
INSERT INTO desks_desk
    (id, public_id, user_id, created_at, updated_at, changed, connected, enrolled_id, deactivated)
SELECT {start} + i, 'usr_grown' || i, {start} + i, now(), now(), head.position + i, true,
    card.id, false
FROM desks_card AS card, events_head AS head, generate_series(1, {desks}) AS i;
INSERT INTO desks_connection (desk_id, venue, connected_at)
SELECT {start} + i, 'Kraken', now() FROM generate_series(1, {desks}) AS i;
INSERT INTO desks_election (desk_id, card_id, pair, direction, opened, elected_at)
SELECT {start} + i, card.id, card.pair, card.direction, head.position + i, now()
FROM desks_card AS card, events_head AS head, generate_series(1, {desks}) AS i;
INSERT INTO events_event (position, kind, at, topic, content)
SELECT head.position + i, 'election.made', now(), 'usr_grown' || i,
       jsonb_build_object('signal', NULL, 'data', jsonb_build_object('card', card.name))
FROM desks_card AS card, events_head AS head, generate_series(1, {desks}) AS i;
INSERT INTO signals_signal (position, public_id, signer, nonce, source, mode, outcome, pair,
    direction, fanout, user_id, card_id, credential, received_at, matched, filled)
SELECT head.position + i, 'sig_grown' || i, 'floor', 'grown-' || i, 'floor', 'paper', 'filled',
    card.pair, card.direction, i % 10 IN (6, 7),
    CASE WHEN i % 10 = 8 THEN '{feed_of}'
         WHEN i % 10 < 6 THEN 'usr_grown' || 1 + (i * 7919::bigint) % {desks} END,
    card.id, 'tok_grown', now(), 1, 1
FROM desks_card AS card, events_head AS head, generate_series({desks} + 1, {events}) AS i
WHERE i % 10 <> 9;
INSERT INTO events_event (position, kind, at, topic, signal_id, content, platform_content)
SELECT position, 'signal.filled', received_at, COALESCE(user_id, card_id), public_id,
    jsonb_build_object('data', jsonb_build_object(), 'signal', said.signal - 'nonce'),
    jsonb_build_object('data', jsonb_build_object('matched', 1, 'filled', 1), 'signal', said.signal)
FROM signals_signal, LATERAL (SELECT jsonb_build_object(
    'id', public_id, 'source', source, 'mode', mode, 'pair', pair, 'direction', direction,
    'nonce', nonce, 'fanout', fanout, 'userId', user_id, 'botId', NULL, 'traceId', NULL,
    'sizeQuote', NULL, 'rationale', NULL, 'decisionRef', NULL, 'receivedAt', received_at,
    'position', position) AS signal) AS said
WHERE public_id LIKE 'sig_grown%';
INSERT INTO events_event (position, kind, at, content)
SELECT head.position + i, 'signal.refused', now(),
    jsonb_build_object('signal', NULL, 'data', jsonb_build_object('code', 'nonce_used'))
FROM events_head AS head, generate_series({desks} + 1, {events}) AS i WHERE i % 10 = 9;
UPDATE desks_card SET standing = standing + {desks};
UPDATE events_head SET position = position + {events};
"""


def rows(desks: int, events: int) -> str:
    """The SQL statements that insert the rows."""
    return ROWS.format(start=START, desks=desks, events=events, feed_of=FEED_OF)


def grow(server: Server, desks: int, events: int) -> None:
    """Inserts desks with an election on the card, and consecutive events."""
    with connect(server) as connection:
        connection.execute("SET synchronous_commit = off")
        for statement in rows(desks, events).split(";\n"):
            if statement.strip():
                connection.execute(statement)  # type: ignore[call-overload]
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")


def connect(server: Server) -> psycopg.Connection:
    """A new connection to the server's database."""
    url = server.environment["DATABASE_URL"].replace("postgres://", "postgresql://", 1)
    return psycopg.connect(url, autocommit=True)
