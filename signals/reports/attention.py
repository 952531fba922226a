"""What on a desk needs its owner's attention."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from django.db.models import Exists, OuterRef, Q, Subquery
from django.urls import reverse

from desks.models import Automation, Card, Desk, Election
from desks.models.automation import AutomationQuerySet
from events.kinds import SUPPRESSED
from signals.reports.counts import IN_A_ROW, BotTally
from signals.reports.overview import Concern
from signals.reports.reasons import title_of
from signals.webhooks.models import FAILING, State, Subscription
from tokens.models import SigningSecret, Token

SOON = timedelta(days=7)
# Of a webhook that needs attention, by its state. One that is new is given some minutes.
SAID = {FAILING: "fails", State.DISABLED: "is disabled", State.UNVERIFIED: "is not verified"}


def concerns(
    *,
    published: Card | None,
    lapsed: Card | None,
    bots: Iterable[Automation],
    tallies: Mapping[str, BotTally],
    token: Token | None,
    now: datetime,
    webhooks: Iterable[Subscription] = (),
) -> list[Concern]:
    """What of a desk needs its owner's attention, the most important first.

    ``lapsed`` is the retired card in which the desk is still enrolled, or None. ``bots`` are those
    of ``bots_at_a_glance``.
    """
    found = [_of_card(lapsed, published)] if lapsed else []
    if token and token.expires_at and token.expires_at < now + SOON:
        found.append(
            Concern("Your desk token ends", "Replace it", reverse("mint"), token.expires_at)
        )
    for webhook in webhooks:
        said = SAID.get(webhook.shown_state)
        if said and (webhook.state != State.UNVERIFIED or webhook.failing_told_at):
            page = reverse("webhook", args=[webhook.public_id])
            sentence = f"The webhook {webhook.label} {said}. Its events wait."
            found.append(Concern(sentence, "See why", page))
    for bot in bots:
        page = reverse("bot", args=[bot.pk])
        if bot.silent_since:
            silent = f"{bot.name} is silent: no signal was accepted for"
            found.append(Concern(silent, "See what it sent", page, bot.silent_since, lasting=True))
        if bot.secret_ends_at and bot.secret_ends_at < now + SOON:  # type: ignore[attr-defined]
            sentence = f"A signing secret of {bot.name} ends"
            found.append(Concern(sentence, f"Open {bot.name}", page, bot.secret_ends_at))  # type: ignore[attr-defined]
        tally = tallies[bot.pk]
        if tally.is_refused_in_a_row:
            refused = tally.latest[:IN_A_ROW]
            # What stands for refusals that were left out names no reason.
            code, position = next((one for one in refused if one[0] != SUPPRESSED), refused[0])
            sentence = f"{bot.name} was refused five times in a row: {title_of(code)}."
            last = reverse("event", args=[f"evt_{position}"])
            found.append(Concern(sentence, "See the last refusal", last))
    return found


def bots_at_a_glance(desk: Desk, now: datetime) -> AutomationQuerySet:
    """The desk's bots, each with its elected ``pair`` and ``direction`` and its secrets.

    ``elected_at`` says when they were elected; all three are None without an election.
    ``has_secret`` says whether a secret verifies, ``secret_ends_at`` when the next one ends.
    """
    elected = Election.objects.standing().filter(automation=OuterRef("pk"))
    live = SigningSecret.objects.live(now).filter(automation=OuterRef("pk"))
    ending = live.filter(ends_at__isnull=False).order_by("ends_at")
    bots = Automation.objects.not_removed().filter(desk=desk)
    return bots.annotate(
        pair=Subquery(elected.values("pair")[:1]),
        direction=Subquery(elected.values("direction")[:1]),
        elected_at=Subquery(elected.values("elected_at")[:1]),
        has_secret=Exists(live),
        secret_ends_at=Subquery(ending.values("ends_at")[:1]),
    )


def cards_of(desk: Desk) -> tuple[Card | None, Card | None]:
    """The published card, and the retired one in which the desk is enrolled. None for what is not.

    The published card has the attribute ``elected_at``, the time of the desk's enrolment or None.
    """
    own = Election.objects.standing().filter(desk=desk, card=OuterRef("pk")).values("elected_at")
    of_desk = Card.objects.filter(Q(closed=None) | Q(pk=desk.enrolled_id))
    cards = list(of_desk.annotate(elected_at=Subquery(own)))
    return (
        next((card for card in cards if card.closed is None), None),
        next((card for card in cards if card.closed is not None), None),
    )


def _of_card(lapsed: Card, published: Card | None) -> Concern:
    if published is None:
        return Concern(
            f"{lapsed.name} was retired, and your consent ended with it. Enrol again when another "
            "card is published."
        )
    return Concern(f"{lapsed.name} was replaced by {published.name}. Enrol again.", card=published)
