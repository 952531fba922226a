"""What the events of desks, cards, elections and bots say: their ``data``, by kind."""

from typing import Annotated, NotRequired, TypedDict

from django.db.models import TextChoices

from desks.expectation_rules import ExpectationRecord, MaxAge
from desks.ids import BotId, CardId
from desks.pair_and_direction import PairAndDirection, PublishedCard
from events.json_schema import DateTime, one_of
from events.kinds import Kind, data_of


@data_of(
    Kind.DESK_CREATED,
    Kind.DESK_CONNECTED,
    Kind.DESK_DISCONNECTED,
    Kind.DESK_DEACTIVATED,
    Kind.DESK_REACTIVATED,
    Kind.DESK_CLOSED,
)
class VenueData(TypedDict):
    """Data of ``desk.…`` events. The venue is None if the desk has none."""

    venue: str | None


@data_of(Kind.CARD_PUBLISHED, Kind.CARD_RETIRED)
class CardData(TypedDict):
    """Data of ``card.…`` events."""

    card: PublishedCard
    cardId: CardId


class WithdrawalReason(TextChoices):
    """Why an election was withdrawn."""

    ASKED = "asked"
    DISCONNECTED = "disconnected"
    REMOVED = "removed"
    REPLACED = "replaced"
    DEACTIVATED = "deactivated"
    CLOSED = "closed"


@data_of(Kind.ELECTION_MADE)
class ElectionData(PairAndDirection):
    """Data of ``election.made``. An election is on a card or for a bot."""

    card: NotRequired[Annotated[str, "The card's name."]]
    cardId: NotRequired[CardId]
    botId: NotRequired[BotId]


@data_of(Kind.ELECTION_WITHDRAWN)
class WithdrawalData(ElectionData):
    """Data of ``election.withdrawn``."""

    reason: Annotated[str, one_of(WithdrawalReason.values)]


@data_of(Kind.AUTOMATION_CREATED, Kind.AUTOMATION_REMOVED)
class AutomationData(TypedDict):
    """Data of ``automation.created`` and ``automation.removed``."""

    botId: BotId
    name: str


@data_of(Kind.AUTOMATION_CHANGED)
class ChangeData(AutomationData):
    """Data of ``automation.changed``: what is expected of the bot's signals."""

    expected: ExpectationRecord | None
    maxAge: MaxAge


@data_of(Kind.AUTOMATION_QUIET, Kind.AUTOMATION_HEARD)
class SilenceData(AutomationData):
    """Data of ``automation.quiet`` and ``automation.heard``."""

    since: Annotated[DateTime, "When the bot was last heard, or expected for the first time."]
    dueAt: NotRequired[Annotated[DateTime, "Of automation.quiet: by when it was expected."]]
    heardAt: NotRequired[Annotated[DateTime, "Of automation.heard: when a signal was accepted."]]
