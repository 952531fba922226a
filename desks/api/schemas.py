"""The shapes of desks, cards and elections, and how the desk pull describes itself."""

from drf_spectacular.utils import OpenApiParameter

from desks.api.serializers import DeskParameters
from desks.ids import BOT, RANDOM_CHARACTERS, USER
from desks.models.card import PAIR_FORM, Direction
from desks.models.connection import TRADE_ONLY
from desks.models.election import Reason
from events.api.schemas import FLAG, MOMENT, TEXT, Field, Paper, Shape, one_of, operation, pattern
from events.refusals import Invalid, NotFound

TAG = "Desks"


def public_id(prefix: str) -> dict[str, str]:
    """The schema of a public id."""
    return pattern(f"{prefix}[0-9A-Za-z]{{{RANDOM_CHARACTERS}}}")


USER_ID, BOT_ID = public_id(USER), public_id(BOT)
PAIR = pattern(PAIR_FORM)
DIRECTION = one_of(Direction.values)

EXAMPLE_USER_ID = f"{USER}7Jq2nT0vYc5RkXw9LbZsA1"
EXAMPLE_BOT_ID = f"{BOT}3Fh8mPq1VdK6yUo4CxEeN2"
EXAMPLE_TIME = "2026-11-20T09:30:00.000Z"


class PairAndDirection(Shape):
    """What is elected, and what a signal repeats."""

    pair = Field(PAIR, "BASE/QUOTE, compared exactly.")
    direction = Field(DIRECTION)


class PublishedCard(PairAndDirection):
    """The card that fan-outs and deploys repeat."""

    name = Field(TEXT)


class ConnectionRecord(Shape):
    """That the desk is connected. No key of a venue is ever asked for."""

    venue = Field(TEXT)
    access = Field({"const": TRADE_ONLY})
    connectedAt = Field(MOMENT)


class CardElection(PairAndDirection):
    """The desk's standing election on the published card."""

    card = Field(TEXT, "The card's name.")
    electedAt = Field(MOMENT)


class DeskRecord(Paper):
    """A user's desk."""

    userId = Field(USER_ID)
    connected = Field(FLAG, "It names a venue, and its owner confirmed trade-only access.")
    ready = Field(FLAG, "It has a standing election on the published card.")
    connection = ConnectionRecord(allow_null=True)
    election = CardElection(allow_null=True)
    createdAt = Field(MOMENT)
    updatedAt = Field(MOMENT, "When the desk itself last changed: publishing a card touches none.")


class DeskPage(Paper):
    """A page of desks."""

    desks = DeskRecord(many=True)
    next = Field(TEXT, "The after of the next page, null at the end.", allow_null=True)


# --- What the events of a desk say ---------------------------------------------------------------


class VenueData(Shape):
    """Of ``desk.…``: the venue, null before there is one."""

    venue = Field(TEXT, allow_null=True)


class CardData(Shape):
    """Of ``card.…``."""

    card = PublishedCard()


class ElectionData(PairAndDirection):
    """Of ``election.made``: on a card, or for a bot."""

    card = Field(TEXT, "The card's name.", required=False)
    botId = Field(BOT_ID, required=False)


class WithdrawalData(ElectionData):
    """Of ``election.withdrawn``."""

    reason = Field(one_of(Reason.values))


class AutomationData(Shape):
    """Of ``automation.…``."""

    botId = Field(BOT_ID)
    name = Field(TEXT)


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
    "Read one's own desk",
    "The desk of the desk token that calls.",
    tag=TAG,
    answer=DeskRecord,
    example=DESK,
)

list_desks = operation(
    "listDesks",
    "Pull desks",
    "The desks, in a stable order: one that is there throughout is seen exactly once, and a deep "
    "page costs what the first does. `ready=1` are those that an engine may deploy to; `signal` "
    "are those that a signal filled. Pages follow each other by `next`.",
    tag=TAG,
    answer=DeskPage,
    example={"paper": True, "liveWrites": False, "desks": [DESK], "next": None},
    parameters=[DeskParameters],
    refusals=[Invalid],
)

read_desk = operation(
    "readDesk",
    "Read one desk",
    "One desk, for a platform token that may read.",
    tag=TAG,
    answer=DeskRecord,
    example=DESK,
    parameters=[in_path],
    refusals=[NotFound],
)
