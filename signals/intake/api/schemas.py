"""The operations on signals in the OpenAPI document."""

from typing import Any

from drf_spectacular.utils import OpenApiParameter

from desks.api.schemas import EXAMPLE_TIME, in_path
from desks.ids import SIGNAL_ID
from events.http import refusals
from events.http.schemas import JSON_BODY, Schema, operation
from signals.contract import document as sample
from signals.contract.document import Contract
from signals.intake.api.records import Accepted, Checked, FirstAnswer, SpentNonce
from signals.intake.api.serializers import (
    DEPLOY_EXAMPLES,
    DEPLOY_SIGNAL,
    ELECTED,
    FILLED_IN,
    PUSH_EXAMPLES,
    PUSHED_SIGNAL,
    SignalParameters,
)
from signals.intake.check import CHECKED
from signals.intake.models import Outcome
from signals.law.refusals import NoCard, NoElection, NonceUsed
from signals.law.shapes import Mode
from tokens.choices import Source

TAG = "Signals"

ON_THE_HOOK = {
    *refusals.Unlawful.registry(),
    refusals.Malformed,
    refusals.NotFound,
    NonceUsed,
} - {refusals.CursorLost}
ON_A_DEPLOY = {*ON_THE_HOOK, *JSON_BODY} - {NoElection, NoCard}
SPENT_NONCE: dict[int, type[Schema]] = {NonceUsed.status: SpentNonce}

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
# What the hook and the check have in common.
PUSHED: dict[str, Any] = {
    "tag": TAG,
    "body": PUSHED_SIGNAL,
    "bodies": PUSH_EXAMPLES,
    "refusals": ON_THE_HOOK,
    "problems": SPENT_NONCE,
}

deploy_signal = operation(
    "deploySignal",
    "Deploy to one desk",
    "Deploys a signal to the desk in the path. It needs a platform token with the write scope. "
    "The pair and direction repeat the published card's, and the desk must be ready. The "
    "response is sent after the signal was committed.",
    tag=TAG,
    response=Accepted,
    example=ACCEPTED,
    body=DEPLOY_SIGNAL,
    bodies=DEPLOY_EXAMPLES,
    parameters=[in_path],
    refusals=ON_A_DEPLOY,
    problems=SPENT_NONCE,
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
    response=Accepted,
    example=ACCEPTED,
    **PUSHED,
)

check_signal = operation(
    "checkSignal",
    "Check a signal",
    "Takes the same request as the hook and answers what the hook would answer now: the outcome "
    "and what matched, or the refusal. It fills nothing, records nothing and spends no nonce. It "
    "counts against the same limits as the hook.",
    response=Checked,
    example=CHECK,
    **PUSHED,
)

FIRST = {name: value for name, value in ACCEPTED.items() if name != "ignored"}
A_LATER_ANSWER = (
    "Returns the answer that its sender got, without `ignored`: the same as `first` of a 409. A "
    "platform token sees any signal, a desk token those of its own bots."
)

find_signal = operation(
    "findSignal",
    "Find a signal by its nonce",
    "What became of a signal, for a sender that lost the answer. Name the nonce and who sent it: "
    f"`source` for Floor and Nox, `botId` for a bot. {A_LATER_ANSWER} A signal that was refused or "
    "not received is `not_found`: send it again with the same nonce.",
    tag=TAG,
    response=FirstAnswer,
    example=FIRST,
    parameters=[SignalParameters],
    refusals=[refusals.Invalid, refusals.NotFound],
)

read_signal = operation(
    "readSignal",
    "Read a signal",
    f"What became of an accepted signal. {A_LATER_ANSWER}",
    tag=TAG,
    response=FirstAnswer,
    example=FIRST,
    parameters=[OpenApiParameter("signal_id", SIGNAL_ID, "path", description="The signal.")],
    refusals=[refusals.NotFound],
)

read_contract = operation(
    "readContract",
    "Read the contract of signals",
    "Everything a sender needs to know: the law, the published card, a sample of each shape, how "
    "to sign with a test vector, and every refusal. Public.",
    tag=TAG,
    response=Contract,
)
