"""The first page of the control area: what needs attention, and how the platform is doing."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import F, Func, QuerySet, Subquery

from desks.models import Card, Desk
from events.models import Event, Head
from signals.reports import concerns
from signals.reports.concerns import (
    Concern,
    SharedSecret,
    heard_from,
    latest_events,
    shared_secrets,
)
from signals.reports.traffic import Traffic, recent_traffic
from tokens.models import SigningSecret, Token

MAX_LISTED = 20


@dataclass(frozen=True, slots=True)
class PlatformOverview:
    """The content of the page. ``concerns`` are sorted by urgency, the most urgent first."""

    concerns: list[Concern]
    card: Card | None
    desks: int
    connected: int
    ready: int
    traffic: Traffic
    tokens: list[Token]
    secrets: list[SharedSecret]
    latest: Event | None


def platform_overview(now: datetime) -> PlatformOverview:
    """Returns the state of the platform. The number of queries is constant."""
    card = Card.objects.published().first()
    desks, unconnected, failing = _counts(now)
    connected = desks - unconnected
    recent, latest = recent_traffic(now), latest_events()
    next_to_expire = F("expires_at").asc(nulls_last=True)
    active = list(Token.objects.filter(desk=None).active(now).order_by(next_to_expire, "id"))
    secrets = shared_secrets(now)
    senders: list[Token | SigningSecret] = [
        *(token for token in active[:MAX_LISTED] if token.can_write),
        *(secret for each in secrets for secret in each.live),
    ]
    heard = heard_from([sender.public_id for sender in senders])
    in_use = [sender for sender in senders if getattr(sender, "ends_at", None) is None]
    return PlatformOverview(
        concerns=[
            *concerns.of_card(card),
            *concerns.of_access(active, secrets),
            *concerns.of_log(latest, now),
            *concerns.of_silence(in_use, heard, now),
            *concerns.of_desks(card, connected, now),
            *concerns.of_refusals(recent),
            *concerns.of_webhooks(failing),
            *concerns.of_expiry(active, now),
            *concerns.of_secrets(secrets, heard, now),
        ],
        card=card,
        desks=desks,
        connected=connected,
        ready=card.standing if card else 0,
        traffic=recent,
        tokens=active[:MAX_LISTED],
        secrets=secrets,
        latest=latest[0] if latest else None,
    )


def _counts(now: datetime) -> tuple[int, int, int]:
    """The numbers of active desks, of those not connected, and of failing webhooks."""
    active = Desk.objects.active()
    counted: Iterable[QuerySet[Any]] = (
        active,
        active.connected(False),
        concerns.failing_webhooks(now),
    )
    count = Func("pk", function="COUNT")
    counts = [Subquery(rows.order_by().annotate(count=count).values("count")) for rows in counted]
    desks, unconnected, failing = Head.objects.values_list(*counts).get()
    return desks, unconnected, failing
