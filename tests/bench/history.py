"""A long log, inserted with SQL, which the audit proves as it proves one that the service wrote.

One signal or refusal of each kind goes through the API. They are taken out of the log again, and
copied with a position, a time and names of their own. Of twenty events ten fill one desk or another
and two the first desk, which so has a long feed. Three are fan-outs and three are signals of a bot.
One is a refusal of the bot's, and one is a refusal that only the platform sees.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg

from tests.bench.growth import connect
from tests.server import Server

A_DAY = 100_000  # events: a log that is longer is older, and no busier
STEP = 86_400_000 // A_DAY * 1000  # microseconds between two events, in whole milliseconds
CHUNK = 100_000  # events that one statement inserts
TABLES = ("events_event", "signals_signal")

# What was seeded moves back in time: all columns, and what events say of them.
AGE = """
DO $$
DECLARE aged record;
BEGIN
    FOR aged IN
        SELECT table_name, string_agg(format('%1$I = %1$I - interval ''{days} days''', column_name),
                                      ', ') AS columns
        FROM information_schema.columns
        JOIN information_schema.tables USING (table_name, table_schema)
        WHERE table_schema = 'public' AND data_type = 'timestamp with time zone'
          AND table_type = 'BASE TABLE' AND table_name ~ '^(desks|events|signals|tokens)_'
        GROUP BY table_name
    LOOP
        EXECUTE format('UPDATE %I SET %s', aged.table_name, aged.columns);
    END LOOP;
    UPDATE events_event SET content = jsonb_set(content, '{{data,createdAt}}', to_jsonb(
        to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')))
    WHERE content #> '{{data,createdAt}}' IS NOT NULL;
END $$
"""
# The copied ones stand at the end of the log. What is an event's own is put into a text with
# ``format``, which takes less time than the operators of ``jsonb``.
TAKE_OUT = """
CREATE TEMPORARY TABLE taken AS
    SELECT row_number() OVER (ORDER BY event.position) AS number, kind, actor_type, actor_id, topic,
        content, platform_content, signal
    FROM events_event AS event LEFT JOIN signals_signal AS signal USING (position)
    WHERE event.position > {head};
CREATE UNLOGGED TABLE copied AS
    SELECT number, kind, actor_type, actor_id, topic, signal,
        pg_temp.with_places(content, number) AS content,
        pg_temp.with_places(platform_content, number) AS platform_content
    FROM taken;
DELETE FROM events_event WHERE position > {head};
DELETE FROM signals_signal WHERE position > {head};
UPDATE events_head SET position = {head}, at = (SELECT max(at) FROM events_event)
"""
WITH_PLACES = """
CREATE FUNCTION pg_temp.with_places(content jsonb, number bigint) RETURNS text LANGUAGE sql AS $$
    SELECT CASE WHEN content ->> 'signal' IS NULL THEN content::text
        ELSE replace((content || jsonb_build_object('signal', content -> 'signal'
            || '{"id": "%1$s", "receivedAt": "%2$s", "position": "%3$s"}'
            || CASE WHEN content -> 'signal' ? 'nonce' THEN '{"nonce": "%4$s"}'::jsonb ELSE '{}' END
            || CASE number WHEN 1 THEN '{"userId": "%5$s"}'::jsonb ELSE '{}' END
        ))::text, '"%3$s"', '%3$s') END
$$
"""
# By their numbers, in the order in which they were sent: to one desk, to all, of a bot, and two
# refusals.
SLOTS = [1] * 12 + [2] * 3 + [3] * 3 + [4, 5]
TO_FIRST_DESK = (10, 11)  # slots
NUMBERED = """
WITH ready AS (
    SELECT array_agg(public_id ORDER BY id) AS desks FROM desks_desk WHERE enrolled_id IS NOT NULL
), numbered AS (
    SELECT copied.*, (signal).*, head.position + i AS here,
        head.at + i * interval '{step} microseconds' AS now,
        to_char((head.at + i * interval '{step} microseconds') AT TIME ZONE 'UTC',
                'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS stamp,
        CASE WHEN kind <> 'signal.refused' THEN 'sig_' || left(md5('signal ' || i), 22) END AS sig,
        md5('nonce ' || i) AS its_nonce,
        CASE WHEN number > 1 THEN (signal).user_id
             WHEN i % {slots} IN {first} THEN ready.desks[1]
             ELSE ready.desks[1 + (i * 7919::bigint) % cardinality(ready.desks)] END AS desk
    FROM events_head AS head, ready, generate_series({begin}::bigint, {end}) AS i
    JOIN copied ON copied.number = (ARRAY{order})[1 + i % {slots}]
)
"""
INSERT_SIGNALS = """
INSERT INTO signals_signal (position, public_id, signer, nonce, source, mode, outcome, pair,
    direction, fanout, user_id, bot_id, card_id, credential, received_at, matched, filled)
SELECT here, sig, signer, its_nonce, source, mode, outcome, pair,
    direction, fanout, desk, bot_id, card_id, credential, now, matched, filled
FROM numbered WHERE sig IS NOT NULL
"""
INSERT_EVENTS = """
INSERT INTO events_event
    (position, kind, at, actor_type, actor_id, topic, signal_id, content, platform_content)
SELECT here, kind, now, actor_type, actor_id, CASE number WHEN 1 THEN desk ELSE topic END, sig,
    format(content, sig, stamp, here, its_nonce, desk)::jsonb,
    format(platform_content, sig, stamp, here, its_nonce, desk)::jsonb
FROM numbered
"""
# The head moves last, so that each chunk counts from the same position.
MOVE_HEAD = """
UPDATE events_head AS head SET position = last.position, at = last.at
FROM (SELECT position, at FROM events_event ORDER BY position DESC LIMIT 1) AS last
"""
INDEXES = """
SELECT format('DROP INDEX %%I', indexname), indexdef FROM pg_indexes
WHERE tablename = ANY(%(tables)s) AND indexname NOT IN (SELECT conname FROM pg_constraint)
UNION ALL
SELECT format('ALTER TABLE %%s DROP CONSTRAINT %%I', conrelid::regclass, conname),
       format('ALTER TABLE %%s ADD CONSTRAINT %%I %%s', conrelid::regclass, conname,
              pg_get_constraintdef(oid))
FROM pg_constraint WHERE contype = 'u' AND conrelid::regclass::text = ANY(%(tables)s)
"""


def lengthen(server: Server, head: int, events: int) -> None:
    """Adds so many events after position ``head``. The events behind it are copied, and removed.

    Those are five: a deploy, a fan-out, a signal of a bot, a refusal of the bot's, and one that
    only the platform sees.
    """
    with connect(server) as connection:
        for setting in ("synchronous_commit = off", "maintenance_work_mem = '1GB'"):
            connection.execute(f"SET {setting}")  # type: ignore[call-overload]
        _run(connection, AGE.format(days=-(-events // A_DAY)))
        _run(connection, WITH_PLACES)
        for statement in TAKE_OUT.format(head=head).split(";\n"):
            _run(connection, statement)
        with _without_indexes(connection):
            _insert_all(server, events)
        _run(connection, "DROP TABLE copied")
        _run(connection, MOVE_HEAD)
        _run(connection, "VACUUM ANALYZE")
        _run(connection, "CHECKPOINT")


def _insert_all(server: Server, events: int) -> None:
    def insert(begin: int) -> None:
        end = min(begin + CHUNK - 1, events)
        numbered = NUMBERED.format(
            begin=begin, end=end, step=STEP, slots=len(SLOTS), order=SLOTS, first=TO_FIRST_DESK
        )
        with connect(server) as connection:
            connection.execute("SET synchronous_commit = off")
            for statement in (INSERT_SIGNALS, INSERT_EVENTS):
                _run(connection, numbered + statement)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        list(threads.map(insert, range(1, events + 1, CHUNK)))


@contextmanager
def _without_indexes(connection: psycopg.Connection) -> Iterator[None]:
    """Builds the indexes at the end, which takes a fraction of the time."""
    indexes = connection.execute(INDEXES, {"tables": list(TABLES)}).fetchall()
    for drop, _ in indexes:
        _run(connection, drop)
    yield
    for _, create in indexes:
        _run(connection, create)


def _run(connection: psycopg.Connection, statement: str) -> None:
    connection.execute(statement)  # type: ignore[call-overload]
