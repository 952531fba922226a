"""The form of pairs and the directions. Without Django, for the pure modules of ``signals.law``."""

from typing import Annotated, TypedDict

from events.choices import TextEnum
from events.json_schema import Example, one_of, pattern

MAX_PAIR_LENGTH = 41
PAIR_FORM = r"[A-Z0-9._-]{1,20}/[A-Z0-9._-]{1,20}"


class Direction(TextEnum):
    """The direction of a card, an election or a signal."""

    LONG = "long"
    SHORT = "short"


class PairAndDirection(TypedDict):
    """A pair and a direction. A signal must repeat those that the customer elected."""

    pair: Annotated[str, pattern(PAIR_FORM), "BASE/QUOTE, compared exactly.", Example("BTC/USDT")]
    direction: Annotated[str, one_of(Direction)]


class PublishedCard(PairAndDirection):
    """The published card. Fan-outs and deploys must repeat its pair and direction."""

    name: str
