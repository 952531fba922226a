"""Explains one event of a desk to its owner: what was sent and elected, and what to do now."""

from django.urls import reverse

from desks.models import Desk, Election
from desks.pair_and_direction import PairAndDirection
from events.control.lists import PageLink
from events.http.refusals import Refused
from events.kinds import GROUPS, SUPPRESSED, Kind
from events.models import Event
from signals.law.refusals import DirectionMismatch, PairMismatch, differing
from signals.reports.activity import Line
from signals.reports.reasons import Check, checks, title_of

TITLES: dict[str, str] = {
    Kind.SIGNAL_FILLED: "Filled on paper",
    Kind.SIGNAL_DRY_RUN: "A dry run that matched",
    Kind.SIGNAL_RECORDED: "Recorded",
}
# Refusals because of the election. Electing what was sent mends them.
OF_THE_ELECTION = ("pair_mismatch", "direction_mismatch", "no_election")
# Refusals about the message itself, which the page that checks a message explains by field.
OF_THE_MESSAGE = ("exchange_secret", "ticker_only", "mode_refused", "not_elected", "invalid")


def election_at(position: int, user_id: str, bot_id: str | None) -> Election | None:
    """The election of the bot, or of the desk on a card, that stood at this position.

    The elections of one bot never overlap, nor do those of one desk on cards. So only the last one
    that was opened before can have stood.
    """
    made = Election.objects.with_end().filter(desk__public_id=user_id, opened__lt=position)
    of = {"automation": bot_id} if bot_id else {"card__isnull": False}
    last = made.filter(**of).order_by("-opened").first()
    return last if last and last.end > position else None  # type: ignore[attr-defined]


def story_of(event: Event, line: Line, desk: Desk) -> dict[str, object]:
    """What the page of an event says that the desk sees, in at most two queries.

    ``sent`` and ``elected`` hold a pair and a direction; nothing may have been elected.
    ``election`` is the desk's election that stood at the event's position. ``is_elected_now`` says
    that what was refused is elected by now. ``has_page`` says that the refusal's code has a page.
    """
    if event.kind not in GROUPS["signal.*"] or line.data.get("code") == SUPPRESSED:
        title = title_of(None) if line.is_refusal else line.label
        return {"title": title, "action": _action(line)}
    election = election_at(event.position, desk.public_id, line.bot_id)
    if line.signal is None:
        # Of a signal that no bot sent, the log has the card's pair and direction, if they differed.
        sent = line.data["sent"]
        elected = line.data["elected"] if line.bot_id else elected_in(election)
    else:
        sent = {name: line.signal[name] for name in ("pair", "direction")}
        elected = elected_in(election)
    return {
        "title": _title(event, line),
        "checks": _checks(line.data.get("code"), elected),
        "has_page": Refused.of(line.data.get("code")) is not None,
        "sent": sent,
        "elected": elected,
        "election": election if election and elected == elected_in(election) else None,
        "is_elected_now": line.is_refusal and _is_elected_now(line, sent),
        "action": _action(line),
    }


def _title(event: Event, line: Line) -> str:
    if not line.is_refusal:
        return TITLES[event.kind]
    title = title_of(line.data["code"])
    if len(differing(line.data)) > 1 and line.data["code"] == PairMismatch.code:
        title = "Pair and direction differ from the election"
    # Without a bot it was compared with the published card.
    return title if line.bot_id else title.replace("the election", "the card")


def _checks(code: str | None, elected: PairAndDirection | None) -> list[Check]:
    """The checks of a signal. None of a draft that was compared with the card, with no election.

    Those checks ask what was elected.
    """
    is_compared = code in (None, PairMismatch.code, DirectionMismatch.code)
    return [] if is_compared and elected is None else checks(code)


def elected_in(election: Election | None) -> PairAndDirection | None:
    """The pair and direction of an election, to show beside what was sent."""
    return {"pair": election.pair, "direction": election.direction} if election else None


def _is_elected_now(line: Line, sent: dict[str, str | None]) -> bool:
    """Whether the bot's election was the reason, and is by now what the refused signal said."""
    if line.data["code"] not in OF_THE_ELECTION:
        return False
    standing = Election.objects.standing().filter(automation=line.bot_id).first()
    return bool(line.bot_name and elected_in(standing) == sent)


def _action(line: Line) -> PageLink | None:
    """The page where the owner can do something about a refusal; None if there is nothing to do."""
    if not line.is_refusal:
        return None
    if line.data["code"] == "desk_not_ready":
        return PageLink("Go to your desk", reverse("desk"))
    if line.bot_name is None:
        return None
    if line.data["code"] in OF_THE_MESSAGE:
        return PageLink("Check a message", reverse("check", args=[line.bot_id]))
    return PageLink(f"Open {line.bot_name}", reverse("bot", args=[line.bot_id]))
