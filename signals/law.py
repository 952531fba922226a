"""The law: what a signal must say, and what it must match. Pure; every breach is a refusal.

The order of the checks is the contract's (section 5): it decides which reason a sender is told.
"""

from dataclasses import dataclass
from typing import Any

from events.refusals import (
    DeskNotReady,
    DirectionMismatch,
    ExchangeSecret,
    ModeRefused,
    NoCard,
    NoElection,
    NotElected,
    PairMismatch,
    TickerOnly,
)
from signals.shapes import Mode, Submission
from tokens.exchange_secrets import holds_secret

LAW = (
    "A signal repeats the pair and the direction that the customer has already elected. The "
    "service never infers or recommends a pair: a ticker alone is refused. Every signal is paper; "
    "the modes armed and live are refused. No exchange secret is accepted, and each nonce is "
    "used once."
)

REFUSED_MODES = ("armed", "live")
TICKERS = ("ticker", "symbol")


@dataclass(frozen=True, slots=True)
class Elected:
    """A pair and a direction that somebody elected, or that the published card carries."""

    pair: str
    direction: str


@dataclass(frozen=True, slots=True)
class Standing:
    """What stood in the log when a signal got its position: each null where there was none."""

    card: Elected | None = None
    desk: Elected | None = None
    automation: Elected | None = None


def check_body(body: dict[str, Any]) -> None:
    """What no signal may carry or leave out, whatever its shape."""
    if holds_secret(body):
        raise ExchangeSecret
    if _is_ticker_only(body):
        raise TickerOnly
    if body.get("mode") in REFUSED_MODES:
        raise ModeRefused
    if body.get("elected") is not True:
        raise NotElected


def check_match(submission: Submission, standing: Standing) -> None:
    """The signal repeats exactly what is elected where it goes."""
    elected = elected_for(submission, standing)
    sent = {"pair": submission.pair, "direction": submission.direction}
    shown = {"pair": elected.pair, "direction": elected.direction}
    if submission.pair != elected.pair:
        raise PairMismatch(sent=sent, elected=shown)
    if submission.direction != elected.direction:
        raise DirectionMismatch(sent=sent, elected=shown)


def elected_for(submission: Submission, standing: Standing) -> Elected:
    """What the signal has to repeat; raises where nothing is elected there."""
    if submission.bot_id is not None:
        if standing.automation is None:
            raise NoElection
        return standing.automation
    if submission.user_id is not None and submission.mode != Mode.DRAFT:
        if standing.desk is None:
            raise DeskNotReady
        return standing.desk
    if standing.card is None:
        raise NoCard
    return standing.card


def _is_ticker_only(body: dict[str, Any]) -> bool:
    """A ticker instead of pair and direction, or a pair that is one."""
    pair = body.get("pair")
    names_ticker = any(body.get(name) is not None for name in TICKERS)
    if names_ticker and (pair is None or body.get("direction") is None):
        return True
    return isinstance(pair, str) and "/" not in pair
