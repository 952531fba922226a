"""What on a desk needs its owner's attention."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Exists, OuterRef, Subquery
from django.urls import reverse

from desks.models import Automation, Card, Desk, Election
from desks.models.automation import AutomationQuerySet
from signals.reports.reasons import title_of
from signals.reports.tallies import BotTally
from tokens.models import SigningSecret, Token

SOON = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing to attend to: a sentence, and the page where the owner does it.

    ``ends_at`` is when something ends. ``card`` is the card to enrol in, if that is what to do.
    """

    sentence: str
    link: str = ""
    address: str = ""
    ends_at: datetime | None = None
    card: Card | None = None


def notices(
    *,
    published: Card | None,
    lapsed: Card | None,
    bots: Iterable[Automation],
    tallies: Mapping[str, BotTally],
    token: Token | None,
    now: datetime,
) -> list[Notice]:
    """Everything that needs attention, the most important first.

    ``lapsed`` is the retired card in which the desk is still enrolled, or None. ``bots`` are those
    of ``bots_at_a_glance``.
    """
    found = [_of_card(lapsed, published)] if lapsed else []
    if token and token.expires_at and token.expires_at < now + SOON:
        found.append(
            Notice("Your desk token ends", "Replace it", reverse("mint"), token.expires_at)
        )
    for bot in bots:
        page = reverse("bot", args=[bot.pk])
        if bot.secret_ends_at and bot.secret_ends_at < now + SOON:  # type: ignore[attr-defined]
            sentence = f"A signing secret of {bot.name} ends"
            found.append(Notice(sentence, f"Open {bot.name}", page, bot.secret_ends_at))  # type: ignore[attr-defined]
        tally = tallies[bot.pk]
        if tally.is_refused_in_a_row:
            code, position = tally.latest[0]
            sentence = f"{bot.name} was refused five times in a row: {title_of(code)}."
            last = reverse("event", args=[f"evt_{position}"])
            found.append(Notice(sentence, "See the last refusal", last))
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


def _of_card(lapsed: Card, published: Card | None) -> Notice:
    if published is None:
        return Notice(
            f"{lapsed.name} was retired, and your consent ended with it. No card is published now."
        )
    return Notice(f"{lapsed.name} was replaced by {published.name}. Enrol again.", card=published)
