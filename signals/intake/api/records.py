"""The OpenAPI schemas of signals in responses and events."""

from desks.api.schemas import PairAndDirection
from desks.ids import BOT_ID, SIGNAL_ID, USER_ID
from events.api.schemas import ActorRecord
from events.http.json_schema import BOOLEAN, COUNT, DATE_TIME, POSITION, STRING, one_of, pattern
from events.http.schemas import Field, Paper, Schema
from signals.intake.check import CHECKED
from signals.intake.models import Outcome
from signals.law import shapes
from signals.law.members import DIGITS_AFTER_POINT, DIGITS_BEFORE_POINT
from signals.law.shapes import Mode
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


class SignalOfDesk(PairAndDirection):
    """A signal as desks see it, unless their own automation sent it."""

    id = Field(SIGNAL_ID)
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
    """The answer to an accepted signal, as its sender got it."""

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


class FieldErrorRecord(Schema):
    """What was wrong with one field. The value is not in it."""

    field = Field(STRING)
    code = Field(STRING)
    detail = Field(STRING, "What the field must be.")


class RefusalData(Schema):
    """Data of ``signal.refused``."""

    code = Field(STRING, "The refusal's code, or refusals_suppressed.")
    source = Field(one_of(Source), allow_null=True)  # type: ignore[assignment]
    sent = SentPairAndDirection()
    elected = PairAndDirection(allow_null=True)
    botId = Field(BOT_ID, allow_null=True)
    errors = FieldErrorRecord(  # type: ignore[assignment]
        many=True, required=False, help_text="Of invalid: as the answer has them."
    )
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
    suppressed = Field(
        COUNT, "Of refusals_suppressed: how many are not recorded, at least.", required=False
    )
    sender = ActorRecord(
        allow_null=True,
        required=False,
        help_text="The sender of the suppressed refusals. Only in old events.",
    )
