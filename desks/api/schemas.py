"""OpenAPI schemas of desks, cards and elections, and descriptions of the desk operations."""

from datetime import timedelta
from typing import Any

from drf_spectacular.utils import OpenApiParameter, PolymorphicProxySerializer

from desks import expectation_rules as rules
from desks.api.serializers import DeskParameters
from desks.choices import PAIR_FORM, Direction
from desks.ids import BOT, BOT_ID, CARD_ID, USER, USER_ID
from desks.models.connection import TRADE_ONLY
from desks.models.election import Reason
from events.http.json_schema import BOOLEAN, DATE_TIME, STRING, one_of, pattern
from events.http.refusals import CursorLost, Invalid, NotFound
from events.http.schemas import Field, Paper, Schema, operation

TAG = "Desks"
NO_TIME = timedelta(0)


EXAMPLE_USER_ID = f"{USER}7Jq2nT0vYc5RkXw9LbZsA1"
EXAMPLE_BOT_ID = f"{BOT}3Fh8mPq1VdK6yUo4CxEeN2"
EXAMPLE_TIME = "2026-11-20T09:30:00.000Z"


def _seconds(least: timedelta, most: timedelta) -> dict[str, Any]:
    """The schema of a length of time in seconds."""
    return {"type": "integer", "minimum": least // rules.SECOND, "maximum": most // rules.SECOND}


class PairAndDirection(Schema):
    """A pair and a direction. A signal must repeat those that the customer elected."""

    pair = Field(pattern(PAIR_FORM), "BASE/QUOTE, compared exactly.")
    direction = Field(one_of(Direction))


class PublishedCard(PairAndDirection):
    """The published card. Fan-outs and deploys must repeat its pair and direction."""

    name = Field(STRING)


class ConnectionRecord(Schema):
    """The connection of a desk to a venue. The service never asks for a venue's keys."""

    venue = Field(STRING)
    access = Field({"const": TRADE_ONLY})
    connectedAt = Field(DATE_TIME)


class CardElection(PairAndDirection):
    """The desk's standing election on the published card."""

    card = Field(STRING, "The card's name.")
    electedAt = Field(DATE_TIME)


class DeskRecord(Paper):
    """A user's desk."""

    userId = Field(USER_ID)
    connected = Field(BOOLEAN, "The desk has a venue and its owner confirmed trade-only access.")
    ready = Field(BOOLEAN, "The desk has a standing election on the published card.")
    connection = ConnectionRecord(allow_null=True)
    election = CardElection(allow_null=True)
    createdAt = Field(DATE_TIME)
    updatedAt = Field(
        DATE_TIME, "When the desk itself last changed. Publishing a card changes none."
    )


class RemovedDesk(Schema):
    """A desk that is no longer listed: its owner was deactivated or closed the account."""

    userId = Field(USER_ID)
    removed = Field({"const": True})


class DeskPage(Paper):
    """A page of desks."""

    desks = PolymorphicProxySerializer(
        "DeskOrRemovedDesk", [DeskRecord, RemovedDesk], resource_type_field_name=None, many=True
    )
    asOf = Field(
        STRING,
        "The position of the log before the first page: send it as changedSince later. It is also "
        "an after of the feed.",
    )
    next = Field(
        STRING,
        "The after of the next page. Null on the last page.",
        allow_null=True,
    )
    cardChanged = Field(
        BOOLEAN,
        "With changedSince only. True if the published card changed: then no desk is ready but "
        "those on this page and on the pages after it.",
        required=False,
    )


# --- The data of events --------------------------------------------------------------------------


class VenueData(Schema):
    """Data of ``desk.…`` events. The venue is None if the desk has none."""

    venue = Field(STRING, allow_null=True)


class CardData(Schema):
    """Data of ``card.…`` events."""

    card = PublishedCard()
    cardId = Field(CARD_ID)


class ElectionData(PairAndDirection):
    """Data of ``election.made``. An election is on a card or for a bot."""

    card = Field(STRING, "The card's name.", required=False)
    cardId = Field(CARD_ID, required=False)
    botId = Field(BOT_ID, required=False)


class WithdrawalData(ElectionData):
    """Data of ``election.withdrawn``."""

    reason = Field(one_of(Reason.values))


class AutomationData(Schema):
    """Data of ``automation.created`` and ``automation.removed``."""

    botId = Field(BOT_ID)
    name = Field(STRING)


class ExpectationRecord(Schema):
    """How often the bot is expected to send: every so often, or on each trading day."""

    every = Field(
        _seconds(rules.MIN_EVERY, rules.MAX_EVERY),
        "Seconds. Null for each trading day.",
        allow_null=True,
    )
    tradingDays = Field(BOOLEAN, "On each day from Monday to Friday, in the owner's time zone.")
    grace = Field(_seconds(NO_TIME, rules.MAX_GRACE), "Seconds by which a signal may be late.")


MAX_AGE_FIELD = Field(
    _seconds(rules.SECOND, rules.MAX_AGE),
    "Seconds. A signal with an older sentAt is refused. Null if the age does not matter.",
    allow_null=True,
)


class ChangeData(AutomationData):
    """Data of ``automation.changed``: what is expected of the bot's signals."""

    expected = ExpectationRecord(allow_null=True)
    maxAge = MAX_AGE_FIELD


class SilenceData(AutomationData):
    """Data of ``automation.quiet`` and ``automation.heard``."""

    since = Field(DATE_TIME, "When the bot was last heard, or expected for the first time.")
    dueAt = Field(DATE_TIME, "Of automation.quiet: by when it was expected.", required=False)
    heardAt = Field(DATE_TIME, "Of automation.heard: when a signal was accepted.", required=False)


# --- The operations ----------------------------------------------------------------------------

DESK = {
    "userId": EXAMPLE_USER_ID,
    "paper": True,
    "liveWrites": False,
    "connected": True,
    "ready": True,
    "connection": {"venue": "Kraken", "access": TRADE_ONLY, "connectedAt": EXAMPLE_TIME},
    "election": {
        "card": "Morning trend",
        "pair": "BTC/USDT",
        "direction": "long",
        "electedAt": EXAMPLE_TIME,
    },
    "createdAt": EXAMPLE_TIME,
    "updatedAt": EXAMPLE_TIME,
}

in_path = OpenApiParameter("user_id", USER_ID, "path", description="The desk.")

read_me = operation(
    "readMe",
    "Read your own desk",
    "Returns the desk of the calling desk token.",
    tag=TAG,
    response=DeskRecord,
    example=DESK,
)

list_desks = operation(
    "listDesks",
    "Pull desks",
    "Lists desks in a stable order. A desk that exists throughout appears exactly once, and a deep "
    "page is as fast as the first. `ready=1` selects the desks that an engine may deploy to. "
    "`signal` selects the desks that a signal filled. Pass `next` as `after` to get the next page. "
    "To keep a copy up to date, send the `asOf` of the last list as `changedSince`: the response "
    "has the desks whose record changed since, and those that left with `removed`.",
    tag=TAG,
    response=DeskPage,
    example={
        "paper": True,
        "liveWrites": False,
        "desks": [DESK],
        "asOf": "ZXZlbnRzOjRmMWMyYTkwLjc",
        "next": None,
    },
    parameters=[DeskParameters],
    refusals=[CursorLost, Invalid],
)

read_desk = operation(
    "readDesk",
    "Read one desk",
    "Returns one desk. Requires a platform token with the scope read.",
    tag=TAG,
    response=DeskRecord,
    example=DESK,
    parameters=[in_path],
    refusals=[NotFound],
)
