"""Handwritten SQL about the caller's credential. Table names come from the models.

Almost every request reads a token: with the ORM a page of the feed takes a quarter more of the CPU.
Only the columns that authentication needs are read. Django loads the others on first access.
"""

from collections.abc import Sequence
from datetime import datetime

from django.db import DEFAULT_DB_ALIAS

from desks.models import Automation, Desk
from events.statements import adapt_datetime, fetch_one, parse_datetime
from tokens.choices import Source
from tokens.models import SigningSecret, Token

TOKEN, SECRET = Token._meta.db_table, SigningSecret._meta.db_table
AUTOMATION, DESK = Automation._meta.db_table, Desk._meta.db_table

TOKEN_COLUMNS = [
    "id",
    "public_id",
    "scope",
    "desk_id",
    "can_read",
    "can_write",
    "key_id",
    "last_used_at",
    "expires_at",
]
DESK_COLUMNS = ["id", "public_id"]


def _qualified(table: str, columns: Sequence[str]) -> str:
    return ", ".join(f"{table}.{column}" for column in columns)


def _token_is_active(moment: str) -> str:
    return f"revoked_at IS NULL AND (expires_at IS NULL OR expires_at > {moment})"


ACTIVE_TOKEN = f"""
SELECT {_qualified(TOKEN, TOKEN_COLUMNS)}, {_qualified(DESK, DESK_COLUMNS)}
FROM {TOKEN} LEFT JOIN {DESK} ON {DESK}.id = {TOKEN}.desk_id
WHERE {_token_is_active("%s")} AND digest IN """

# Columns for a statement under the log's lock that selects from ``sent``. The first two are true if
# the credential with this id is active at this time, and NULL if it does not exist. The third: was
# a Nox secret ever generated?
TOKEN_IS_ACTIVE = f"""
(SELECT {_token_is_active("%(at)s")} FROM {TOKEN} WHERE public_id = sent.token)"""
SECRET_IS_LIVE = f"""
(SELECT ({SECRET}.ends_at IS NULL OR {SECRET}.ends_at > %(at)s) AND removed_at IS NULL
 FROM {SECRET} LEFT JOIN {AUTOMATION} ON {AUTOMATION}.id = automation_id
 WHERE public_id = sent.secret)"""
NOX_SECRET_EXISTS = f"""
EXISTS (SELECT 1 FROM {SECRET} WHERE automation_id IS NULL AND source = '{Source.NOX}')"""

# Times of last use, one list for each column.
WRITE_USES = f"""
UPDATE {TOKEN} AS token
SET last_used_at = used.at, digest = used.digest, key_id = used.key_id
FROM unnest(%s::bigint[], %s::timestamptz[], %s::text[], %s::text[])
    AS used (id, at, digest, key_id)
WHERE token.id = used.id AND (token.last_used_at IS NULL OR token.last_used_at < used.at)"""


def find_active_token(digests: Sequence[str], now: datetime) -> Token | None:
    """The active token with one of these digests."""
    placeholders = ", ".join(["%s"] * len(digests))
    row = fetch_one(f"{ACTIVE_TOKEN}({placeholders})", [adapt_datetime(now), *digests])
    if row is None:
        return None
    token_row, desk_row = row[: len(TOKEN_COLUMNS)], row[len(TOKEN_COLUMNS) :]
    token = Token.from_db(DEFAULT_DB_ALIAS, TOKEN_COLUMNS, token_row)
    for name in ("last_used_at", "expires_at"):
        if (time := getattr(token, name)) is not None:
            setattr(token, name, parse_datetime(time))
    if token.desk_id is not None:
        token.desk = Desk.from_db(DEFAULT_DB_ALIAS, DESK_COLUMNS, desk_row)
    return token
