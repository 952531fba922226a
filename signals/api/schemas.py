"""The shapes of signals and of what becomes of them, of the contract, and how they are pushed."""

from typing import Any

from drf_spectacular.utils import PolymorphicProxySerializer

from desks.api.schemas import (
    BOT_ID,
    USER_ID,
    PairAndDirection,
    public_id,
)
from events.api.schemas import (
    COUNT,
    FLAG,
    MOMENT,
    POSITION,
    TEXT,
    Field,
    Paper,
    Shape,
    one_of,
    pattern,
)
from signals.models import Outcome
from signals.shapes import (
    ACTION,
    CONTROL,
    DIGITS_AFTER_POINT,
    DIGITS_BEFORE_POINT,
    LONGEST_DECISION_REF,
    LONGEST_IGNORED,
    LONGEST_NONCE,
    LONGEST_RATIONALE,
    MOST_IGNORED,
    TRACE,
    VISIBLE,
    Mode,
)
from tokens.models import Source

NONCE = pattern(f"[{VISIBLE}]+", maxLength=LONGEST_NONCE)
ACTION_ID = pattern(f"{ACTION}[{VISIBLE}]*", maxLength=LONGEST_NONCE)
TRACE_ID = pattern(f"{TRACE}[{VISIBLE}]*", maxLength=LONGEST_NONCE)
RATIONALE = pattern(f"[^{CONTROL}]*", maxLength=LONGEST_RATIONALE)
DECISION_REF = {"type": "string", "maxLength": LONGEST_DECISION_REF}
SIZE = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 10**DIGITS_BEFORE_POINT}
AMOUNT = pattern(
    rf"[0-9]{{1,{DIGITS_BEFORE_POINT}}}(\.[0-9]{{1,{DIGITS_AFTER_POINT}}})?", format="decimal"
)
IGNORED = {
    "type": "array",
    "items": {"type": "string", "maxLength": LONGEST_IGNORED},
    "maxItems": MOST_IGNORED,
}
YES, NO = {"const": True}, {"type": "boolean", "const": False}
ONLY_PAPER = {"type": "string", "const": Mode.PAPER.value}


def optional(schema: dict[str, Any], text: str = "") -> Field:
    """A member for which null is the same as absent."""
    return Field(schema, text, required=False, allow_null=True)


def source(of: Source) -> Field:
    """The member that tells the shapes apart."""
    return Field({"const": of.value})


# --- What is sent --------------------------------------------------------------------------------


class Elected(PairAndDirection):
    """What every signal says."""

    elected = Field(YES)


class AutomationSignal(Elected):
    """One automation: it repeats the election of the bot, whose own secret signs it."""

    source = source(Source.TRADINGVIEW)  # type: ignore[assignment]
    botId = Field(BOT_ID)
    nonce = Field(NONCE, "A value is used once only.")
    mode = optional(ONLY_PAPER)


class DeploySignal(Elected):
    """One desk, which the path names. It must be ready."""

    source = source(Source.FLOOR)  # type: ignore[assignment]
    nonce = Field(NONCE, "A value is used once only.")
    mode = optional(ONLY_PAPER)
    fanout = optional(NO)
    userId = optional(USER_ID, "The desk of the path, or nothing.")


class OneDeskSignal(DeploySignal):
    """One desk, which the body names. It must be ready."""

    userId = Field(USER_ID)


class FanoutSignal(DeploySignal):
    """Every ready desk, or with ``userId`` that one only."""

    fanout = Field(YES)
    userId = optional(USER_ID)


class NoxSignal(Elected):
    """Nox: drafts and dry runs as well; ``action_id`` is its nonce."""

    source = source(Source.NOX)  # type: ignore[assignment]
    fanout = Field(FLAG)
    userId = optional(USER_ID)
    action_id = Field(ACTION_ID, "A value is used once only.")
    trace_id = Field(TRACE_ID)
    mode = Field(one_of(list(Mode)))
    size_quote = optional(
        SIZE, f"In the quote currency, with at most {DIGITS_AFTER_POINT} digits after the point."
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

# --- What is answered ----------------------------------------------------------------------------


class SignalOfDesk(PairAndDirection):
    """A signal as the desks see it whose own automation did not send it."""

    id = Field(public_id("sig_"))
    source = Field(one_of(Source.values))  # type: ignore[assignment]
    mode = Field(one_of(list(Mode)))
    fanout = Field(FLAG)
    userId = Field(USER_ID, "The target's; the owner's for a bot.", allow_null=True)
    botId = Field(BOT_ID, allow_null=True)
    sizeQuote = Field(AMOUNT, allow_null=True)
    rationale = Field(RATIONALE, allow_null=True)
    receivedAt = Field(MOMENT)
    position = Field(POSITION)


class SignalRecord(SignalOfDesk):
    """A signal as its sender and the platform see it."""

    nonce = Field(NONCE)
    traceId = Field(TRACE_ID, allow_null=True)
    decisionRef = Field(DECISION_REF, allow_null=True)


class FirstAnswer(Paper):
    """What a nonce was accepted for."""

    outcome = Field(one_of(Outcome.values))
    signal = SignalRecord()
    matched = Field(COUNT, "Desks.")
    filled = Field(COUNT, "Desks.")
    events = Field({"type": "string", "format": "uri-reference"}, "Lists the signal's event.")
    desks = Field({"type": "string", "format": "uri-reference"}, "Lists the desks that it filled.")


class Accepted(FirstAnswer):
    """What became of a signal. It is sent when it is kept for good."""

    ignored = Field(IGNORED, "The names of fields that were neither used nor kept.")


class SpentNonce(Shape):
    """What the refusal of a spent nonce tells beside."""

    first = FirstAnswer()
    identical = Field(FLAG, "Whether this signal says the same as the first.")


class SignalData(Shape):
    """Of ``signal.filled``, ``signal.dry_run`` and ``signal.recorded``: all for the platform."""

    matched = Field(COUNT, required=False)
    filled = Field(COUNT, required=False)
    credential = Field(TEXT, "The token or secret that authorised it.", required=False)


class SentPairAndDirection(Shape):
    """What a refused signal said."""

    pair = Field(TEXT, allow_null=True)
    direction = Field(TEXT, allow_null=True)


class RefusalData(Shape):
    """Of ``signal.refused``."""

    code = Field(TEXT)
    source = Field(one_of(Source.values), allow_null=True)  # type: ignore[assignment]
    sent = SentPairAndDirection()
    elected = PairAndDirection(allow_null=True)
    botId = Field(BOT_ID, allow_null=True)
    credential = Field(TEXT, "For the platform only.", required=False, allow_null=True)
