"""Mends a bot's message: one mistake at a time, with the values of the bot's own message. Pure."""

from typing import Any

from events.http.refusals import Invalid, Refused
from signals.law.refusals import ModeRefused, TickerOnly
from signals.law.rules import TICKERS
from tokens.crypto.exchange_secrets import contains_secret

# The members that each refusal takes from the bot's own message. ``Invalid`` names its own.
TAKEN = {
    "signature_invalid": ("source", "botId"),
    "ticker_only": ("pair", "direction"),
    "not_elected": ("elected",),
    "nonce_used": ("nonce",),
    "signal_too_old": ("sentAt",),
    "pair_mismatch": ("pair",),
    "direction_mismatch": ("direction",),
}
DROPPED: dict[type[Refused], tuple[str, ...]] = {TickerOnly: TICKERS, ModeRefused: ("mode",)}


def corrected(body: dict[str, Any], refusal: Refused, sample: dict[str, Any]) -> dict[str, Any]:
    """Returns the body without the mistake that the refusal names."""
    taken: tuple[str, ...] = TAKEN.get(refusal.code, ())
    if isinstance(refusal, Invalid):
        taken = tuple(error["field"] for error in refusal.members["errors"])
    if isinstance(refusal, TickerOnly):
        taken = tuple(name for name in taken if not _is_fine(name, body))
    dropped = {*DROPPED.get(type(refusal), ()), *(name for name in taken if name not in sample)}
    kept = {
        name: value
        for name, value in body.items()
        if name not in dropped and not contains_secret({name: value})
    }
    return kept | {name: sample[name] for name in taken if name in sample}


def _is_fine(name: str, body: dict[str, Any]) -> bool:
    """Whether a member of a message with a ticker needs no change: a pair has a slash."""
    value = body.get(name)
    return isinstance(value, str) and (name != "pair" or "/" in value)
