"""The law: what a signal must contain and what it must match. Each breach raises a refusal.

The functions are pure. The order of the checks is fixed by the contract (section 5), because it
decides which refusal the sender gets.
"""

from datetime import datetime, timedelta

from desks.pair_and_direction import PairAndDirection
from events.http.refusals import ExchangeSecret, FieldCode, Invalid
from events.json_schema import JsonObject
from signals.law import refusals
from signals.law.signal_body import Mode, Submission
from tokens.crypto.exchange_secrets import contains_secret

LAW = (
    "A signal must repeat the pair and the direction that the customer has already elected. The "
    "service never infers or recommends a pair: it refuses a ticker alone. Every signal is paper: "
    "live execution would need the owner to arm a local vault, a store of exchange keys that this "
    "service does not have; modes armed and live are refused. "
    "The service accepts no exchange secret. A nonce is single-use within its signer, so that no "
    "sender can use up another's."
)

REFUSED_MODES = ("armed", "live")
TICKERS = ("ticker", "symbol")


def check_body(body: JsonObject) -> None:
    """Checks the rules that apply to every signal, whatever its shape."""
    if contains_secret(body):
        raise ExchangeSecret
    if _is_ticker_only(body):
        raise refusals.TickerOnly
    if body.get("mode") in REFUSED_MODES:
        raise refusals.ModeRefused
    if body.get("elected") is not True:
        raise refusals.NotElected


def check_sent_at(submission: Submission, max_age: timedelta | None) -> None:
    """Raises ``Invalid`` if the bot has a maximum age and the signal does not say its own."""
    if max_age is not None and submission.sent_at is None:
        detail = "Send the time at which you send the signal: this bot has a maximum age."
        raise Invalid.field("sentAt", FieldCode.REQUIRED, detail)


def check_age(submission: Submission, max_age: timedelta | None, at: datetime) -> None:
    """Raises ``SignalTooOld`` if the signal is older than ``max_age`` at ``at``.

    A time in the future counts as new.
    """
    sent_at = submission.sent_at
    if max_age is not None and sent_at is not None and at - sent_at > max_age:
        raise refusals.SignalTooOld


def check_match(submission: Submission, elected: PairAndDirection) -> None:
    """Raises a refusal unless the signal repeats the election of its target exactly."""
    sent = submission.pair_and_direction
    if sent["pair"] != elected["pair"]:
        raise refusals.PairMismatch(sent=sent, elected=elected)
    if sent["direction"] != elected["direction"]:
        raise refusals.DirectionMismatch(sent=sent, elected=elected)


def required_election(
    submission: Submission,
    *,
    card: PairAndDirection | None = None,
    elected: PairAndDirection | None = None,
    not_ready: str = "",
) -> PairAndDirection:
    """Returns the election that the signal must repeat. Raises a refusal if there is none.

    ``card`` is the published card. ``elected`` is the election of the signal's bot, or that of its
    desk on the card. ``not_ready`` says why the desk has none: a key of ``DeskNotReady.REASONS``.
    """
    if submission.bot_id is not None:
        if elected is None:
            raise refusals.NoElection
        return elected
    if submission.user_id is not None and submission.mode != Mode.DRAFT:
        if elected is None:
            raise refusals.DeskNotReady(not_ready)
        return elected
    if card is None:
        raise refusals.NoCard
    return card


def _is_ticker_only(body: JsonObject) -> bool:
    """Returns whether the body has a ticker but no pair and direction, or a ticker as its pair."""
    pair = body.get("pair")
    names_ticker = any(body.get(name) is not None for name in TICKERS)
    if names_ticker and (pair is None or body.get("direction") is None):
        return True
    return isinstance(pair, str) and "/" not in pair
