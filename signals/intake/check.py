"""Checks a signal without recording it (contract, section 4: ``POST /api/hooks/check``)."""

from typing import Any

from signals.intake.incoming import IncomingSignal
from signals.intake.models import Outcome
from signals.intake.receive import preview
from signals.law import shapes

CHECKED = "checked"


def check(incoming: IncomingSignal) -> dict[str, Any]:
    """Returns what the signal would do now. Raises the refusal that it would get.

    Writes nothing and spends no nonce.
    """
    outcome, matched = preview(incoming)
    submission = shapes.read(incoming.body, incoming.deploy_to)
    return {
        "paper": True,
        "liveWrites": False,
        "outcome": CHECKED,
        "wouldBe": outcome,
        "signal": {
            "source": submission.source,
            "mode": submission.mode,
            "pair": submission.pair,
            "direction": submission.direction,
            "nonce": submission.nonce,
            "fanout": submission.fanout,
            "userId": incoming.owner_id or submission.user_id,
            "botId": submission.bot_id,
        },
        "matched": matched,
        "filled": matched if outcome == Outcome.FILLED else 0,
        "ignored": list(submission.ignored),
    }
