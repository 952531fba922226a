"""SQL written by hand: who is calling, which every request asks once.

Only what a caller is asked about is read; the rest of a row comes when somebody looks at it. The
names come from the models; a test holds them together.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connection

from desks.models import Automation, Desk
from events.statements import fetch, fetch_all
from tokens.models import SigningSecret, Token

TOKEN, SECRET = Token._meta.db_table, SigningSecret._meta.db_table
AUTOMATION, DESK = Automation._meta.db_table, Desk._meta.db_table

OF_TOKEN = ["id", "public_id", "scope", "desk_id", "can_read", "can_write", "key_id"]
OF_SECRET = ["id", "public_id", "source", "automation_id", "ciphertext", "key_id"]
OF_AUTOMATION = ["id", "desk_id"]
OF_DESK = ["id", "public_id"]


def _named(table: str, columns: Sequence[str]) -> str:
    return ", ".join(f"{table}.{column}" for column in columns)


IN_FORCE = f"""
SELECT {_named(TOKEN, OF_TOKEN)}, last_used_at > %s, {_named(DESK, OF_DESK)}
FROM {TOKEN} LEFT JOIN {DESK} ON {DESK}.id = {TOKEN}.desk_id
WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > %s) AND digest IN """

LIVE_OF_AUTOMATION = f"""
SELECT {_named(SECRET, OF_SECRET)}, {_named(AUTOMATION, OF_AUTOMATION)}, {_named(DESK, OF_DESK)}
FROM {SECRET}
JOIN {AUTOMATION} ON {AUTOMATION}.id = {SECRET}.automation_id
JOIN {DESK} ON {DESK}.id = {AUTOMATION}.desk_id
WHERE {SECRET}.automation_id = %s AND ({SECRET}.ends_at IS NULL OR {SECRET}.ends_at > %s)
ORDER BY {SECRET}.id DESC"""


def token_in_force(
    digests: Sequence[str], now: datetime, used_since: datetime
) -> tuple[Token, bool] | None:
    """The token with one of these digests, and whether its use was noted since then."""
    placeholders = ", ".join(["%s"] * len(digests))
    moments = [_as_kept(used_since), _as_kept(now)]
    row = fetch(f"{IN_FORCE}({placeholders})", [*moments, *digests])
    if row is None:
        return None
    of_token, (use_is_noted, *of_desk) = row[: len(OF_TOKEN)], row[len(OF_TOKEN) :]
    token = Token.from_db(DEFAULT_DB_ALIAS, OF_TOKEN, of_token)
    if token.desk_id is not None:
        token.desk = Desk.from_db(DEFAULT_DB_ALIAS, OF_DESK, of_desk)
    return token, bool(use_is_noted)


def live_secrets(bot_id: str, now: datetime) -> list[SigningSecret]:
    """The secrets that verify for an automation, the newest first, each with it and its desk."""
    return [_secret(row) for row in fetch_all(LIVE_OF_AUTOMATION, [bot_id, _as_kept(now)])]


def _secret(row: Sequence[Any]) -> SigningSecret:
    of_secret, rest = row[: len(OF_SECRET)], row[len(OF_SECRET) :]
    of_automation, of_desk = rest[: len(OF_AUTOMATION)], rest[len(OF_AUTOMATION) :]
    secret = SigningSecret.from_db(DEFAULT_DB_ALIAS, OF_SECRET, of_secret)
    secret.automation = Automation.from_db(DEFAULT_DB_ALIAS, OF_AUTOMATION, of_automation)
    secret.automation.desk = Desk.from_db(DEFAULT_DB_ALIAS, OF_DESK, of_desk)
    return secret


def _as_kept(moment: datetime) -> Any:
    """A moment as this database keeps it."""
    return connection.ops.adapt_datetimefield_value(moment)
