"""Audits one desk after the other, by merging the sorted streams of events and rows."""

from collections.abc import Iterator
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import Any

from django.db.models import Exists, OuterRef

from desks.models import Automation, Connection, Desk, Election
from signals.reports.audit.cards import CardHistory
from signals.reports.audit.credentials import SECRET_COLUMNS, TOKEN_COLUMNS
from signals.reports.audit.desk_replay import DeskReplay
from signals.reports.audit.findings import Finding, Findings
from signals.reports.audit.rules import Row
from signals.reports.audit.streams import LoggedEvent, Progress, desk_events, desk_rows
from tokens.models import SigningSecret, Token

DESK_COLUMNS = (
    *("public_id", "created_at", "updated_at"),
    *("connected", "enrolled_id", "deactivated"),
)
CONNECTION_COLUMNS = ("venue", "connected_at")
AUTOMATION_COLUMNS = ("id", "name", "created_at", "removed_at")
ELECTION_COLUMNS = (
    *("card_id", "automation_id", "pair", "direction"),
    *("opened", "closed", "elected_at", "reason"),
)

# A userId, the model of a row (None for an event), and the row or event.
Item = tuple[str, type | None, Any]


def audit_desks(findings: Findings, cards: CardHistory, progress: Progress) -> None:
    """Rebuilds each desk from its events and compares it with its rows."""
    # The events of a desk come before its rows: ``merge`` keeps the order of the streams.
    items = merge(_events(progress), *_rows(), key=itemgetter(0))
    for user_id, of_desk in groupby(items, key=itemgetter(0)):
        desk = DeskReplay(findings, cards, user_id)
        for _, model, item in of_desk:
            if model is None:
                desk.apply(item)
            else:
                _compare(desk, model, item)
        desk.close()
    _find_orphans(findings)


def _find_orphans(findings: Findings) -> None:
    """Reports rows whose desk or bot does not exist. A foreign key normally prevents them."""
    orphans: list[tuple[Any, str, Any, Finding]] = [
        (Connection, "desk", Desk, findings.connections),
        (Automation, "desk", Desk, findings.automations),
        (Election, "desk", Desk, findings.elections),
        (Token, "desk", Desk, findings.tokens),
        (SigningSecret, "automation", Automation, findings.secrets),
    ]
    for model, owner, owners, finding in orphans:
        owner_exists = Exists(owners.objects.filter(pk=OuterRef(owner)))
        for row in model.objects.exclude(**{owner: None}).exclude(owner_exists).iterator():
            finding.breach(f"{model._meta.verbose_name} {row.pk}", f"its {owner} does not exist")


def _events(progress: Progress) -> Iterator[tuple[str, None, LoggedEvent]]:
    for user_id, event in desk_events(progress):
        yield user_id, None, event


def _rows() -> list[Iterator[Item]]:
    tables: list[tuple[Any, str, tuple[str, ...]]] = [
        (Desk, "public_id", DESK_COLUMNS),
        (Connection, "desk__public_id", CONNECTION_COLUMNS),
        (Automation, "desk__public_id", AUTOMATION_COLUMNS),
        (Election, "desk__public_id", ELECTION_COLUMNS),
        (Token, "desk__public_id", TOKEN_COLUMNS),
        (SigningSecret, "automation__desk__public_id", SECRET_COLUMNS),
    ]
    return [_stream(model, desk, columns) for model, desk, columns in tables]


def _stream(model: Any, desk: str, columns: tuple[str, ...]) -> Iterator[Item]:
    of_desks = model.objects.exclude(**{desk: None})
    for user_id, row in desk_rows(of_desks, desk, *columns):
        yield user_id, model, row


def _compare(desk: DeskReplay, model: type, row: Row) -> None:
    if model is Desk:
        desk.desks.compare(desk.user_id, desk.user_id, row)
    elif model is Connection:
        desk.connections.compare(desk.user_id, desk.user_id, row)
    elif model is Automation:
        desk.bots.compare(row["id"], row["id"], row)
    elif model is Election:
        desk.elections.compare(f"evt_{row['opened']}", row["opened"], row)
    elif model is Token:
        desk.credentials.tokens.compare(row["public_id"], row["public_id"], row)
    else:
        desk.credentials.secrets.compare(row["public_id"], row["public_id"], row)
