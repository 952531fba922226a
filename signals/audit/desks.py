"""Audits one desk after the other, by merging the sorted streams of events and rows."""

from collections.abc import Iterator
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import Any

from django.db.models import Exists, Model, OuterRef

from desks.models import Automation, Connection, Desk, Election
from signals.audit.desk_replay import DeskReplay
from signals.audit.findings import Finding, Findings
from signals.audit.histories.cards import CardHistory
from signals.audit.streams import LoggedEvent, Progress, desk_events, desk_rows
from signals.webhooks.models import Subscription, SubscriptionSecret
from tokens.models import SigningSecret, Token

# The tables of a desk, each with the lookup that leads to the userId.
TABLES: dict[type[Model], str] = {
    Desk: "public_id",
    Connection: "desk__public_id",
    Automation: "desk__public_id",
    Election: "desk__public_id",
    Token: "desk__public_id",
    SigningSecret: "automation__desk__public_id",
    Subscription: "desk__public_id",
    SubscriptionSecret: "subscription__desk__public_id",
}

# A userId, the model of a row (None for an event), and the row or event.
Item = tuple[str, type[Model] | None, Any]


def audit_desks(findings: Findings, cards: CardHistory, progress: Progress) -> None:
    """Rebuilds each desk from its events and compares it with its rows."""
    # The events of a desk come before its rows: ``merge`` keeps the order of the streams.
    rows = [_rows(model, lookup) for model, lookup in TABLES.items()]
    items = merge(_events(progress), *rows, key=itemgetter(0))
    for user_id, of_desk in groupby(items, key=itemgetter(0)):
        desk = DeskReplay(findings, cards, user_id)
        for _, model, item in of_desk:
            if model is None:
                desk.apply(item)
            else:
                desk.tables[model].compare(item)
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
        (Subscription, "desk", Desk, findings.subscriptions),
        (SubscriptionSecret, "subscription", Subscription, findings.webhook_secrets),
    ]
    for model, owner, owners, finding in orphans:
        owner_exists = Exists(owners.objects.filter(pk=OuterRef(owner)))
        for row in model.objects.exclude(**{owner: None}).exclude(owner_exists).iterator():
            finding.breach(f"{model._meta.verbose_name} {row.pk}", f"its {owner} does not exist")


def _events(progress: Progress) -> Iterator[tuple[str, None, LoggedEvent]]:
    for user_id, event in desk_events(progress):
        yield user_id, None, event


def _rows(model: type[Model], lookup: str) -> Iterator[Item]:
    of_desks = model._default_manager.exclude(**{lookup: None})
    for row in desk_rows(of_desks, lookup):
        yield row["desk_user_id"], model, row
