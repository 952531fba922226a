"""The OpenAPI schemas of signals in responses and events, and the operations on signals."""

from typing import Any

from desks.api.schemas import EXAMPLE_TIME, PairAndDirection, in_path
from desks.ids import BOT_ID, USER_ID, id_schema
from events.api.schemas import ActorRecord
from events.http import refusals
from events.http.json_schema import BOOLEAN, COUNT, DATE_TIME, POSITION, STRING, one_of, pattern
from events.http.schemas import JSON_BODY, Field, Paper, Schema, operation
from signals.api.serializers import (
    DEPLOY_EXAMPLES,
    DEPLOY_SIGNAL,
    ELECTED,
    FILLED_IN,
    PUSH_EXAMPLES,
    PUSHED_SIGNAL,
)
from signals.contract import document as sample
from signals.contract.schemas import Contract
from signals.intake.check import CHECKED
from signals.law import shapes
from signals.law.members import DIGITS_AFTER_POINT, DIGITS_BEFORE_POINT
from signals.law.shapes import Mode
from signals.models import Outcome
from tokens.choices import Source

AMOUNT = pattern(
    rf"[0-9]{{1,{DIGITS_BEFORE_POINT}}}(\.[0-9]{{1,{DIGITS_AFTER_POINT}}})?", format="decimal"
)
PATH = {"type": "string", "format": "uri-reference"}
IGNORED = {
    "type": "array",
    "items": {"type": "string", "maxLength": shapes.MAX_IGNORED_LENGTH},
    "maxItems": shapes.MAX_IGNORED,
}

# --- Responses and events ------------------------------------------------------------------------


class SignalOfDesk(PairAndDirection):
    """A signal as desks see it, unless their own automation sent it."""

    id = Field(id_schema("sig_"))
    source = Field(one_of(Source))  # type: ignore[assignment]
    mode = Field(one_of(Mode))
    fanout = Field(BOOLEAN)
    userId = Field(USER_ID, "The target desk. For a bot, its owner's desk.", allow_null=True)
    botId = Field(BOT_ID, allow_null=True)
    sizeQuote = Field(AMOUNT, allow_null=True)
    rationale = Field(shapes.RATIONALE.schema, allow_null=True)
    receivedAt = Field(DATE_TIME)
    position = Field(POSITION)


class SignalRecord(SignalOfDesk):
    """A signal as its sender and the platform see it."""

    nonce = Field(shapes.NONCE.schema)
    traceId = Field(shapes.TRACE_ID.schema, allow_null=True)
    decisionRef = Field(shapes.DECISION_REF.schema, allow_null=True)


class FirstAnswer(Paper):
    """The outcome of the signal that used the nonce."""

    outcome = Field(one_of(Outcome.values))
    signal = SignalRecord()
    matched = filled = Field(COUNT, "Number of desks.")
    events = Field(PATH, "Path that lists the signal's event.")
    desks = Field(PATH, "Path that lists the filled desks.")


class Accepted(FirstAnswer):
    """The outcome of an accepted signal. It is sent after the signal was committed."""

    ignored = Field(IGNORED, "Names of the fields that were ignored.")


class CheckedSignal(PairAndDirection):
    """A signal as the check read it."""

    source = Field(one_of(Source))  # type: ignore[assignment]
    mode = Field(one_of(Mode))
    nonce = Field(shapes.NONCE.schema)
    fanout = Field(BOOLEAN)
    userId = Field(USER_ID, "The target desk. For a bot, its owner's desk.", allow_null=True)
    botId = Field(BOT_ID, allow_null=True)


class Checked(Paper):
    """What a signal would do if it were sent to the hook now."""

    outcome = Field(one_of([CHECKED]))
    wouldBe = Field(one_of(Outcome.values), "The outcome that the hook would give.")
    signal = CheckedSignal()
    matched = Field(COUNT, "Number of desks.")
    filled = Field(COUNT, "Number of desks that it would fill.")
    ignored = Field(IGNORED, "Names of the fields that would be ignored.")


class SpentNonce(Schema):
    """The extra members of the refusal of a spent nonce."""

    first = FirstAnswer()
    identical = Field(BOOLEAN, "Whether this signal is identical to the first.")


class SignalData(Schema):
    """Data of ``signal.filled``, ``signal.dry_run`` and ``signal.recorded``, for the platform."""

    matched = filled = Field(COUNT, required=False)


class SentPairAndDirection(Schema):
    """The pair and direction of a refused signal."""

    pair = direction = Field(STRING, allow_null=True)


class RefusalData(Schema):
    """Data of ``signal.refused``."""

    code = Field(STRING, "The refusal's code, or refusals_suppressed.")
    source = Field(one_of(Source), allow_null=True)  # type: ignore[assignment]
    sent = SentPairAndDirection()
    elected = PairAndDirection(allow_null=True)
    botId = Field(BOT_ID, allow_null=True)
    requestId = Field(
        STRING, "Of the refused request. For the platform and the sender's owner.", required=False
    )
    nonce = Field(
        STRING,
        "Null if nothing authorised the request, if the body contains a secret, or if there is no "
        "valid one. For the platform and the sender's owner.",
        allow_null=True,
        required=False,
    )
    suppressed = Field(COUNT, "Number of refusals that were not recorded.", required=False)
    sender = ActorRecord(
        allow_null=True,
        required=False,
        help_text="The sender of the suppressed refusals. Platform only.",
    )


# --- The operations ------------------------------------------------------------------------------

TAG = "Signals"

ON_THE_HOOK = {
    *refusals.Unlawful.registry(),
    refusals.Malformed,
    refusals.NotFound,
    refusals.NonceUsed,
} - {refusals.CursorLost}
ON_A_DEPLOY = {*ON_THE_HOOK, *JSON_BODY} - {refusals.NoElection, refusals.NoCard}
SPENT_NONCE: dict[int, type[Schema]] = {refusals.NonceUsed.status: SpentNonce}

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

read_contract = operation(
    "readContract",
    "Read the contract of signals",
    "Everything a sender needs to know: the law, the published card, a sample of each shape, how "
    "to sign with a test vector, and every refusal. Public.",
    tag=TAG,
    response=Contract,
)
