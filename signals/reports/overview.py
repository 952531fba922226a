"""The first page of the control area: what needs attention, and how the platform is doing."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from django.contrib.admin.utils import quote
from django.db.models import F
from django.urls import reverse

from desks.models import Card, Desk
from events.kinds import Kind
from events.models import Event, Head
from signals.reports.traffic import Traffic, recent_traffic
from tokens.choices import Source
from tokens.models import SigningSecret, Token

EXPIRY_NOTICE = timedelta(days=14)  # leaves time to mint and hand over another token
MAX_SECRET_AGE = timedelta(days=90)  # older shared secrets should be replaced
MIN_SIGNALS = 10  # with fewer signals, the share of refused ones means nothing
MAX_LISTED = 20


class Notice(NamedTuple):
    """Something that needs attention, with a link to the page that resolves it."""

    sentence: str
    label: str
    url: str


@dataclass(frozen=True, slots=True)
class SharedSecret:
    """The shared secrets of a source. ``live`` holds the valid ones, the one in use first.

    ``floor_signs`` is True if the source never had a secret, so that the Floor's signs for it.
    """

    source: Source
    live: list[SigningSecret]
    age: timedelta | None
    floor_signs: bool

    @property
    def is_old(self) -> bool:
        return self.age is not None and self.age > MAX_SECRET_AGE


@dataclass(frozen=True, slots=True)
class PlatformOverview:
    """The content of the page. ``notices`` are sorted by urgency, the most urgent first."""

    notices: list[Notice]
    card: Card | None
    desks: int
    connected: int
    ready: int
    traffic: Traffic
    tokens: list[Token]
    secrets: list[SharedSecret]
    head: Head
    latest: Event | None


def platform_overview(now: datetime) -> PlatformOverview:
    """Returns the state of the platform. The number of queries is constant."""
    card = Card.objects.published().first()
    desks = Desk.objects.count()
    recent = recent_traffic(now)
    next_to_expire = F("expires_at").asc(nulls_last=True)
    active = list(Token.objects.filter(desk=None).active(now).order_by(next_to_expire, "id"))
    secrets = _shared_secrets(now)
    return PlatformOverview(
        notices=[
            *_card_notices(card),
            *_access_notices(active, secrets),
            *_expiry_notices(active, now),
            *_secret_age_notices(secrets),
            *_refusal_notices(recent),
        ],
        card=card,
        desks=desks,
        connected=desks - Desk.objects.connected(False).count(),
        ready=card.standing if card else 0,
        traffic=recent,
        tokens=active[:MAX_LISTED],
        secrets=secrets,
        head=Head.objects.get(),
        latest=Event.objects.order_by("-position").first(),
    )


def _shared_secrets(now: datetime) -> list[SharedSecret]:
    live = list(SigningSecret.objects.filter(automation=None).live(now).order_by("-id"))
    nox_had_one = SigningSecret.objects.of(Source.NOX).exists()
    shared = []
    for source, floor_signs in ((Source.FLOOR, False), (Source.NOX, not nox_had_one)):
        own = [secret for secret in live if secret.source == source]
        age = now - own[0].created_at if own else None
        shared.append(SharedSecret(source, own, age, floor_signs))
    return shared


def _card_notices(card: Card | None) -> Iterator[Notice]:
    if card is None:
        yield Notice(
            "No card is published. No desk is ready, and signals of floor and nox are refused.",
            "Publish a card",
            reverse("admin:desks_card_publish"),
        )


def _access_notices(tokens: list[Token], secrets: list[SharedSecret]) -> Iterator[Notice]:
    mint = ("Mint a platform token", reverse("admin:tokens_token_mint"))
    if not any(token.can_read for token in tokens):
        yield Notice("No platform token can read, so no engine can pull desks or the feed.", *mint)
    if not any(token.can_write for token in tokens) and not any(each.live for each in secrets):
        yield Notice("No token can write and no secret is in use, so no engine can send.", *mint)


def _expiry_notices(tokens: list[Token], now: datetime) -> Iterator[Notice]:
    """``tokens`` are sorted by expiry. Those that never expire come last."""
    for token in tokens:
        if token.expires_at and token.expires_at < now + EXPIRY_NOTICE:
            left = days(token.expires_at - now)
            yield Notice(
                f"The token {token} expires in {left}. Mint and hand over another one before.",
                "Open the token",
                reverse("admin:tokens_token_change", args=[quote(token.pk)]),
            )


def _secret_age_notices(secrets: list[SharedSecret]) -> Iterator[Notice]:
    for secret in secrets:
        if secret.age and secret.is_old:
            name = secret.source.capitalize()
            yield Notice(
                f"The {name} secret is {days(secret.age)} old. Replace it with an overlap.",
                f"Generate a {name} secret",
                reverse(f"admin:tokens_signingsecret_generate-{secret.source}"),
            )


def _refusal_notices(recent: Traffic) -> Iterator[Notice]:
    refused, received = recent.hour.refused, recent.hour.refused + recent.hour.accepted
    if received >= MIN_SIGNALS and 2 * refused > received:
        most = max(recent.codes, key=lambda code: code.hour_refused)
        yield Notice(
            f"{refused} of {received} signals in the last hour were refused, most for {most.name}.",
            "View refusals",
            f"{reverse('admin:events_event_changelist')}?kind={Kind.SIGNAL_REFUSED}",
        )


def days(span: timedelta) -> str:
    """Formats a duration in whole days."""
    if span < timedelta(days=1):
        return "less than a day"
    return "1 day" if span.days == 1 else f"{span.days} days"
