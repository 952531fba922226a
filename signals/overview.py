"""What the control area opens with: what needs somebody, and how the platform is doing."""

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
from signals.traffic import Traffic, traffic
from tokens.models import SigningSecret, Source, Token

SOON = timedelta(days=14)  # to mint another token and to hand it over
OLD = timedelta(days=90)  # a shared secret that stands longer than that is worth replacing
FEW = 10  # of so few signals no share says anything
MOST_LISTED = 20


class Notice(NamedTuple):
    """Something that needs somebody, and where it is done."""

    sentence: str
    label: str
    url: str


@dataclass(frozen=True, slots=True)
class SharedSecret:
    """How a source's shared secret stands: ``live`` are those that sign, the one in use first.

    ``floor_signs`` says that the Floor's signs for this source, which never had one of its own.
    """

    source: Source
    live: list[SigningSecret]
    age: timedelta | None
    floor_signs: bool

    @property
    def is_old(self) -> bool:
        return self.age is not None and self.age > OLD


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything on the first page of the control area; the ``notices``, most urgent first."""

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


def overview(now: datetime) -> Overview:
    """The platform as it is now. The number of queries does not depend on what there is."""
    card = Card.objects.published().first()
    desks = Desk.objects.count()
    seen = traffic(now)
    next_to_expire = F("expires_at").asc(nulls_last=True)
    in_force = list(Token.objects.filter(desk=None).in_force(now).order_by(next_to_expire, "id"))
    secrets = _shared_secrets(now)
    return Overview(
        notices=[
            *_of_card(card),
            *_of_access(in_force, secrets),
            *_of_expiry(in_force, now),
            *_of_age(secrets),
            *_of_refusals(seen),
        ],
        card=card,
        desks=desks,
        connected=desks - Desk.objects.connected(False).count(),
        ready=card.standing if card else 0,
        traffic=seen,
        tokens=in_force[:MOST_LISTED],
        secrets=secrets,
        head=Head.objects.get(),
        latest=Event.objects.order_by("-position").first(),
    )


def _shared_secrets(now: datetime) -> list[SharedSecret]:
    live = list(SigningSecret.objects.filter(automation=None).live(now).order_by("-id"))
    nox_had_one = SigningSecret.objects.of(Source.NOX).exists()
    return [
        _shared_secret(source, [one for one in live if one.source == source], now, floor_signs)
        for source, floor_signs in ((Source.FLOOR, False), (Source.NOX, not nox_had_one))
    ]


def _shared_secret(
    source: Source, live: list[SigningSecret], now: datetime, floor_signs: bool
) -> SharedSecret:
    return SharedSecret(source, live, now - live[0].created_at if live else None, floor_signs)


def _of_card(card: Card | None) -> Iterator[Notice]:
    if card is None:
        yield Notice(
            "No card is published: no desk is ready, and what floor and nox send is refused.",
            "Publish a card",
            reverse("admin:desks_card_publish"),
        )


def _of_access(tokens: list[Token], secrets: list[SharedSecret]) -> Iterator[Notice]:
    mint = ("Mint a platform token", reverse("admin:tokens_token_mint"))
    if not any(token.can_read for token in tokens):
        yield Notice("No platform token may read: no engine can pull desks or the feed.", *mint)
    if not any(token.can_write for token in tokens) and not any(each.live for each in secrets):
        yield Notice("No engine can send: no token may write and no secret is in use.", *mint)


def _of_expiry(tokens: list[Token], now: datetime) -> Iterator[Notice]:
    """Tokens come the next to expire first, and at last those that never do."""
    for token in tokens:
        if token.expires_at and token.expires_at < now + SOON:
            left = days(token.expires_at - now)
            yield Notice(
                f"The token {token} expires in {left}: mint another and hand it over before.",
                "Look at it",
                reverse("admin:tokens_token_change", args=[quote(token.pk)]),
            )


def _of_age(secrets: list[SharedSecret]) -> Iterator[Notice]:
    for secret in secrets:
        if secret.age and secret.is_old:
            name = secret.source.capitalize()
            yield Notice(
                f"The {name} secret is {days(secret.age)} old: replace it, with an overlap.",
                f"Generate a {name} secret",
                reverse(f"admin:tokens_signingsecret_generate-{secret.source}"),
            )


def _of_refusals(seen: Traffic) -> Iterator[Notice]:
    refused, received = seen.hour.refused, seen.hour.refused + seen.hour.accepted
    if received >= FEW and 2 * refused > received:
        most = max(seen.codes, key=lambda code: code.hour_refused)
        yield Notice(
            f"Of the last hour's {received} signals {refused} were refused, most for {most.name}.",
            "Read the refusals",
            f"{reverse('admin:events_event_changelist')}?kind={Kind.SIGNAL_REFUSED}",
        )


def days(span: timedelta) -> str:
    """A span in whole days, or less than one."""
    if span < timedelta(days=1):
        return "less than a day"
    return "1 day" if span.days == 1 else f"{span.days} days"
