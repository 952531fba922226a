"""How pushing, deploying and the contract describe themselves."""

import json
from typing import Any

from drf_spectacular.utils import OpenApiExample

from desks.api.schemas import EXAMPLE_BOT_ID, EXAMPLE_TIME, EXAMPLE_USER_ID, in_path
from desks.models.card import Direction
from events.api.schemas import JSON_BODY, operation
from events.refusals import (
    DeskNotReady,
    DirectionMismatch,
    ExchangeSecret,
    Invalid,
    Malformed,
    ModeRefused,
    NoCard,
    NoElection,
    NonceUsed,
    NotElected,
    NotFound,
    PairMismatch,
    TickerOnly,
)
from signals.api import contract as sample
from signals.api.contract_schemas import Contract
from signals.api.schemas import PUSHED_SIGNAL, Accepted, DeploySignal, SpentNonce
from signals.models import Outcome
from signals.shapes import Mode
from tokens.models import Source

TAG = "Signals"

ELECTED = {"pair": "BTC/USDT", "direction": Direction.LONG.value}
FILLED_IN = {
    sample.NONCE: "20261120-0930-1",
    sample.BOT_ID: EXAMPLE_BOT_ID,
    sample.USER_ID: EXAMPLE_USER_ID,
    "<trace>": "20261120-0930",
}
LAW_OF_A_DESK = (
    ExchangeSecret,
    TickerOnly,
    ModeRefused,
    NotElected,
    Invalid,
    NotFound,
    NonceUsed,
    DeskNotReady,
    PairMismatch,
    DirectionMismatch,
)

SIGNAL = {
    "id": "sig_9Lx2cRf6TpB4gWu1QmXyK7",
    "source": Source.FLOOR.value,
    "mode": Mode.PAPER.value,
    **ELECTED,
    "nonce": FILLED_IN[sample.NONCE],
    "fanout": True,
    "userId": None,
    "botId": None,
    "traceId": None,
    "sizeQuote": None,
    "rationale": None,
    "decisionRef": None,
    "receivedAt": EXAMPLE_TIME,
    "position": 8,
}
ACCEPTED = {
    "paper": True,
    "liveWrites": False,
    "outcome": Outcome.FILLED.value,
    "signal": SIGNAL,
    "matched": 12,
    "filled": 12,
    "events": f"/api/v1/events?signal={SIGNAL['id']}",
    "desks": f"/api/v1/desks?signal={SIGNAL['id']}",
    "ignored": [],
}


def _filled_in(body: dict[str, Any]) -> dict[str, Any]:
    """A sample of the contract with ids and nonce where it has places for them."""
    text = json.dumps(body)
    for place, value in FILLED_IN.items():
        text = text.replace(place, value)
    filled: dict[str, Any] = json.loads(text)
    return filled


def _examples(**names: str) -> list[OpenApiExample]:
    """The contract's samples of these names, each under a title."""
    bodies = sample.bodies(ELECTED)
    return [
        OpenApiExample(
            title, _filled_in(bodies[name]), request_only=True, summary=sample.NOTES[name]
        )
        for name, title in names.items()
    ]


deploy_signal = operation(
    "deploySignal",
    "Deploy to one desk",
    "A platform token that may write deploys an elected signal to the desk that the path names. "
    "The pair and the direction repeat the published card's, and the desk must be ready. It is "
    "answered after the commit: what was answered survives a crash.",
    tag=TAG,
    answer=Accepted,
    example=ACCEPTED,
    body=DeploySignal,
    bodies=_examples(oneDesk="Deploy"),
    parameters=[in_path],
    refusals=[*JSON_BODY, *LAW_OF_A_DESK],
    problems={NonceUsed.status: SpentNonce},
)

push_signal = operation(
    "pushSignal",
    "Push a signal",
    "The four shapes. `tradingview` is always signed with the bot's own secret; `floor` and `nox` "
    "by a platform token that may write, or by the signature of their own secret. What is "
    "presented must be valid, even where the other would do. The content type is not looked at; "
    "fields that are not named are not used, and their names come back in `ignored`; but the whole "
    "body is searched for exchange secrets first. A nonce is spent by an accepted signal, for "
    "good: sent again it answers 409 with what became of the first.",
    tag=TAG,
    answer=Accepted,
    example=ACCEPTED,
    body=PUSHED_SIGNAL,
    bodies=_examples(tv="Automation", fanout="Fanout", oneUser="OneUser", floor="Floor", nox="Nox"),
    refusals=[Malformed, *LAW_OF_A_DESK, NoElection, NoCard],
    problems={NonceUsed.status: SpentNonce},
)

read_contract = operation(
    "readContract",
    "Read the contract of signals",
    "What a sender needs to know: the law, the published card, a sample of each shape, how to sign "
    "with a worked example, and every refusal. Public.",
    tag=TAG,
    answer=Contract,
)
