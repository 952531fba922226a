"""Why a signal was refused and what to do now, as sentences for the desk's owner.

The sentences of ``events.http.refusals`` address the sender. These address the owner of the desk.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from events.http.refusals import Refused
from events.kinds import SUPPRESSED
from signals.law.refusals import DeskNotReady, NoCard

Data = Mapping[str, Any]
HIDDEN_PAIR, HIDDEN_DIRECTION = "no readable pair", "no readable direction"
OF_THE_SENDER = "You need to do nothing. The sender must correct its signal."
UNTIL_A_CARD = "You need to do nothing. The sender must wait until a card is published."


@dataclass(frozen=True, slots=True)
class Reason:
    """One sentence that says what was wrong, and the advice that follows from it."""

    sentence: str
    advice: str

    def __str__(self) -> str:
        return f"{self.sentence} {self.advice}"


def reason_of(data: Data, bot_name: str | None) -> Reason:
    """The reason of a recorded refusal: ``data`` is that of ``signal.refused``.

    ``bot_name`` is None if no bot sent the signal or if the bot was removed.
    """
    if data["code"] == SUPPRESSED:
        return _suppressed(data, bot_name)
    predicate, advice = (each(data) if callable(each) else each for each in REASONS[data["code"]])
    is_for_owner = data["botId"] or data["code"] in (DeskNotReady.code, NoCard.code)
    return Reason(
        f"{_sender(data, bot_name)} {predicate}", advice if is_for_owner else OF_THE_SENDER
    )


def title_of(code: str | None) -> str:
    """A few words for the code of a recorded refusal."""
    titles = (each.title for each in Refused.registry() if each.code == code)
    return next(titles, "Refusals that were left out")


def differing(data: Data) -> tuple[str, ...]:
    """What was sent differently from what was elected: ``pair``, ``direction``, both or neither."""
    sent, elected = data["sent"], data["elected"]
    if not elected:
        return ()
    return tuple(name for name in ("pair", "direction") if sent[name] != elected[name])


def _sender(data: Data, bot_name: str | None) -> str:
    """The subject of the sentence."""
    if data["botId"]:
        return f"The bot {bot_name or data['botId']}"
    return f"The source {data['source']}" if data["source"] else "A sender"


def _suppressed(data: Data, bot_name: str | None) -> Reason:
    of_bot = f" from the bot {bot_name or data['botId']}" if data["botId"] else ""
    return Reason(
        f"More refused signals{of_bot} were not recorded individually.",
        "Stop the sender or correct its message. Only the first refusals of a minute are recorded.",
    )


def _mismatch(data: Data) -> str:
    """Says only what differs: the pair, the direction, or both."""
    sent, elected = data["sent"], data["elected"]
    pair, direction = sent["pair"] or HIDDEN_PAIR, sent["direction"] or HIDDEN_DIRECTION
    differs = differing(data)
    if differs == ("pair",):
        return f"sent the pair {pair}; you elected {elected['pair']}."
    if differs == ("direction",):
        return f"sent the direction {direction}; you elected {elected['direction']}."
    return f"sent {pair} {direction}; you elected {elected['pair']} {elected['direction']}."


def _invalid(data: Data) -> str:
    fields = ", ".join(error["field"] for error in data.get("errors", []))
    return f"sent a message with a field that is missing or not valid{fields and f': {fields}'}."


def _each_field(data: Data) -> str:
    """What each field must be. Events of earlier releases do not name the fields."""
    details = " ".join(f"{error['field']}: {error['detail']}" for error in data.get("errors", []))
    return details or "Check a message on the bot's page: the answer names each field."


AS_ELECTED = "Send exactly what you elected, or elect what the bot sends."
# By code: what the sender did, and the advice if it was one of the desk's own bots.
Words = str | Callable[[Data], str]
REASONS: dict[str, tuple[Words, Words]] = {
    "signature_invalid": (
        "was named in a message whose signature is not valid.",
        "If your own program sent it, give it the bot's current secret. If not, do nothing: "
        "without the secret nobody can signal for your bot.",
    ),
    "exchange_secret": (
        "sent a message that contains what looks like a secret. Nothing of it was stored.",
        "Remove the secret from the message, revoke it where it was issued, and replace it.",
    ),
    "ticker_only": (
        "sent a ticker instead of a pair and a direction.",
        "Write the elected pair as BASE/QUOTE and the elected direction into the message.",
    ),
    "mode_refused": (
        "asked for a mode other than paper.",
        "Write paper as the mode. Every signal is paper.",
    ),
    "not_elected": (
        "sent a signal that is not marked as elected.",
        "Write elected as true, without quotes, into the message.",
    ),
    "invalid": (_invalid, _each_field),
    "nonce_used": (
        "used a nonce a second time. The first signal with it stands.",
        "Use a new nonce for each signal. If this was a retry, nothing is lost.",
    ),
    "signal_too_old": (
        "sent a signal that was older than you allow.",
        "Find out why it arrived late. If the sender's clock is wrong, set it.",
    ),
    "no_election": (
        "sent a signal, but you had elected nothing for it.",
        "Elect a pair and a direction for the bot. Then send a new signal.",
    ),
    "no_card": ("sent a signal while no card was published.", UNTIL_A_CARD),
    "desk_not_ready": (
        "sent a signal while your desk was not ready.",
        "Connect the desk and enrol in the published card to receive signals. Your desk's page "
        "says which is missing.",
    ),
    "pair_mismatch": (_mismatch, AS_ELECTED),
    "direction_mismatch": (_mismatch, AS_ELECTED),
}
