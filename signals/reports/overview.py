"""The first page of the control area: what needs attention, and how the platform is doing.

What needs attention is said in sentences that say what to do, each with a link.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

from django.conf import settings
from django.db.models import F
from django.urls import reverse

from desks.models import Bookmark, Card, Desk
from events.control.lists import row_url
from events.kinds import Kind
from events.models import Event, Head
from events.times import span
from signals.reports.charts import Chart
from signals.reports.traffic import Traffic, recent_traffic
from signals.webhooks.models import State, Subscription
from tokens.choices import Source
from tokens.models import SigningSecret, Token

MAX_LISTED = 20


@dataclass(frozen=True, slots=True)
class Concern:
    """Something that needs attention, with a link to the page that resolves it.

    ``at`` is the time with which the sentence ends; with ``lasting`` it ends with how long ago that
    is. ``card`` is the card to enrol in, if that is what to do.
    """

    sentence: str
    label: str = ""
    url: str = ""
    at: datetime | None = None
    card: Card | None = None
    lasting: bool = False


class Step(NamedTuple):
    """A step of the set-up. ``is_done`` is None if the service cannot tell."""

    is_done: bool | None
    sentence: str
    label: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True)
class SharedSecret:
    """The shared secrets of a source. ``live`` holds the valid ones, the one in use first.

    ``floor_signs`` is True if the source never had a secret, so that the Floor's signs for it.
    """

    source: Source
    live: list[SigningSecret]
    age: timedelta
    floor_signs: bool

    @property
    def is_old(self) -> bool:
        return self.age > MAX_SECRET_AGE


@dataclass(frozen=True, slots=True)
class PlatformOverview:
    """The content of the page. ``concerns`` are sorted by urgency, the most urgent first.

    Staff are notified of those in ``notified`` too. ``set_up`` are the steps of an installation
    that no signal has reached yet, until they are done. What they say is no concern.
    """

    concerns: list[Concern]
    notified: list[Concern]
    set_up: list[Step]
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
    card, active = Card.objects.published().first(), Desk.objects.active()
    desks = active.count()
    connected = desks - active.connected(False).count()  # few are not
    traffic, latest = recent_traffic(now), list(Event.objects.order_by("-position")[:HEARD])
    next_to_expire = F("expires_at").asc(nulls_last=True)
    tokens = list(Token.objects.filter(desk=None).active(now).order_by(next_to_expire, "id"))
    secrets = shared_secrets(now)
    senders: list[Token | SigningSecret] = [
        *(token for token in tokens[:MAX_LISTED] if token.can_write),
        *(secret for each in secrets for secret in each.live),
    ]
    heard = heard_from([sender.public_id for sender in senders])
    in_use = [sender for sender in senders if getattr(sender, "ends_at", None) is None]
    notified = [
        *of_loss(),
        *of_log(latest, now),
        *of_silence(in_use, heard, now),
        *of_refusals(traffic),
        *of_webhooks(now),
        *of_expiry(tokens, now),
    ]
    is_new = len(latest) < HEARD and not any(event.kind.startswith("signal.") for event in latest)
    set_up = set_up_steps(card, tokens, secrets) if is_new else []
    return PlatformOverview(
        concerns=[
            *([] if set_up else of_card(card)),
            *([] if set_up else of_access(tokens, secrets)),
            *of_desks(card, connected),
            *notified,
            *of_secrets(secrets, heard, now),
        ],
        notified=notified,
        set_up=set_up,
        card=card,
        desks=desks,
        connected=connected,
        ready=card.standing if card else 0,
        traffic=traffic,
        tokens=tokens[:MAX_LISTED],
        secrets=secrets,
        latest=latest[0] if latest else None,
    )


# --- The set-up -----------------------------------------------------------------------------------

SMTP = "django.core.mail.backends.smtp.EmailBackend"


def set_up_steps(
    card: Card | None, tokens: Sequence[Token], secrets: Sequence[SharedSecret]
) -> list[Step]:
    """What an operator does before the first signal. Empty once everything that shows is done."""
    generate = reverse("admin:tokens_signingsecret_generate-floor")
    steps = [
        Step(
            card is not None,
            "Publish a card. Desks become ready when they enrol in it.",
            "Publish a card",
            reverse("admin:desks_card_publish"),
        ),
        Step(
            any(token.can_read for token in tokens),
            "Mint a platform token that can read. With it the engine pulls desks and the feed.",
            "Mint a platform token",
            reverse("admin:tokens_token_mint"),
        ),
        Step(
            any(token.can_write for token in tokens) or any(each.live for each in secrets),
            "Let the engine send: with a Floor secret, or with a token that can write.",
            "Generate a Floor secret",
            generate,
        ),
        Step(
            settings.EMAIL_BACKEND == SMTP,
            "Set EMAIL_URL, so that sign-up and notices send mail.",
        ),
        Step(
            Bookmark.objects.exists(),
            "Run manage.py deliver beside the server: it sends webhooks and notices.",
        ),
    ]
    if all(step.is_done for step in steps):
        return []
    backup = "Back up the database and the keys: see “Back-up and restore” in deploy/OPERATING.md."
    return [*steps, Step(None, backup)]


# --- Silence: how often a sender, or the log, is heard, and for how long not ----------------------

HEARD = 50  # the latest events of each, which say what is usual
MIN_HEARD = 10  # with fewer events nothing is usual
MIN_SILENCE = timedelta(minutes=10)
FACTOR = 2  # silence is unusual from so many times the longest pause before


def heard_from(actors: Sequence[str]) -> Mapping[str, list[datetime]]:
    """The times of the latest events of each actor, in one query."""
    heard: dict[str, list[datetime]] = {actor: [] for actor in actors}
    latest = [Event.objects.filter(actor_id=actor).newest(HEARD) for actor in actors]
    of_all = Event.objects.none().union(*latest, all=True)
    for actor, at in of_all.values_list("actor_id", "at"):
        heard[str(actor)].append(at)
    return heard


def unusual_silence(times: Iterable[datetime], now: datetime) -> str:
    """How long nothing was heard since the last of these times. Empty if that is usual."""
    ordered = sorted(times)
    if len(ordered) < MIN_HEARD:
        return ""
    longest = max(later - earlier for earlier, later in pairwise(ordered))
    silent = now - ordered[-1]
    if silent <= max(MIN_SILENCE, FACTOR * longest):
        return ""
    return f"for {span(silent)}; its longest pause before was {span(longest)}"


# --- Concerns -------------------------------------------------------------------------------------

EXPIRY_NOTICE = timedelta(days=14)  # leaves time to mint and hand over another token
MAX_SECRET_AGE = timedelta(days=90)  # older shared secrets should be replaced
MIN_SIGNALS = 10  # with fewer signals, the share of refused ones means nothing
MAX_REFUSED = 0.2  # a larger share of refused signals needs attention
MIN_DESKS = 5  # with fewer desks, the share of ready ones means nothing
MIN_READY = 0.5  # of the connected desks
DAY = timedelta(days=1)
FAILING = timedelta(hours=1)


def shared_secrets(now: datetime) -> list[SharedSecret]:
    """Those of the Floor and of Nox, in one query."""
    every = list(SigningSecret.objects.filter(automation=None).order_by("-id"))
    found = []
    for source in (Source.FLOOR, Source.NOX):
        of_source = [one for one in every if one.source == source]
        live = [one for one in of_source if one.ends_at is None or one.ends_at > now]
        age = now - live[0].created_at if live else timedelta(0)
        floor_signs = source == Source.NOX and not of_source
        found.append(SharedSecret(source, live, age, floor_signs))
    return found


def of_card(card: Card | None) -> Iterator[Concern]:
    if card is None:
        yield Concern(
            "No card is published. No desk is ready, and signals of floor and nox are refused.",
            "Publish a card",
            reverse("admin:desks_card_publish"),
        )


def of_desks(card: Card | None, connected: int) -> Iterator[Concern]:
    """Few of the connected desks are ready."""
    if card and connected >= MIN_DESKS and card.standing < MIN_READY * connected:
        verb = "is" if card.standing == 1 else "are"
        yield Concern(
            f"{card.standing} of {connected} connected desks {verb} ready. The others receive no "
            f"signal: ask their owners to enrol in {card.name}.",
            "Open the card",
            row_url(card),
        )


def of_access(tokens: Sequence[Token], secrets: Sequence[SharedSecret]) -> Iterator[Concern]:
    mint = ("Mint a platform token", reverse("admin:tokens_token_mint"))
    if not any(token.can_read for token in tokens):
        yield Concern("No platform token can read, so no engine can pull desks or the feed.", *mint)
    if not any(token.can_write for token in tokens) and not any(each.live for each in secrets):
        yield Concern("No token can write and no secret is in use, so no engine can send.", *mint)


def of_silence(
    senders: Sequence[Token | SigningSecret],
    heard: Mapping[str, Sequence[datetime]],
    now: datetime,
) -> Iterator[Concern]:
    """The senders that sent nothing for longer than usual. What is usual shows in a day."""
    for sender in senders:
        silence = unusual_silence(heard[sender.public_id], now)
        if silence and sender.created_at <= now - DAY:
            yield Concern(
                f"{_name(sender)} has sent nothing {silence}. "
                "Check that the engine runs and gets answers.",
                "Open its page",
                row_url(sender),
            )


def of_log(events: Sequence[Event], now: datetime) -> Iterator[Concern]:
    """The head of a log that is older than a day does not move."""
    silence = unusual_silence([event.at for event in events], now)
    first = Event.objects.order_by("position").first() if silence else None
    if first and first.at <= now - DAY:
        yield Concern(
            f"The log has not moved {silence}. Check /readyz, and that engines reach the service.",
            "Open the log",
            reverse("admin:events_event_changelist"),
        )


def of_loss() -> Iterator[Concern]:
    """The log was found to have lost events."""
    if Head.objects.filter(halted=True).exists():
        yield Concern(
            "The database has lost events, so nothing is written. See the operating instructions "
            "under LogHalted: look at what is lost, then run manage.py new_epoch.",
            "See the last events",
            reverse("admin:events_event_changelist"),
        )


def of_webhooks(now: datetime) -> Iterator[Concern]:
    """The webhooks that have failed for more than an hour."""
    since = now - FAILING
    failing = Subscription.objects.filter(state=State.ACTIVE, failing_since__lt=since).count()
    if failing:
        webhooks = "webhook has" if failing == 1 else "webhooks have"
        yield Concern(
            f"{failing} {webhooks} failed for more than an hour. If there are many, check the "
            "outgoing network connection of the machine that runs manage.py deliver.",
            "Open the webhooks",
            reverse("admin:signals_subscription_changelist"),
        )


def of_expiry(tokens: Sequence[Token], now: datetime) -> Iterator[Concern]:
    """``tokens`` are sorted by expiry. Those that never expire come last."""
    for token in tokens:
        if token.expires_at and token.expires_at < now + EXPIRY_NOTICE:
            yield Concern(
                f"The token {token} expires in {span(token.expires_at - now)}. "
                "Mint another one and hand it over before then.",
                "Open the token",
                row_url(token),
            )


def of_secrets(
    secrets: Sequence[SharedSecret], heard: Mapping[str, Sequence[datetime]], now: datetime
) -> Iterator[Concern]:
    """Secrets that end soon, which somebody may still use, and old ones."""
    for shared in secrets:
        name = shared.source.capitalize()
        ending = [(secret, secret.ends_at) for secret in shared.live if secret.ends_at]
        for secret, ends_at in ending:
            last = max(heard[secret.public_id], default=None)
            used = f"last signed {span(now - last)} ago" if last else "signed nothing lately"
            yield Concern(
                f"The {name} secret {secret.hint} ends in {span(ends_at - now)}. It {used}. "
                "Make sure that every sender signs with the new one.",
                "Open the secret",
                row_url(secret),
            )
        if shared.is_old:
            yield Concern(
                f"The {name} secret is {span(shared.age)} old. Replace it with an overlap.",
                f"Generate a {name} secret",
                reverse(f"admin:tokens_signingsecret_generate-{shared.source}"),
            )


def of_refusals(recent: Traffic) -> Iterator[Concern]:
    """A large share of refused signals, in the last hour or else in the last day.

    If there are too many to count them all, it says that of the newest ones.
    """
    if _is_refused_often(recent.hour):
        chart, period = recent.hour, "hour"
        most = max(recent.codes, key=lambda share: share.hour_refused)
        of_code = most.hour_refused
    elif _is_refused_often(recent.day):
        chart, period = recent.day, "day"
        most = recent.codes[0]
        of_code = most.refused
    else:
        return
    signals = f"{chart.received} signals in the last {period}"
    if recent.since and chart.received == recent.day.received:
        signals = f"the newest {chart.received} signals"
    yield Concern(
        f"{chart.refused} of {signals} were refused, {of_code} for {most.name}. Find out who sends "
        "them, and tell the sender what to correct.",
        "View refusals",
        f"{reverse('admin:events_event_changelist')}?kind={Kind.SIGNAL_REFUSED}",
    )


def _is_refused_often(chart: Chart) -> bool:
    return chart.received >= MIN_SIGNALS and chart.refused > MAX_REFUSED * chart.received


def _name(sender: Token | SigningSecret) -> str:
    if isinstance(sender, Token):
        return f"The engine with the token {sender}"
    return f"The engine that signs with the {sender.source.capitalize()} secret {sender.hint}"
