"""Refusals of requests that are understood and break a rule: 422."""

from typing import ClassVar

from events.http.refusals.base import FieldError, Refused


class Unlawful(Refused):
    """The request is well-formed, but the law forbids it."""

    status = 422


class ExchangeSecret(Unlawful):
    code, title = "exchange_secret", "The body contains what looks like a secret"
    detail = (
        "Remove every key, secret, passphrase and token from the body. Revoke what you sent and "
        "replace it. The service never needs an exchange secret, and it stored nothing of the body."
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


class Invalid(Unlawful):
    code, title = "invalid", "Invalid request"
    detail = "Correct each field that errors lists."

    @classmethod
    def field(cls, name: str, code: str, detail: str) -> "Invalid":
        """The refusal for an error in one field."""
        return cls(errors=[FieldError(field=name, code=code, detail=detail)])


class SignalTooOld(Unlawful):
    code, title = "signal_too_old", "The signal is too old"
    detail = (
        "The bot refuses a signal whose sentAt is older than its owner allows. Send each signal at "
        "once, and check the clock of the sender."
    )


class PairMismatch(Unlawful):
    code, title = "pair_mismatch", "Pair differs from the election"
    detail = "Send exactly the elected pair. The member elected holds it."


class DirectionMismatch(Unlawful):
    code, title = "direction_mismatch", "Direction differs from the election"
    detail = "Send exactly the elected direction. The member elected holds it."


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


class CursorLost(Unlawful):
    code, title = "cursor_lost", "Unknown cursor"
    detail = (
        "The log no longer contains the position of this cursor. Pull all desks again. Read the "
        "feed again from the beginning, or from the tail with order=desc&limit=1, and compare the "
        "result with the events you have."
    )
