"""Which check decided a signal: the checks in their order, and how far the signal came."""

from collections.abc import Sequence
from dataclasses import dataclass

PASSED, DECIDED, NOT_REACHED = "passed", "decided", "not reached"

# The order of the contract, section 5: what each check asks, and the codes of its refusals.
CHECKS: Sequence[tuple[str, tuple[str, ...]]] = (
    ("Is the sender who it says?", ("signature_invalid",)),
    ("Is the message free of secrets?", ("exchange_secret",)),
    ("Does it name a pair and a direction, not a ticker?", ("ticker_only",)),
    ("Is it on paper?", ("mode_refused",)),
    ("Is it marked as elected?", ("not_elected",)),
    ("Is every field valid?", ("invalid",)),
    ("Is the nonce new?", ("nonce_used",)),
    ("Is it recent enough?", ("signal_too_old",)),
    ("Was something elected?", ("desk_not_ready", "no_card", "no_election")),
    ("Is the pair the elected one?", ("pair_mismatch",)),
    ("Is the direction the elected one?", ("direction_mismatch",)),
)


@dataclass(frozen=True, slots=True)
class Check:
    """One check of a signal. ``state`` is one of the three constants."""

    question: str
    state: str


def checks(code: str | None) -> list[Check]:
    """The checks of a signal that was refused with ``code``, or accepted if that is None."""
    found: list[Check] = []
    state = PASSED
    for question, codes in CHECKS:
        if state == PASSED and code in codes:
            found.append(Check(question, DECIDED))
            state = NOT_REACHED
        else:
            found.append(Check(question, state))
    return found
