"""SQL written by hand: what a signal stands on, and its writing, under the log's lock.

All of it is read by one statement, and one desk's signal on PostgreSQL read and written by one: it
writes only what repeats the election and spends a new nonce, and tells what it found either way,
so that the law says what it is. The names come from the models; a test holds them together.
"""

from typing import NamedTuple

from django.db import connection

from desks.models import Card, Desk, Election
from events.models import Event
from events.statements import (
    EVENT,
    EVENT_COLUMNS,
    EVENT_VALUES,
    INSERT_EVENT,
    columns,
    execute,
    fetch,
    parameters,
    values,
)
from signals.law import Elected
from signals.models import Signal

SIGNAL = Signal._meta.db_table
SIGNAL_COLUMNS, SIGNAL_VALUES = columns(Signal), values(Signal)
INSERT_SIGNAL = f"INSERT INTO {SIGNAL} ({SIGNAL_COLUMNS}) VALUES ({SIGNAL_VALUES})"


def _found(elected_on: str) -> str:
    """One row of what stands, for the signal whose parameters are given."""
    return f"""
SELECT spent.position AS spent_at, desk.public_id AS user_id,
       card.id AS card_id, card.pair AS card_pair, card.direction AS card_direction, card.standing,
       elected.pair, elected.direction
FROM (SELECT 1) AS one
LEFT JOIN {SIGNAL} AS spent
       ON spent.signer = %(signal_signer)s AND spent.nonce = %(signal_nonce)s
LEFT JOIN {Desk._meta.db_table} AS desk ON desk.public_id = %(signal_user_id)s
LEFT JOIN {Card._meta.db_table} AS card ON card.closed IS NULL
LEFT JOIN {Election._meta.db_table} AS elected ON elected.closed IS NULL AND {elected_on}"""


FIND_FOR_BOT = _found("elected.automation_id = %(signal_bot_id)s")
FIND = _found("elected.card_id = card.id AND elected.desk_id = desk.id")


class Found(NamedTuple):
    """What was found for a signal; null where there is none of it."""

    spent_at: int | None  # the position of the signal that spent its nonce
    user_id: str | None
    card_id: str | None
    card_pair: str
    card_direction: str
    standing: int | None
    pair: str
    direction: str

    @property
    def card(self) -> Elected | None:
        return Elected(self.card_pair, self.card_direction) if self.card_id else None

    @property
    def elected(self) -> Elected | None:
        return Elected(self.pair, self.direction) if self.pair else None


def find(signal: Signal) -> Found:
    """What stands for a signal, and whether its nonce is spent."""
    statement = FIND_FOR_BOT if signal.bot_id else FIND
    return Found(*fetch(statement, parameters(signal)))


def write(signal: Signal, event: Event) -> None:
    """The signal and its event, once it is known that they are lawful."""
    execute(INSERT_SIGNAL, parameters(signal))
    execute(INSERT_EVENT, parameters(event))


def _write_if_it_stands(find: str, card_id: str) -> str:
    """Writes both where the election is repeated; the last column says whether it did."""
    signal_values = SIGNAL_VALUES.replace("%(signal_card_id)s", card_id)
    return f"""
WITH found AS ({find}),
written AS (
    INSERT INTO {SIGNAL} ({SIGNAL_COLUMNS}) SELECT {signal_values} FROM found
    WHERE spent_at IS NULL AND pair = %(signal_pair)s::varchar
      AND direction = %(signal_direction)s::varchar
    RETURNING position),
logged AS (INSERT INTO {EVENT} ({EVENT_COLUMNS}) SELECT {EVENT_VALUES} FROM written)
SELECT found.*, EXISTS (SELECT FROM written) FROM found"""


WRITE_FOR_BOT = _write_if_it_stands(FIND_FOR_BOT, "NULL")
WRITE = _write_if_it_stands(FIND, "found.card_id")


def can_write_at_once() -> bool:
    """Whether this database writes two tables by one statement."""
    return connection.vendor == "postgresql"


def write_if_it_stands(signal: Signal, event: Event) -> tuple[Found, bool]:
    """Writes one desk's signal and its event, if it may: what was found, and whether it did."""
    statement = WRITE_FOR_BOT if signal.bot_id else WRITE
    *found, written = fetch(statement, {**parameters(signal), **parameters(event)})
    return Found(*found), written
