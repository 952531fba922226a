"""The OpenAPI descriptions of pushing, deploying and the contract page."""

import json
from typing import Any

from drf_spectacular.utils import OpenApiExample

from desks.api.schemas import EXAMPLE_BOT_ID, EXAMPLE_TIME, EXAMPLE_USER_ID, in_path
from desks.choices import Direction
from events.http import refusals
from events.http.schemas import JSON_BODY, operation
from signals.api.schemas import PUSHED_SIGNAL, Accepted, Checked, DeploySignal, SpentNonce
from signals.contract import document as sample
from signals.contract.schemas import Contract
from signals.intake.check import CHECKED
from signals.law.shapes import Mode
from signals.models import Outcome
from tokens.choices import Source

TAG = "Signals"

ELECTED = {"pair": "BTC/USDT", "direction": Direction.LONG.value}
FILLED_IN = {
    sample.NONCE: "20261120-0930-1",
    sample.BOT_ID: EXAMPLE_BOT_ID,
    sample.USER_ID: EXAMPLE_USER_ID,
    "<trace>": "20261120-0930",
}
LAW_OF_A_DESK = (
    refusals.ExchangeSecret,
    refusals.TickerOnly,
    refusals.ModeRefused,
    refusals.NotElected,
    refusals.Invalid,
    refusals.NotFound,
    refusals.NonceUsed,
    refusals.DeskNotReady,
    refusals.PairMismatch,
    refusals.DirectionMismatch,
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
OF_A_CHECK = ("source", "mode", *ELECTED, "nonce", "fanout", "userId", "botId")
CHECK = {
    "paper": True,
    "liveWrites": False,
    "outcome": CHECKED,
    "wouldBe": Outcome.FILLED.value,
    "signal": {name: SIGNAL[name] for name in OF_A_CHECK},
    "matched": 12,
    "filled": 12,
    "ignored": [],
}


def _filled_in(body: dict[str, Any]) -> dict[str, Any]:
    """Returns a sample body of the contract with its placeholders filled in."""
    text = json.dumps(body)
    for place, value in FILLED_IN.items():
        text = text.replace(place, value)
    filled: dict[str, Any] = json.loads(text)
    return filled


def _examples(**names: str) -> list[OpenApiExample]:
    """Returns the named samples of the contract as examples, each with its title."""
    bodies = sample.bodies(ELECTED)
    return [
        OpenApiExample(
            title, _filled_in(bodies[name]), request_only=True, summary=sample.NOTES[name]
        )
        for name, title in names.items()
    ]


SHAPES = _examples(tv="Automation", fanout="Fanout", oneUser="OneUser", floor="Floor", nox="Nox")

deploy_signal = operation(
    "deploySignal",
    "Deploy to one desk",
    "Deploys a signal to the desk in the path. It needs a platform token with the write scope. "
    "The pair and direction repeat the published card's, and the desk must be ready. The "
    "response is sent after the signal was committed.",
    tag=TAG,
    response=Accepted,
    example=ACCEPTED,
    body=DeploySignal,
    bodies=_examples(oneDesk="Deploy"),
    parameters=[in_path],
    refusals=[*JSON_BODY, *LAW_OF_A_DESK],
    problems={refusals.NonceUsed.status: SpentNonce},
)

push_signal = operation(
    "pushSignal",
    "Push a signal",
    "Accepts the four shapes. A `tradingview` signal is signed with the bot's own secret. A "
    "`floor` or `nox` signal needs a platform token with the write scope, or a signature with "
    "the secret of its source. Every credential in the request must be valid. The Content-Type "
    "header is ignored. The whole body is searched for exchange secrets first. Unknown fields "
    "are not used, and `ignored` lists their names. An accepted signal spends its nonce for "
    "good: if the nonce is sent again, the response is 409 with the first outcome.",
    tag=TAG,
    response=Accepted,
    example=ACCEPTED,
    body=PUSHED_SIGNAL,
    bodies=SHAPES,
    refusals=[refusals.Malformed, *LAW_OF_A_DESK, refusals.NoElection, refusals.NoCard],
    problems={refusals.NonceUsed.status: SpentNonce},
)

check_signal = operation(
    "checkSignal",
    "Check a signal",
    "Takes the same request as the hook and answers what the hook would answer now: the outcome "
    "and what matched, or the refusal. It fills nothing, records nothing and spends no nonce. It "
    "counts against the same limits as the hook.",
    tag=TAG,
    response=Checked,
    example=CHECK,
    body=PUSHED_SIGNAL,
    bodies=SHAPES,
    refusals=[refusals.Malformed, *LAW_OF_A_DESK, refusals.NoElection, refusals.NoCard],
    problems={refusals.NonceUsed.status: SpentNonce},
)

read_contract = operation(
    "readContract",
    "Read the contract of signals",
    "Everything a sender needs to know: the law, the published card, a sample of each shape, how "
    "to sign with a test vector, and every refusal. Public.",
    tag=TAG,
    response=Contract,
)
