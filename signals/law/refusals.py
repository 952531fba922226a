"""The refusals that only a signal can get (contract, section 5)."""

from typing import ClassVar

from desks.choices import PairAndDirection
from events.http.refusals import Refused, Unlawful

ELECTED: PairAndDirection = {"pair": "BTC/USDT", "direction": "long"}  # in examples


class NonceUsed(Refused):
    code, status, title = "nonce_used", 409, "Nonce already used"
    detail = (
        "The signal was not processed again. The member first holds the answer to the signal that "
        "used this nonce. Send a new signal with a new nonce."
    )


class TickerOnly(Unlawful):
    code, title = "ticker_only", "A ticker instead of a pair and direction"
    detail = (
        "Send the elected pair as BASE/QUOTE and the elected direction. The service never maps a "
        "ticker to a pair."
    )


class ModeRefused(Unlawful):
    code, title = "mode_refused", "Only paper signals are accepted"
    detail = "Use mode paper. The modes armed and live are always refused."


class NotElected(Unlawful):
    code, title = "not_elected", "The signal is not marked as elected"
    detail = "Send elected as JSON true, with a pair and direction that the customer has elected."


class SignalTooOld(Unlawful):
    code, title = "signal_too_old", "The signal is too old"
    detail = (
        "The bot refuses a signal whose sentAt is older than its owner allows. Send each signal at "
        "once, and check the clock of the sender."
    )


class PairMismatch(Unlawful):
    code, title = "pair_mismatch", "Pair differs from the election"
    detail = "Send exactly the elected pair. The member elected holds it."
    example = {"sent": {**ELECTED, "pair": "ETH/USDT"}, "elected": ELECTED}


class DirectionMismatch(Unlawful):
    code, title = "direction_mismatch", "Direction differs from the election"
    detail = "Send exactly the elected direction. The member elected holds it."
    example = {"sent": {**ELECTED, "direction": "short"}, "elected": ELECTED}


class NoElection(Unlawful):
    code, title = "no_election", "The bot has no election"
    detail = "The bot's owner must first elect a pair and a direction on the bot's page."


class NoCard(Unlawful):
    code, title = "no_card", "No card is published"
    detail = "Wait until a card is published. The contract then shows it as publishedCard."


class DeskNotReady(Unlawful):
    """``reason`` is a key of ``REASONS``, whose sentence says what is missing."""

    code, title = "desk_not_ready", "Desk not ready"
    detail = "The desk's owner must first connect it and enrol in the published card."
    example = {"reason": "not_enrolled"}
    REASONS: ClassVar[dict[str, str]] = {
        "not_connected": "The desk is not connected. Its owner must connect it and enrol in the "
        "published card.",
        "not_enrolled": "The desk has never enrolled. Its owner must enrol in the published card.",
        "card_changed": "The card that the desk enrolled in was retired. Its owner must enrol in "
        "the published card.",
        "withdrawn": "The desk's election was withdrawn. Its owner must enrol in the published "
        "card again.",
        "deactivated": "The account of the desk's owner is deactivated. Stop sending signals to "
        "this desk.",
    }

    def __init__(self, reason: str) -> None:
        super().__init__(self.REASONS[reason], reason=reason)
