"""The SQL that runs for a batch of signals under the log's lock.

One statement reads everything that decides the signals of a batch. The law decides in Python. On
PostgreSQL a second statement writes all signals and events, and sets the counter. Table and column
names come from the models.
"""

import functools
import json
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, NamedTuple, TypedDict

from django.db import connection
from django.db.models import Model

from desks.models import Automation, Card, Desk, Election
from desks.pair_and_direction import PairAndDirection
from events.log import Turn
from events.models import Event
from events.statements import (
    SET_COUNTER,
    adapt_datetime,
    columns,
    execute,
    fetch_all,
    written_fields,
)
from signals.intake.models import Signal
from tokens.callers.statements import NOX_SECRET_EXISTS, SECRET_IS_LIVE, TOKEN_IS_ACTIVE

SIGNAL = Signal._meta.db_table
DESK, CARD, ELECTION = Desk._meta.db_table, Card._meta.db_table, Election._meta.db_table
BOT = Automation._meta.db_table


class StateQuery(TypedDict, total=False):
    """What the state of one signal depends on. What does not apply is absent or None.

    ``token`` and ``secret`` are the id of the credential. ``stands_in`` is whether the Floor secret
    signed a signal of nox.
    """

    token: str
    secret: str
    stands_in: bool
    signer: str
    nonce: str
    user_id: str | None
    bot_id: str | None


class DecisionState(NamedTuple):
    """Everything that decides a signal. A field is None if its row does not exist."""

    credential_is_valid: bool | None
    # True if the Floor secret signed a signal of nox, but nox has a secret of its own by now.
    nox_has_own_secret: bool | None
    spent_at: int | None  # the position of the signal that spent its nonce
    user_id: str | None
    connected: bool
    deactivated: bool
    enrolled_id: str | None
    card_id: str | None
    card_pair: str
    card_direction: str
    standing: int | None
    pair: str
    direction: str
    # Whether the desk ever elected a card. None unless it has no election, or for a bot's signal.
    was_enrolled: bool | None
    max_age_seconds: int | None

    @property
    def card(self) -> PairAndDirection | None:
        if not self.card_id:
            return None
        return {"pair": self.card_pair, "direction": self.card_direction}

    @property
    def elected(self) -> PairAndDirection | None:
        """The election of the bot, or the desk's on the published card."""
        return {"pair": self.pair, "direction": self.direction} if self.pair else None

    @property
    def max_age(self) -> timedelta | None:
        """How old a signal of the bot may be, None if that does not matter."""
        return None if self.max_age_seconds is None else timedelta(seconds=self.max_age_seconds)


SPENT = "spent.signer = sent.signer AND spent.nonce = sent.nonce"
# The election of a signal's target: the bot's own, else the desk's on the published card.
OF_BOT = "of_bot.automation_id = sent.bot_id AND of_bot.closed IS NULL"
OF_DESK = """of_desk.card_id = card.id AND of_desk.desk_id = desk.id AND of_desk.closed IS NULL
         AND sent.bot_id IS NULL"""
FIELDS = {name: "boolean" if name == "stands_in" else "text" for name in StateQuery.__annotations__}


def load_states(questions: Sequence[StateQuery], at: datetime) -> list[DecisionState]:
    """Loads the state of each signal, with the validity of its credential at ``at``."""
    params = {"sent": json.dumps(questions), "at": adapt_datetime(at)}
    return [DecisionState(*row) for row in fetch_all(_state_query(connection.vendor), params)]


def load_signals(positions: Collection[int]) -> dict[tuple[str | None, str | None], Signal]:
    """The signals at these positions, by the signer and the nonce that they spent."""
    found = Signal.objects.filter(pk__in=positions) if positions else ()
    return {(signal.signer, signal.nonce): signal for signal in found}


def insert(turn: Turn, signals: Sequence[Signal], events: Sequence[Event]) -> None:
    """Inserts accepted signals, and the events of a batch: the last ones of the turn."""
    if connection.vendor == "postgresql":
        rows = {"signals": _rows(signals), "events": _rows(events)}
        inserted = {name: json.dumps(each, default=str) for name, each in rows.items()}
        execute(INSERT_BATCH, {**inserted, **turn.take_counter_parameters()})
    else:
        Signal.objects.bulk_create(signals)
        Event.objects.bulk_create(events)


@functools.cache
def _state_query(vendor: str) -> str:
    """The statement that selects one row of ``DecisionState`` for each question, in their order.

    OFFSET 0 has the reason of ``_join_by_row``: PostgreSQL would find all desks that ever enrolled.
    """
    join = _join_by_row if vendor == "postgresql" else _join
    return f"""
SELECT CASE WHEN sent.token IS NOT NULL THEN {TOKEN_IS_ACTIVE}
            WHEN sent.secret IS NOT NULL THEN {SECRET_IS_LIVE}
            ELSE TRUE END,
       sent.stands_in AND {NOX_SECRET_EXISTS},
       spent.position,
       desk.public_id, desk.connected, desk.deactivated, desk.enrolled_id,
       card.id, card.pair, card.direction, card.standing,
       COALESCE(of_bot.pair, of_desk.pair), COALESCE(of_bot.direction, of_desk.direction),
       CASE WHEN sent.bot_id IS NULL AND of_desk.pair IS NULL AND desk.id IS NOT NULL THEN EXISTS (
           SELECT 1 FROM {ELECTION} WHERE desk_id = desk.id AND card_id IS NOT NULL
           LIMIT 1 OFFSET 0) END,
       (SELECT max_age FROM {BOT} WHERE id = sent.bot_id)
FROM {_sent(vendor)} AS sent
LEFT JOIN {CARD} AS card ON card.closed IS NULL
{join(SIGNAL, "spent", SPENT)}
{join(DESK, "desk", "desk.public_id = sent.user_id")}
{join(ELECTION, "of_desk", OF_DESK)}
{join(ELECTION, "of_bot", OF_BOT)}
ORDER BY sent.number"""


def _sent(vendor: str) -> str:
    """The questions as rows, with their number."""
    if vendor == "postgresql":
        fields = ", ".join(f"{name} {kind}" for name, kind in FIELDS.items())
        rows = f"ROWS FROM (json_to_recordset(%(sent)s::json) AS ({fields})) WITH ORDINALITY"
        return f"(SELECT * FROM {rows} AS t({', '.join(FIELDS)}, number))"
    fields = ", ".join(f"json_extract(value, '$.{name}') AS {name}" for name in FIELDS)
    return f"(SELECT key AS number, {fields} FROM json_each(%(sent)s))"


def _join(table: str, alias: str, condition: str) -> str:
    """A left join of at most one row."""
    return f"LEFT JOIN {table} AS {alias} ON {condition}"


def _join_by_row(table: str, alias: str, condition: str) -> str:
    """The same for PostgreSQL. OFFSET 0 makes it look up each row by its index.

    It would otherwise read a whole table of thousands of rows for a join with a small batch.
    """
    rows = f"SELECT * FROM {table} AS {alias} WHERE {condition} OFFSET 0"
    return f"LEFT JOIN LATERAL ({rows}) AS {alias} ON TRUE"


def _insert_from_json(model: type[Model], parameter: str) -> str:
    table, names = model._meta.db_table, columns(model)
    rows = f"json_populate_recordset(NULL::{table}, %({parameter})s::json)"
    return f"INSERT INTO {table} ({names}) SELECT {names} FROM {rows}"


# PostgreSQL writes all three tables in one statement.
INSERT_BATCH = f"""
WITH signal AS ({_insert_from_json(Signal, "signals")}), counter AS ({SET_COUNTER})
{_insert_from_json(Event, "events")}"""


def _rows(instances: Sequence[Model]) -> list[dict[str, Any]]:
    """The rows as JSON objects, all of one model."""
    if not instances:
        return []
    fields = written_fields(type(instances[0]))
    names, read = [field.column for field in fields], attrgetter(*(f.attname for f in fields))
    return [dict(zip(names, read(row), strict=True)) for row in instances]
