"""GET /api/v1/bots: a desk's own bots, and how they are doing (contract, section 4, bots)."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypedDict

from django.urls import path
from django.utils import timezone
from rest_framework.request import Request

from desks.expectation_rules import ExpectationRecord, MaxAge
from desks.ids import BOT, BotId, SignalId, id_form
from desks.models import Automation, Desk
from desks.pair_and_direction import PairAndDirection
from events.choices import TextEnum
from events.feed import EventId, read_head
from events.http.api_view import ApiResponse, ApiView
from events.http.cursors import list_page
from events.http.parameters import PageParameters
from events.http.schemas import NextPage, PaperOnly, endpoint
from events.json_schema import Count, DateTime, Example, one_of
from events.kinds import Kind
from events.models import Event
from events.times import to_rfc3339
from signals.reports.attention import bots_at_a_glance
from signals.reports.counts import BotTally, count_bots

LIST = "bots"


class BotState(TextEnum):
    """Whether a bot's signals are accepted, or what is missing first."""

    ACCEPTS_SIGNALS = "accepts_signals"
    NO_ELECTION = "no_election"
    NO_SECRET = "no_secret"  # noqa: S105 - a state


class BotElection(PairAndDirection):
    """The bot's standing election. Its signals must repeat it."""

    electedAt: DateTime


class LastOutcome(TypedDict):
    """What became of the bot's latest signal."""

    outcome: Annotated[Literal["filled", "refused"], Example("refused")]
    code: Annotated[
        str | None, "Why it was refused. Null if it was filled.", Example("pair_mismatch")
    ]
    signal: Annotated[SignalId | None, "The accepted signal. Null if it was refused."]
    event: Annotated[EventId, "The event in the feed."]
    at: DateTime


class CountsOfToday(TypedDict):
    """Counts since midnight UTC."""

    filled: Count
    refused: Count
    more: Annotated[bool, "Whether counting stopped early: there are more.", Example(False)]


class BotRecord(TypedDict):
    """A bot of the desk."""

    botId: BotId
    name: Annotated[str, Example("Chart")]
    createdAt: DateTime
    state: Annotated[
        str, one_of(BotState), "Whether its signals are accepted, or what is missing first."
    ]
    expected: ExpectationRecord | None
    silentSince: Annotated[DateTime | None, "When an expected bot was last heard, if it is silent."]
    maxAge: MaxAge
    election: BotElection | None
    last: Annotated[LastOutcome | None, "Among its latest 20 events."]
    today: CountsOfToday


class BotPage(PaperOnly):
    """A page of bots."""

    bots: list[BotRecord]
    next: NextPage


class BotsView(ApiView):
    """The bots of the calling token's desk. It changes nothing: pages create and change bots."""

    tag = "Desks"
    required_scopes = {"GET": "read", "HEAD": "read"}
    for_platform = False

    @endpoint("listBots", parameters=[PageParameters])
    def get(self, request: Request) -> ApiResponse[BotPage]:
        """List your own bots.

        The bots of the calling desk token's desk, in the order of their ids: election, state,
        latest outcome, and the counts of the day in UTC. Removed bots are not listed.
        """
        params, now = PageParameters.read(request.query_params), timezone.now()
        desk: Desk = request.auth.desk
        bots = bots_at_a_glance(desk, now).order_by("pk")
        page, next_cursor = list_page(bots, params, LIST, id_form(BOT))
        records = bot_records(desk, page, now)
        return ApiResponse(
            {"paper": True, "liveWrites": False, "bots": records, "next": next_cursor}
        )


def bot_records(desk: Desk, bots: Sequence[Automation], now: datetime) -> list[BotRecord]:
    """The record of each bot. ``bots`` are some of ``bots_at_a_glance``. Takes four queries."""
    if not bots:
        return []
    head = read_head().position
    with timezone.override(UTC):
        tallies = count_bots(desk.public_id, head, [bot.pk for bot in bots], now, days=1)
    positions = [tally.latest[0][1] for tally in tallies.values() if tally.latest]
    last = Event.objects.in_bulk(positions)
    return [_record(bot, tallies[bot.pk], last) for bot in bots]


def _record(bot: Any, tally: BotTally, last: Mapping[int, Event]) -> BotRecord:
    election: BotElection = {
        "pair": bot.pair,
        "direction": bot.direction,
        "electedAt": to_rfc3339(bot.elected_at),
    }
    expectation = bot.expectation
    return {
        "botId": bot.pk,
        "name": bot.name,
        "createdAt": to_rfc3339(bot.created_at),
        "state": _state(bot.pair, has_secret=bot.has_secret).value,
        "expected": expectation.to_dict() if expectation else None,
        "silentSince": to_rfc3339(bot.silent_since),
        "maxAge": bot.max_age,
        "election": election if bot.pair else None,
        "last": _outcome(last[tally.latest[0][1]]) if tally.latest else None,
        "today": {
            "filled": tally.today.filled.number,
            "refused": tally.today.refused.number,
            "more": tally.today.filled.is_cut or tally.today.refused.is_cut,
        },
    }


def _state(pair: str | None, *, has_secret: bool) -> BotState:
    if not pair:
        return BotState.NO_ELECTION
    return BotState.ACCEPTS_SIGNALS if has_secret else BotState.NO_SECRET


def _outcome(event: Event) -> LastOutcome:
    """What became of the bot's latest signal, and the event that says so."""
    return {
        "outcome": "filled" if event.kind == Kind.SIGNAL_FILLED else "refused",
        "code": event.content["data"].get("code"),
        "signal": event.signal_id,
        "event": event.id,
        "at": to_rfc3339(event.at),
    }


urlpatterns = [path("v1/bots", BotsView.as_view(), name="own-bots")]
