"""The OpenAPI schemas of signals, of their responses and of their events."""

from typing import Any

from drf_spectacular.utils import PolymorphicProxySerializer

from desks.api.schemas import (
    BOT_ID,
    USER_ID,
    PairAndDirection,
    public_id,
)
from events.api.schemas import ActorRecord
from events.http.schemas import (
    BOOLEAN,
    COUNT,
    DATE_TIME,
    POSITION,
    STRING,
    Field,
    Paper,
    Schema,
    one_of,
    pattern,
)
from signals.intake.check import CHECKED
from signals.law.shapes import (
    ACTION,
    CONTROL,
    DIGITS_AFTER_POINT,
    DIGITS_BEFORE_POINT,
    MAX_DECISION_REF_LENGTH,
    MAX_IGNORED,
    MAX_IGNORED_LENGTH,
    MAX_NONCE_LENGTH,
    MAX_RATIONALE_LENGTH,
    TRACE,
    VISIBLE,
    Mode,
)
from signals.models import Outcome
from tokens.choices import Source

NONCE = pattern(f"[{VISIBLE}]+", maxLength=MAX_NONCE_LENGTH)
ACTION_ID = pattern(f"{ACTION}[{VISIBLE}]*", maxLength=MAX_NONCE_LENGTH)
TRACE_ID = pattern(f"{TRACE}[{VISIBLE}]*", maxLength=MAX_NONCE_LENGTH)
RATIONALE = pattern(f"[^{CONTROL}]*", maxLength=MAX_RATIONALE_LENGTH)
DECISION_REF = {"type": "string", "maxLength": MAX_DECISION_REF_LENGTH}
SIZE = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 10**DIGITS_BEFORE_POINT}
AMOUNT = pattern(
    rf"[0-9]{{1,{DIGITS_BEFORE_POINT}}}(\.[0-9]{{1,{DIGITS_AFTER_POINT}}})?", format="decimal"
)
IGNORED = {
    "type": "array",
    "items": {"type": "string", "maxLength": MAX_IGNORED_LENGTH},
    "maxItems": MAX_IGNORED,
}
YES, NO = {"const": True}, {"type": "boolean", "const": False}
ONLY_PAPER = {"type": "string", "const": Mode.PAPER.value}


def optional(schema: dict[str, Any], text: str = "") -> Field:
    """An optional member. null means the same as absent."""
    return Field(schema, text, required=False, allow_null=True)


def source(of: Source) -> Field:
    """The member that distinguishes the shapes."""
    return Field({"const": of.value})


# --- Requests ------------------------------------------------------------------------------------


class ElectedSignal(PairAndDirection):
    """The members of every signal."""

    elected = Field(YES)


class AutomationSignal(ElectedSignal):
    """A signal of one automation. It repeats the bot's election and is signed with its secret."""

    source = source(Source.TRADINGVIEW)  # type: ignore[assignment]
    botId = Field(BOT_ID)
    nonce = Field(NONCE, "Single-use.")
    mode = optional(ONLY_PAPER)


class DeploySignal(ElectedSignal):
    """A signal for the desk in the path, which must be ready."""

    source = source(Source.FLOOR)  # type: ignore[assignment]
    nonce = Field(NONCE, "Single-use.")
    mode = optional(ONLY_PAPER)
    fanout = optional(NO)
    userId = optional(USER_ID, "If present, the same desk as in the path.")


class OneDeskSignal(DeploySignal):
    """A signal for the desk in the body, which must be ready."""

    userId = Field(USER_ID)


class FanoutSignal(DeploySignal):
    """A signal for every ready desk, or for one desk only if it has ``userId``."""

    fanout = Field(YES)
    userId = optional(USER_ID)


class NoxSignal(ElectedSignal):
    """A signal of Nox. It may be a draft or a dry run. ``action_id`` is its nonce."""

    source = source(Source.NOX)  # type: ignore[assignment]
    fanout = Field(BOOLEAN)
    userId = optional(USER_ID)
    action_id = Field(ACTION_ID, "Single-use.")
    trace_id = Field(TRACE_ID)
    mode = Field(one_of(list(Mode)))
    size_quote = optional(
        SIZE, f"In the quote currency. At most {DIGITS_AFTER_POINT} digits after the decimal point."
    )
    rationale = optional(RATIONALE, "Plain text.")
    decision_ref = optional(DECISION_REF)


FLOOR_SIGNAL = PolymorphicProxySerializer(
    "FloorSignal", [OneDeskSignal, FanoutSignal], resource_type_field_name=None
)
PUSHED_SIGNAL = PolymorphicProxySerializer(
    "PushedSignal",
    {
        Source.TRADINGVIEW.value: AutomationSignal,
        Source.FLOOR.value: FLOOR_SIGNAL,
        Source.NOX.value: NoxSignal,
    },
    resource_type_field_name="source",
)

# --- Responses and events ------------------------------------------------------------------------


class SignalOfDesk(PairAndDirection):
    """A signal as desks see it, unless their own automation sent it."""

    id = Field(public_id("sig_"))
    source = Field(one_of(Source.values()))  # type: ignore[assignment]
    mode = Field(one_of(list(Mode)))
    fanout = Field(BOOLEAN)
    userId = Field(USER_ID, "The target desk. For a bot, its owner's desk.", allow_null=True)
    botId = Field(BOT_ID, allow_null=True)
    sizeQuote = Field(AMOUNT, allow_null=True)
    rationale = Field(RATIONALE, allow_null=True)
    receivedAt = Field(DATE_TIME)
    position = Field(POSITION)


class SignalRecord(SignalOfDesk):
    """A signal as its sender and the platform see it."""

    nonce = Field(NONCE)
    traceId = Field(TRACE_ID, allow_null=True)
    decisionRef = Field(DECISION_REF, allow_null=True)


class FirstAnswer(Paper):
    """The outcome of the signal that used the nonce."""

    outcome = Field(one_of(Outcome.values))
    signal = SignalRecord()
    matched = Field(COUNT, "Number of desks.")
    filled = Field(COUNT, "Number of desks.")
    events = Field(
        {"type": "string", "format": "uri-reference"}, "Path that lists the signal's event."
    )
    desks = Field(
        {"type": "string", "format": "uri-reference"}, "Path that lists the filled desks."
    )


class Accepted(FirstAnswer):
    """The outcome of an accepted signal. It is sent after the signal was committed."""

    ignored = Field(IGNORED, "Names of the fields that were ignored.")


class CheckedSignal(PairAndDirection):
    """A signal as the check read it."""

    source = Field(one_of(Source.values()))  # type: ignore[assignment]
    mode = Field(one_of(list(Mode)))
    nonce = Field(NONCE)
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

    matched = Field(COUNT, required=False)
    filled = Field(COUNT, required=False)


class SentPairAndDirection(Schema):
    """The pair and direction of a refused signal."""

    pair = Field(STRING, allow_null=True)
    direction = Field(STRING, allow_null=True)


class RefusalData(Schema):
    """Data of ``signal.refused``."""

    code = Field(STRING, "The refusal's code, or refusals_suppressed.")
    source = Field(one_of(Source.values()), allow_null=True)  # type: ignore[assignment]
    sent = SentPairAndDirection()
    elected = PairAndDirection(allow_null=True)
    botId = Field(BOT_ID, allow_null=True)
    suppressed = Field(COUNT, "Number of refusals that were not recorded.", required=False)
    sender = ActorRecord(
        allow_null=True,
        required=False,
        help_text="The sender of the suppressed refusals. Platform only.",
    )
