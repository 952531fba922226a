"""What must hold of the database, in SQL: each statement finds the ids of what breaks a promise.

Most promises compare two sets: what the rows say, and what the log says. Every comparison is the
database's own work, so that a log of any length is audited in a bounded memory.
"""

from typing import NamedTuple

from desks.models import Automation, Card, Connection, Desk, Election
from events.models import Event, Head
from signals.models import Signal
from tokens.models import SigningSecret, Token

HEAD, EVENT = Head._meta.db_table, Event._meta.db_table
DESK, CONNECTION = Desk._meta.db_table, Connection._meta.db_table
CARD, ELECTION = Card._meta.db_table, Election._meta.db_table
AUTOMATION, SIGNAL = Automation._meta.db_table, Signal._meta.db_table
TOKEN, SECRET = Token._meta.db_table, SigningSecret._meta.db_table


class Promise(NamedTuple):
    """``says`` what holds of a number of things; ``broken`` selects the id of each that breaks it.

    ``counted`` selects how many things were looked at.
    """

    says: str
    counted: str
    broken: str


def _of(says: str, table: str, broken: str) -> Promise:
    return Promise(says, f"SELECT COUNT(*) FROM {table}", broken)


def _alike(says: str, rows: str, told: str) -> Promise:
    """The rows and the log tell the same. The first column of both is the id of what is told of."""
    return Promise(
        says,
        f"SELECT COUNT(*) FROM ({rows}) AS kept",
        f"""
WITH kept AS ({rows}), told AS ({told})
SELECT id FROM (SELECT * FROM kept EXCEPT SELECT * FROM told) AS untold
UNION SELECT id FROM (SELECT * FROM told EXCEPT SELECT * FROM kept) AS unkept""",
    )


def _times(kind: str) -> str:
    return f"SUM(CASE kind WHEN '{kind}' THEN 1 ELSE 0 END)"


# --- The log ----------------------------------------------------------------------------------

# The position behind the head is a mark too: so the events end where the counter says.
CONTIGUOUS = _of(
    "events: positions are contiguous from 1 to the head",
    EVENT,
    f"""
WITH marks AS (
    SELECT position FROM {EVENT}
    UNION ALL SELECT COALESCE(MAX(position), -1) + 1 FROM {HEAD}),
neighbours AS (
    SELECT position, LAG(position, 1, CAST(0 AS bigint)) OVER (ORDER BY position) AS before
    FROM marks)
SELECT 'evt_' || (before + 1) AS id FROM neighbours WHERE position <> before + 1""",
)

# --- Signals ----------------------------------------------------------------------------------

ONE_EVENT = _alike(
    "signals: each has exactly one event, which says what became of it, and such an event a signal",
    f"""
SELECT public_id AS id, position, 'signal.' || outcome AS kind,
       CASE WHEN user_id IS NULL AND outcome = 'filled' THEN card_id ELSE user_id END AS topic,
       matched
FROM {SIGNAL}""",
    f"""
SELECT COALESCE(signal_id, 'evt_' || position) AS id, position, kind, topic,
       CAST(platform_content -> 'data' ->> 'matched' AS integer) AS matched
FROM {EVENT}
WHERE signal_id IS NOT NULL OR kind IN ('signal.filled', 'signal.dry_run', 'signal.recorded')""",
)

SPENT_ONCE = _of(
    "nonces: each is spent once by its signer",
    SIGNAL,
    f"SELECT MAX(public_id) AS id FROM {SIGNAL} GROUP BY signer, nonce HAVING COUNT(*) > 1",
)

# Signals that went to all who stood on the card.
FAN_OUTS = f"{SIGNAL} WHERE fanout AND user_id IS NULL AND outcome IN ('filled', 'dry_run')"
# Along the positions of each card, a step up where an election opened, down where it closed.
NUMBERS = _of(
    "fan-outs: each matched and filled as many desks as list it, those who stood at its position",
    FAN_OUTS,
    f"""
WITH steps AS (
    SELECT card_id, opened AS position, 1 AS step, '' AS id, 0 AS matched, 0 AS filled
    FROM {ELECTION} WHERE card_id IS NOT NULL
    UNION ALL SELECT card_id, closed, -1, '', 0, 0
    FROM {ELECTION} WHERE card_id IS NOT NULL AND closed IS NOT NULL
    UNION ALL SELECT card_id, position, 0, public_id, matched,
                     CASE outcome WHEN 'filled' THEN filled ELSE matched END
    FROM {FAN_OUTS}),
stood AS (
    SELECT id, matched, filled, SUM(step) OVER (PARTITION BY card_id ORDER BY position) AS standing
    FROM steps)
SELECT id FROM stood WHERE id <> '' AND (matched <> standing OR filled <> standing)""",
)

ON_ITS_CARD = _of(
    "fan-outs: each repeats the card that was published at its position",
    FAN_OUTS,
    f"""
SELECT public_id AS id FROM {FAN_OUTS} AND NOT EXISTS (
    SELECT 1 FROM {CARD} AS card
    WHERE card.id = card_id AND card.pair = {SIGNAL}.pair
      AND card.direction = {SIGNAL}.direction AND card.opened < position
      AND (card.closed IS NULL OR card.closed > position))""",
)

# Signals that went to one desk, and that the law held against an election.
TO_ONE_DESK = f"{SIGNAL} WHERE user_id IS NOT NULL AND outcome IN ('filled', 'dry_run')"
CONSENTED = _of(
    "fills of one desk: each repeats an election that stood at its position",
    TO_ONE_DESK,
    f"""
SELECT public_id AS id FROM {TO_ONE_DESK} AND NOT EXISTS (
    SELECT 1 FROM {ELECTION} AS election
    JOIN {DESK} AS desk ON desk.id = election.desk_id
    LEFT JOIN {CARD} AS card ON card.id = election.card_id
    WHERE desk.public_id = {SIGNAL}.user_id
      AND (election.automation_id = bot_id OR bot_id IS NULL AND card.id = {SIGNAL}.card_id)
      AND election.pair = {SIGNAL}.pair AND election.direction = {SIGNAL}.direction
      AND election.opened < position
      AND (election.closed IS NULL OR election.closed > position)
      AND (card.closed IS NULL OR card.closed > position))""",
)

# --- Cards and elections ------------------------------------------------------------------------


def _told_of_card(column: str, kind: str) -> tuple[str, str]:
    told = ", ".join(
        f"content -> 'data' -> 'card' ->> '{name}' AS {name}"
        for name in ("name", "pair", "direction")
    )
    return (
        f"SELECT 'evt_' || {column} AS id, name, pair, direction FROM {CARD} "
        f"WHERE {column} IS NOT NULL",
        f"SELECT 'evt_' || position AS id, {told} FROM {EVENT} WHERE kind = '{kind}'",
    )


PUBLISHED = _alike(
    "cards: the log tells of each when it was published",
    *_told_of_card("opened", "card.published"),
)
RETIRED = _alike(
    "cards retired: the log tells of each when it was", *_told_of_card("closed", "card.retired")
)

ONE_CARD = _of(
    "cards: no two are published at once",
    CARD,
    f"""
SELECT id FROM (
    SELECT id, opened, LAG(opened) OVER by_time AS other, LAG(closed) OVER by_time AS other_closed
    FROM {CARD} WINDOW by_time AS (ORDER BY opened)) AS neighbours
WHERE other IS NOT NULL AND (other_closed IS NULL OR other_closed > opened)""",
)

STANDING = _of(
    "cards: each knows how many elections stand on it",
    CARD,
    f"""
SELECT id FROM {CARD} AS card WHERE standing <> (
    SELECT COUNT(*) FROM {ELECTION} WHERE card_id = card.id AND closed IS NULL)""",
)


def _told_of_election(column: str, kind: str) -> tuple[str, str]:
    return (
        f"SELECT 'evt_' || {column} AS id, public_id AS topic, pair, direction "
        f"FROM {ELECTION} AS election JOIN {DESK} AS desk ON desk.id = desk_id "
        f"WHERE {column} IS NOT NULL",
        f"SELECT 'evt_' || position AS id, topic, content -> 'data' ->> 'pair' AS pair, "
        f"content -> 'data' ->> 'direction' AS direction FROM {EVENT} WHERE kind = '{kind}'",
    )


MADE = _alike(
    "elections: the log tells of each when it was made",
    *_told_of_election("opened", "election.made"),
)
WITHDRAWN = _alike(
    "elections withdrawn: the log tells of each when it was",
    *_told_of_election("closed", "election.withdrawn"),
)

ONE_ELECTION = _of(
    "elections: no two of a desk stand on a card at once, and no two of a bot",
    ELECTION,
    f"""
SELECT 'evt_' || opened AS id FROM (
    SELECT opened, LAG(opened) OVER by_time AS other, LAG(closed) OVER by_time AS other_closed
    FROM {ELECTION} WINDOW by_time AS (PARTITION BY desk_id, card_id, automation_id ORDER BY opened)
) AS neighbours
WHERE other IS NOT NULL AND (other_closed IS NULL OR other_closed > opened)""",
)

# --- Desks and bots -----------------------------------------------------------------------------

CREATED = _alike(
    "desks: the log tells of each when it was opened, once",
    f"SELECT public_id AS id, 1 AS times FROM {DESK}",
    f"SELECT topic AS id, COUNT(*) AS times FROM {EVENT} "
    "WHERE kind = 'desk.created' GROUP BY topic",
)

BY_NOW = f"{_times('desk.connected')} - {_times('desk.disconnected')}"
CONNECTED = _alike(
    "connections: the log ends with each, and with none that is not there",
    f"SELECT public_id AS id, 1 AS times FROM {CONNECTION} "
    f"JOIN {DESK} AS desk ON desk.id = desk_id",
    f"SELECT topic AS id, {BY_NOW} AS times FROM {EVENT} "
    f"WHERE kind IN ('desk.connected', 'desk.disconnected') GROUP BY topic HAVING {BY_NOW} <> 0",
)

STANDING_OF_DESK = f"""
SELECT 1 FROM {ELECTION} AS election LEFT JOIN {CARD} AS card ON card.id = election.card_id
WHERE election.desk_id = desk.id AND election.closed IS NULL AND card.closed IS NULL"""
KNOWS_CONNECTION = _of(
    "desks: each knows whether it is connected, and has no standing election where it is not",
    DESK,
    f"""
SELECT public_id AS id FROM {DESK} AS desk
WHERE connected <> EXISTS (SELECT 1 FROM {CONNECTION} WHERE desk_id = desk.id)
   OR NOT connected AND EXISTS ({STANDING_OF_DESK})""",
)
KNOWS_CARD = _of(
    "desks: each knows the card that it stands on",
    DESK,
    f"""
SELECT public_id AS id FROM {DESK} AS desk
WHERE enrolled_id IS NOT NULL AND NOT EXISTS (
          SELECT 1 FROM {ELECTION}
          WHERE desk_id = desk.id AND card_id = enrolled_id AND closed IS NULL)
   OR EXISTS ({STANDING_OF_DESK} AND card.id <> COALESCE(enrolled_id, ''))""",
)

BOTS = _alike(
    "bots: the log tells of each when it was made, and removed, once",
    f"SELECT id, 1 AS made, CASE WHEN removed_at IS NULL THEN 0 ELSE 1 END AS ended "
    f"FROM {AUTOMATION}",
    f"SELECT content -> 'data' ->> 'botId' AS id, {_times('automation.created')} AS made, "
    f"{_times('automation.removed')} AS ended FROM {EVENT} "
    "WHERE kind IN ('automation.created', 'automation.removed') GROUP BY 1",
)

# --- Credentials --------------------------------------------------------------------------------

TOKENS = _alike(
    "tokens: the log tells of each when it was minted, and revoked, once",
    f"SELECT public_id AS id, 1 AS made, CASE WHEN revoked_at IS NULL THEN 0 ELSE 1 END AS ended "
    f"FROM {TOKEN}",
    f"SELECT content -> 'data' ->> 'id' AS id, {_times('token.minted')} AS made, "
    f"{_times('token.revoked')} AS ended FROM {EVENT} "
    "WHERE kind IN ('token.minted', 'token.revoked') GROUP BY 1",
)
SECRETS = _alike(
    "signing secrets: the log tells how many each owner was given",
    f"SELECT COALESCE(automation_id, source) AS id, COUNT(*) AS times FROM {SECRET} GROUP BY 1",
    f"SELECT content -> 'data' ->> 'owner' AS id, COUNT(*) AS times FROM {EVENT} "
    "WHERE kind = 'secret.generated' GROUP BY 1",
)

PROMISES = (
    CONTIGUOUS,
    ONE_EVENT,
    SPENT_ONCE,
    NUMBERS,
    ON_ITS_CARD,
    CONSENTED,
    PUBLISHED,
    RETIRED,
    ONE_CARD,
    STANDING,
    MADE,
    WITHDRAWN,
    ONE_ELECTION,
    CREATED,
    CONNECTED,
    KNOWS_CONNECTION,
    KNOWS_CARD,
    BOTS,
    TOKENS,
    SECRETS,
)
