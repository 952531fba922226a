"""The SQL that runs for a signal under the log's lock.

One statement reads everything that decides the signal. The law decides in Python. A second
statement writes the signal and its event. Table and column names come from the models.
"""

import functools
from datetime import datetime
from typing import Any, NamedTuple

from django.db import connection

from desks.models import Card, Desk, Election
from events.models import Event
from events.statements import (
    EVENT,
    EVENT_COLUMNS,
    EVENT_VALUES,
    INSERT_EVENT,
    adapt_datetime,
    columns,
    execute,
    fetch_one,
    parameters,
    values,
)
from signals.law.rules import ElectedPair
from signals.models import Signal
from tokens.callers.statements import NOX_SECRET_EXISTS, SECRET_IS_LIVE, TOKEN_IS_ACTIVE
from tokens.choices import Source
from tokens.models import SigningSecret, Token

Credential = Token | SigningSecret | None

SIGNAL = Signal._meta.db_table
INSERT_SIGNAL = f"INSERT INTO {SIGNAL} ({columns(Signal)}) VALUES ({values(Signal)})"
# PostgreSQL writes both tables in one statement.
INSERT_BOTH = f"""
WITH signal AS ({INSERT_SIGNAL})
INSERT INTO {EVENT} ({EVENT_COLUMNS}) VALUES ({EVENT_VALUES})"""

OF_BOT = "elected.automation_id = %(signal_bot_id)s"
OF_DESK = "elected.card_id = card.id AND elected.desk_id = desk.id"


class CredentialState(NamedTuple):
    """Whether the credential of a signal is still valid."""

    is_valid: bool | None
    # True if the Floor secret signed a signal of nox, but nox has a secret of its own by now.
    has_own_secret: bool

    @staticmethod
    def columns(credential: Credential, source: Any) -> str:
        """The SQL of the two columns. A signal without a credential has nothing that could end."""
        if credential is None:
            return "TRUE, FALSE"
        if isinstance(credential, Token):
            return f"{TOKEN_IS_ACTIVE}, FALSE"
        stands_in = source == Source.NOX and credential.source != Source.NOX
        return f"{SECRET_IS_LIVE}, {NOX_SECRET_EXISTS if stands_in else 'FALSE'}"


class MatchState(NamedTuple):
    """Everything that decides a signal. A field is None if its row does not exist."""

    credential: CredentialState
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

    @property
    def card(self) -> ElectedPair | None:
        return ElectedPair(self.card_pair, self.card_direction) if self.card_id else None

    @property
    def elected(self) -> ElectedPair | None:
        return ElectedPair(self.pair, self.direction) if self.pair else None


@functools.cache
def _match_query(elected_on: str, credential_columns: str) -> str:
    """The statement that selects one row of ``MatchState``."""
    return f"""
SELECT {credential_columns},
       spent.position, desk.public_id, desk.connected, desk.deactivated, desk.enrolled_id,
       card.id, card.pair, card.direction, card.standing,
       elected.pair, elected.direction
FROM (SELECT 1) AS one
LEFT JOIN {SIGNAL} AS spent
       ON spent.signer = %(signal_signer)s AND spent.nonce = %(signal_nonce)s
LEFT JOIN {Desk._meta.db_table} AS desk ON desk.public_id = %(signal_user_id)s
LEFT JOIN {Card._meta.db_table} AS card ON card.closed IS NULL
LEFT JOIN {Election._meta.db_table} AS elected ON elected.closed IS NULL AND {elected_on}"""


def load_match_state(signal: Signal, credential: Credential, at: datetime) -> MatchState:
    """Loads the state that decides a signal, with the credential's validity at ``at``."""
    elected_on = OF_BOT if signal.bot_id else OF_DESK
    statement = _match_query(elected_on, CredentialState.columns(credential, signal.source))
    row = fetch_one(statement, {**parameters(signal), **_credential_parameters(credential, at)})
    is_valid, has_own_secret, *state = row
    return MatchState(CredentialState(is_valid, has_own_secret), *state)


def why_not_ready(state: MatchState) -> str:
    """Why the desk has no election on the published card: a key of ``DeskNotReady.REASONS``."""
    if state.deactivated:
        return "deactivated"
    if not state.connected:
        return "not_connected"
    if state.enrolled_id:
        return "card_changed"
    of_desk = Election.objects.filter(desk__public_id=state.user_id, card__isnull=False)
    return "withdrawn" if of_desk.exists() else "not_enrolled"


def load_credential_state(credential: Credential, source: Any, at: datetime) -> CredentialState:
    """Loads the validity of the credential alone, for a signal that is refused anyway."""
    statement = f"SELECT {CredentialState.columns(credential, source)}"
    return CredentialState(*fetch_one(statement, _credential_parameters(credential, at)))


def insert_signal(signal: Signal, event: Event) -> None:
    """Inserts an accepted signal and its event."""
    both = {**parameters(signal), **parameters(event)}
    if connection.vendor == "postgresql":
        execute(INSERT_BOTH, both)
    else:
        execute(INSERT_SIGNAL, both)
        execute(INSERT_EVENT, both)


def _credential_parameters(credential: Credential, at: datetime) -> dict[str, Any]:
    return {"credential": credential and credential.public_id, "at": adapt_datetime(at)}
