"""The refusals that only a signal can get, and the checks of a signal (contract, section 5)."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

from desks.pair_and_direction import PairAndDirection
from events.http.refusals import ExchangeSecret, Invalid, Refused, SignatureInvalid, Unlawful

ELECTED: PairAndDirection = {"pair": "BTC/USDT", "direction": "long"}  # in examples


class NonceUsed(Refused):
    code, status, title = "nonce_used", 409, "Nonce already used"
    detail = (
        "The signal was not processed again. The field first of this answer has the answer to the "
        "signal that used this nonce. Send a new signal with a new nonce."
    )
    wrong_members = ("nonce",)


class TickerOnly(Unlawful):
    code, title = "ticker_only", "A ticker instead of a pair and direction"
    detail = (
        "Send the elected pair as BASE/QUOTE and the elected direction. The service never maps a "
        "ticker to a pair."
    )
    wrong_members = ("pair", "direction")


class ModeRefused(Unlawful):
    code, title = "mode_refused", "Only paper signals are accepted"
    detail = "Use mode paper. The modes armed and live are always refused."


class NotElected(Unlawful):
    code, title = "not_elected", "The signal is not marked as elected"
    detail = "Send elected as JSON true, with a pair and direction that the customer has elected."
    wrong_members = ("elected",)


class SignalTooOld(Unlawful):
    code, title = "signal_too_old", "The signal is too old"
    detail = (
        "The bot refuses a signal whose sentAt is older than its owner allows. Send each signal at "
        "once, and check the clock of the sender."
    )
    wrong_members = ("sentAt",)


class PairMismatch(Unlawful):
    code, title = "pair_mismatch", "Pair differs from the election"
    detail = "Send exactly the elected pair: it is in the field elected of this answer."
    example = {"sent": {**ELECTED, "pair": "ETH/USDT"}, "elected": ELECTED}
    wrong_members = ("pair",)


class DirectionMismatch(Unlawful):
    code, title = "direction_mismatch", "Direction differs from the election"
    detail = "Send exactly the elected direction: it is in the field elected of this answer."
    example = {"sent": {**ELECTED, "direction": "short"}, "elected": ELECTED}
    wrong_members = ("direction",)


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


# --- What a desk's owner reads of a refusal ------------------------------------------------------

Data = Mapping[str, Any]  # the ``data`` of ``signal.refused``
Text = str | Callable[[Data], str]

HIDDEN_PAIR, HIDDEN_DIRECTION = "no readable pair", "no readable direction"
AS_ELECTED = "Send exactly what you elected, or elect what the bot sends."


class Explanation(NamedTuple):
    """What a desk's owner reads of a refusal.

    ``question`` is the check that decided, ``fault`` what the sender did, ``advice`` what the owner
    of the bot can do.
    """

    question: str
    fault: Text
    advice: Text


def differing(data: Data) -> tuple[str, ...]:
    """What was sent differently from what was elected: ``pair``, ``direction``, both or neither."""
    sent, elected = data["sent"], data["elected"]
    if not elected:
        return ()
    return tuple(name for name in ("pair", "direction") if sent[name] != elected[name])


def _mismatch(data: Data) -> str:
    """Says only what differs: the pair, the direction, or both.

    Without a bot it was compared with the published card: a draft reaches a desk that is not ready.
    """
    sent, elected = data["sent"], data["elected"]
    said = "you elected" if data["botId"] else "the published card showed"
    pair, direction = sent["pair"] or HIDDEN_PAIR, sent["direction"] or HIDDEN_DIRECTION
    differs = differing(data)
    if differs == ("pair",):
        return f"sent the pair {pair}; {said} {elected['pair']}."
    if differs == ("direction",):
        return f"sent the direction {direction}; {said} {elected['direction']}."
    return f"sent {pair} {direction}; {said} {elected['pair']} {elected['direction']}."


def _invalid(data: Data) -> str:
    fields = ", ".join(error["field"] for error in data.get("errors", []))
    return f"sent a message with a field that is missing or not valid{fields and f': {fields}'}."


def _each_field(data: Data) -> str:
    """What each field must be. Events of earlier releases do not name the fields."""
    details = " ".join(f"{error['field']}: {error['detail']}" for error in data.get("errors", []))
    return details or "Check a message on the bot's page: the answer names each field."


# By code, in the order of the checks. Several refusals may answer one question.
EXPLANATIONS: dict[str, Explanation] = {
    SignatureInvalid.code: Explanation(
        "Is the sender who it says?",
        "was named in a message whose signature is not valid.",
        "If your own program sent it, give it the bot's current secret. If not, do nothing: "
        "without the secret nobody can signal for your bot.",
    ),
    ExchangeSecret.code: Explanation(
        "Is the message free of secrets?",
        "sent a message that contains what looks like a secret. Nothing of it was stored.",
        "Remove the secret from the message, revoke it where it was issued, and replace it.",
    ),
    TickerOnly.code: Explanation(
        "Does it name a pair and a direction, not a ticker?",
        "sent a ticker instead of a pair and a direction.",
        "Write the elected pair as BASE/QUOTE and the elected direction into the message.",
    ),
    ModeRefused.code: Explanation(
        "Is it on paper?",
        "asked for a mode other than paper.",
        "Write paper as the mode. Every signal is paper.",
    ),
    NotElected.code: Explanation(
        "Is it marked as elected?",
        "sent a signal that is not marked as elected.",
        "Write elected as true, without quotes, into the message.",
    ),
    Invalid.code: Explanation(
        "Is every field valid?",
        _invalid,
        _each_field,
    ),
    NonceUsed.code: Explanation(
        "Is the nonce new?",
        "used a nonce a second time. The first signal with it stands.",
        "Use a new nonce for each signal. If this was a retry, nothing is lost.",
    ),
    SignalTooOld.code: Explanation(
        "Is it recent enough?",
        "sent a signal that was older than you allow.",
        "Find out why it arrived late. If the sender's clock is wrong, set it.",
    ),
    DeskNotReady.code: Explanation(
        "Was something elected?",
        "sent a signal while your desk was not ready.",
        "Connect the desk and enrol in the published card to receive signals. Your desk's page "
        "says which is missing.",
    ),
    NoCard.code: Explanation(
        "Was something elected?",
        "sent a signal while no card was published.",
        "You need to do nothing. The sender must wait until a card is published.",
    ),
    NoElection.code: Explanation(
        "Was something elected?",
        "sent a signal, but you had elected nothing for it.",
        "Elect a pair and a direction for the bot. Then send a new signal.",
    ),
    PairMismatch.code: Explanation(
        "Is the pair the elected one?",
        _mismatch,
        AS_ELECTED,
    ),
    DirectionMismatch.code: Explanation(
        "Is the direction the elected one?",
        _mismatch,
        AS_ELECTED,
    ),
}
