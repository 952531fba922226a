"""Checks a signal without recording it (contract, section 4: ``POST /api/hooks/check``)."""

from typing import Annotated

from desks.choices import PairAndDirection
from desks.ids import BotId
from events.http.schemas import PaperOnly
from events.json_schema import Count, one_of
from signals.intake.incoming import IncomingSignal
from signals.intake.models import (
    Ignored,
    ModeName,
    Nonce,
    OutcomeName,
    SourceName,
    TargetDesk,
)
from signals.intake.receive import preview

CHECKED = "checked"


class CheckedSignal(PairAndDirection):
    """A signal as the check read it."""

    source: SourceName
    mode: ModeName
    nonce: Nonce
    fanout: bool
    userId: TargetDesk
    botId: BotId | None


class Checked(PaperOnly):
    """What a signal would do if it were sent to the hook now."""

    outcome: Annotated[str, one_of([CHECKED])]
    wouldBe: Annotated[OutcomeName, "The outcome that the hook would give."]
    signal: CheckedSignal
    matched: Annotated[Count, "Number of desks."]
    filled: Annotated[Count, "Number of desks that it would fill."]
    ignored: Annotated[Ignored, "Names of the fields that would be ignored."]


def check(incoming: IncomingSignal) -> Checked:
    """Returns what the signal would do now. Raises the refusal that it would get.

    Writes nothing and spends no nonce.
    """
    candidate = preview(incoming)
    signal = candidate.signal
    return {
        "paper": True,
        "liveWrites": False,
        "outcome": CHECKED,
        "wouldBe": signal.outcome,
        "signal": {
            "source": signal.source,
            "mode": signal.mode,
            "pair": signal.pair,
            "direction": signal.direction,
            "nonce": signal.nonce,
            "fanout": signal.fanout,
            "userId": signal.user_id,
            "botId": signal.bot_id,
        },
        "matched": signal.matched,
        "filled": signal.filled,
        "ignored": list(candidate.submission.ignored),
    }
