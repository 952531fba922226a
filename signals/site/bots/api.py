"""GET /api/v1/bots: a desk's own bots, and how they are doing."""

from typing import Any

from django.utils import timezone
from rest_framework.request import Request

from desks.api.schemas import (
    EXAMPLE_BOT_ID,
    EXAMPLE_TIME,
    MAX_AGE_FIELD,
    ExpectationRecord,
    PairAndDirection,
)
from desks.ids import BOT, BOT_ID, SIGNAL_ID, id_form
from desks.models import Desk
from events.http.api_view import ApiResponse, ApiView
from events.http.cursors import list_cursor, list_id, page_of
from events.http.json_schema import BOOLEAN, COUNT, DATE_TIME, STRING, one_of, pattern
from events.http.parameters import PageParameters
from events.http.refusals import Invalid
from events.http.schemas import Field, Paper, Schema, operation
from signals.reports.attention import bots_at_a_glance
from signals.site.bots.records import State, bot_records

LIST = "bots"


class BotElection(PairAndDirection):
    """The bot's standing election. Its signals must repeat it."""

    electedAt = Field(DATE_TIME)


class LastOutcome(Schema):
    """What became of the bot's latest signal."""

    outcome = Field(one_of(["filled", "refused"]))
    code = Field(STRING, "Why it was refused. Null if it was filled.", allow_null=True)
    signal = Field(SIGNAL_ID, "The accepted signal. Null if it was refused.", allow_null=True)
    event = Field(pattern("evt_[1-9][0-9]*"), "The event in the feed.")
    at = Field(DATE_TIME)


class CountsOfToday(Schema):
    """Counts since midnight UTC."""

    filled = refused = Field(COUNT)
    more = Field(BOOLEAN, "Whether counting stopped early: there are more.")


class BotRecord(Schema):
    """A bot of the desk."""

    botId = Field(BOT_ID)
    name = Field(STRING)
    createdAt = Field(DATE_TIME)
    state = Field(one_of(State), "Whether its signals are accepted, or what is missing first.")
    expected = ExpectationRecord(allow_null=True)
    silentSince = Field(
        DATE_TIME, "When an expected bot was last heard, if it is silent.", allow_null=True
    )
    maxAge = MAX_AGE_FIELD
    election = BotElection(allow_null=True)
    last = LastOutcome(allow_null=True, help_text="Among its latest 20 events.")
    today = CountsOfToday()


class BotPage(Paper):
    """A page of bots."""

    bots = BotRecord(many=True)
    next = Field(STRING, "The after of the next page. Null on the last page.", allow_null=True)


BOT_EXAMPLE = {
    "botId": EXAMPLE_BOT_ID,
    "name": "Chart",
    "createdAt": EXAMPLE_TIME,
    "state": State.ACCEPTS_SIGNALS.value,
    "expected": {"every": 3600, "tradingDays": False, "grace": 300},
    "silentSince": None,
    "maxAge": None,
    "election": {"pair": "BTC/USDT", "direction": "long", "electedAt": EXAMPLE_TIME},
    "last": {
        "outcome": "refused",
        "code": "pair_mismatch",
        "signal": None,
        "event": "evt_12",
        "at": EXAMPLE_TIME,
    },
    "today": {"filled": 3, "refused": 1, "more": False},
}


class BotsView(ApiView):
    """The bots of the calling token's desk. It changes nothing: pages create and change bots."""

    required_scopes = {"GET": "read", "HEAD": "read"}
    for_platform = False

    @operation(
        "listBots",
        "List your own bots",
        "The bots of the calling desk token's desk, in the order of their ids: election, state, "
        "latest outcome, and the counts of the day in UTC. Removed bots are not listed.",
        tag="Desks",
        response=BotPage,
        example={"paper": True, "liveWrites": False, "bots": [BOT_EXAMPLE], "next": None},
        parameters=[PageParameters],
        refusals=[Invalid],
    )
    def get(self, request: Request) -> ApiResponse:
        params, now = PageParameters.read(request.query_params), timezone.now()
        caller: Any = request.auth
        desk: Desk = caller.desk
        bots = bots_at_a_glance(desk, now).order_by("pk")
        if "after" in params:
            bots = bots.filter(pk__gt=list_id(params["after"], LIST, id_form(BOT)))
        rows = list(bots[: params["limit"] + 1])
        page, next_cursor = page_of(rows, params["limit"], lambda bot: list_cursor(LIST, bot.pk))
        records = bot_records(desk, page, now)
        return ApiResponse(
            {"paper": True, "liveWrites": False, "bots": records, "next": next_cursor}
        )
