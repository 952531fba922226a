"""The fields of a signal: what each takes, which each shape has, and how one is read (section 4).

The functions are pure. A signal is read into a ``Submission``. The same members read a body and
describe it in the OpenAPI document. An optional member may be null or absent. Members that the
shape does not have are ignored, and only their names are reported.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Any

from desks.ids import BOT_ID, USER_ID
from desks.pair_and_direction import PAIR_FORM, Direction, PairAndDirection
from events.http.refusals import FieldCode, FieldError, Invalid
from events.http.strict_json import Number
from events.json_schema import BOOLEAN, STRING, JsonObject, nullable, one_of, pattern
from events.times import RFC3339_DETAIL, parse_rfc3339
from tokens.choices import Source

MAX_NONCE_LENGTH = 128
MAX_RATIONALE_LENGTH = 500
MAX_DECISION_REF_LENGTH = 128
MAX_IGNORED, MAX_IGNORED_LENGTH = 20, 64

ACTION, TRACE = "act_", "trc_"

VISIBLE = r"\x21-\x7e"  # ASCII, for use in a character class
DIGITS_BEFORE_POINT, DIGITS_AFTER_POINT = 15, 8

# For use in a character class: control characters except newline and tab.
CONTROL = r"\x00-\x08\x0b-\x1f\x7f-\x9f"
_CONTROL = re.compile(rf"[{CONTROL}]")
CRLF = "\r\n"


class Mode(StrEnum):
    """The mode of a signal. The law refuses ``armed`` and ``live``."""

    DRAFT = "draft"
    DRY_RUN = "dry_run"
    PAPER = "paper"


# --- Kinds of members -----------------------------------------------------------------------------


class FaultError(Exception):
    """The value is not one that the member takes. The arguments are a code and a sentence."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a JSON object. ``read`` returns the value, or raises ``FaultError``.

    ``schema`` and ``description`` are for the OpenAPI document.
    """

    schema: JsonObject
    read: Callable[[object], Any]
    description: str = ""
    is_required: bool = True

    def described(self) -> JsonObject:
        """The JSON schema with its description. An optional member may be null."""
        schema = self.schema if self.is_required else nullable(self.schema)
        return {**schema, "description": self.description} if self.description else schema


def optional(member: Member, description: str = "") -> Member:
    """The same member, which may be absent or null."""
    return replace(member, is_required=False, description=description or member.description)


def choice(*choices: StrEnum) -> Member:
    """One of these strings."""

    def read(value: object) -> StrEnum:
        for one in choices:
            if isinstance(value, str) and value == one:
                return one
        raise FaultError(FieldCode.CHOICE, f"Send one of: {', '.join(choices)}.")

    single = {"type": "string", "const": choices[0].value}
    return Member(single if len(choices) == 1 else one_of(choices), read)


def flag(schema: JsonObject = BOOLEAN) -> Member:
    """A boolean. ``schema`` narrows the description."""

    def read(value: object) -> bool:
        if not isinstance(value, bool):
            raise FaultError(FieldCode.TYPE, "Send true or false.")
        return value

    return Member(schema, read)


def matching(form: str, detail: str, description: str = "", *, longest: int = 0) -> Member:
    """Text that matches a regular expression completely, of at most ``longest`` characters."""
    regex = re.compile(form, re.ASCII)

    def read(value: object) -> str:
        too_long = longest and isinstance(value, str) and len(value) > longest
        if not isinstance(value, str) or too_long or not regex.fullmatch(value):
            raise FaultError(FieldCode.FORM, detail)
        return value

    limit = {"maxLength": longest} if longest else {}
    return Member(pattern(form, **limit), read, description)


def text(longest: int, schema: JsonObject | None = None) -> Member:
    """Any text. ``schema`` narrows the description."""

    def read(value: object) -> str:
        if not isinstance(value, str):
            raise FaultError(FieldCode.TYPE, "Send text.")
        if len(value) > longest:
            raise FaultError(FieldCode.LENGTH, f"Send at most {longest} characters.")
        return value

    return Member(schema or {**STRING, "maxLength": longest}, read)


def plain_text(longest: int) -> Member:
    """Text without control characters except newline and tab. A CRLF becomes a newline."""
    any_text = text(longest)

    def read(value: object) -> str:
        plain: str = any_text.read(value).replace(CRLF, "\n")
        if _CONTROL.search(plain):
            detail = "Send plain text without control characters."
            raise FaultError(FieldCode.CHARACTERS, detail)
        return plain

    form = rf"([^{CONTROL}]|\r\n)*"
    return Member(pattern(form, maxLength=longest), read, "Plain text. CRLF is read as LF.")


def _read_amount(value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | Number):
        raise FaultError(FieldCode.TYPE, "Send a number or null.")
    try:
        amount = Decimal(str(value))
    except InvalidOperation:  # Decimal takes exponents of 18 digits
        amount = Decimal(0)
    if amount <= 0 or amount.adjusted() >= DIGITS_BEFORE_POINT:
        raise FaultError(
            FieldCode.RANGE, f"Send a number above 0 with at most {DIGITS_BEFORE_POINT} digits."
        )
    if -int(amount.as_tuple().exponent) <= DIGITS_AFTER_POINT:
        return amount
    without_zeros = round(amount, DIGITS_AFTER_POINT)
    if without_zeros != amount:
        detail = f"Send at most {DIGITS_AFTER_POINT} digits after the point."
        raise FaultError(FieldCode.RANGE, detail)
    return without_zeros


def _read_time(value: object) -> datetime:
    try:
        return parse_rfc3339(str(value))
    except ValueError:
        raise FaultError(FieldCode.FORM, RFC3339_DETAIL) from None


TIME = Member({"type": "string", "format": "date-time"}, _read_time)
AMOUNT = Member(
    {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 10**DIGITS_BEFORE_POINT},
    _read_amount,
    f"In the quote currency. At most {DIGITS_AFTER_POINT} digits after the decimal point; zeros at "
    "the end do not count.",
)


# --- The fields of a signal -----------------------------------------------------------------------


def _id(prefix: str, description: str = "") -> Member:
    """The prefix alone is refused: it is a template that nobody filled in."""
    start = f"{prefix} and " if prefix else ""
    detail = f"Send {start}1 to {MAX_NONCE_LENGTH - len(prefix)} visible ASCII characters."
    form = f"{prefix}[{VISIBLE}]+"
    return matching(form, detail, description, longest=MAX_NONCE_LENGTH)


NONCE = _id("", "Single-use.")
ACTION_ID, TRACE_ID = _id(ACTION, "Single-use."), _id(TRACE)
RATIONALE = plain_text(MAX_RATIONALE_LENGTH)
DECISION_REF = text(MAX_DECISION_REF_LENGTH)
ONLY_PAPER = optional(choice(Mode.PAPER))
# A botId or userId of another form is no fault: no such bot or desk exists.
ID_OF_BOT = Member(BOT_ID, lambda value: value)
ID_OF_DESK = text(MAX_NONCE_LENGTH, USER_ID)
SENT_AT = optional(TIME, "When it was sent. Required where the bot's owner set a maximum age.")
TO_ALL = flag({"const": True})
TO_ONE = optional(flag({**BOOLEAN, "const": False}))

COMMON = {
    "pair": matching(
        PAIR_FORM,
        "Write BASE/QUOTE, each 1 to 20 of A-Z 0-9 . - _",
        "BASE/QUOTE, compared exactly.",
    ),
    "direction": choice(*Direction),
    "elected": Member({"const": True}, lambda value: value),  # the law has already checked it
}

# --- The shapes ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Shape:
    """The members of a signal, by name. ``name`` and ``description`` are for the document."""

    name: str
    description: str
    members: dict[str, Member]


def _shape(name: str, description: str, *sources: Source, **specific: Member) -> Shape:
    return Shape(name, description, {"source": choice(*sources), **specific, **COMMON})


def _floor_shape(name: str, description: str, **target: Member) -> Shape:
    return _shape(name, description, Source.FLOOR, mode=ONLY_PAPER, **target, nonce=NONCE)


AUTOMATION = _shape(
    "AutomationSignal",
    "A signal of one bot. It repeats the bot's election and is signed with its secret.",
    Source.TRADINGVIEW,
    mode=ONLY_PAPER,
    botId=ID_OF_BOT,
    nonce=NONCE,
    sentAt=SENT_AT,
)
DEPLOY = _floor_shape(
    "DeploySignal",
    "A signal for the desk in the path, which must be ready.",
    fanout=TO_ONE,
    userId=optional(ID_OF_DESK, "If present, the same desk as in the path."),
)
ONE_DESK = _floor_shape(
    "OneDeskSignal",
    "A signal for the desk in the body, which must be ready.",
    fanout=TO_ONE,
    userId=ID_OF_DESK,
)
FANOUT = _floor_shape(
    "FanoutSignal",
    "A signal for every ready desk, or for one desk only if it has ``userId``.",
    fanout=TO_ALL,
    userId=optional(ID_OF_DESK),
)
NOX = _shape(
    "NoxSignal",
    "A signal of Nox. It may be a draft or a dry run. ``action_id`` is its nonce.",
    Source.NOX,
    fanout=flag(),
    userId=optional(ID_OF_DESK),
    mode=choice(*Mode),
    action_id=ACTION_ID,
    trace_id=TRACE_ID,
    size_quote=optional(AMOUNT),
    rationale=optional(RATIONALE),
    decision_ref=optional(DECISION_REF),
)
UNKNOWN = _shape("UnknownSignal", "A signal of no known source.", *Source)

# --- Reading -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Submission:
    """A parsed signal, the same for every shape.

    ``user_id`` is the desk named by the body or path. ``size_quote`` is in the quote currency.
    ``sent_at`` is when the sender says that it sent the signal. It is checked and not stored.
    """

    source: Source
    pair: str
    direction: str
    nonce: str
    mode: Mode = Mode.PAPER
    fanout: bool = False
    user_id: str | None = None
    bot_id: str | None = None
    trace_id: str | None = None
    size_quote: Decimal | None = None
    rationale: str | None = None
    decision_ref: str | None = None
    sent_at: datetime | None = None
    ignored: tuple[str, ...] = ()

    @property
    def pair_and_direction(self) -> PairAndDirection:
        return {"pair": self.pair, "direction": self.direction}

    @property
    def has_target(self) -> bool:
        """Whether it is sent to any desk: a bot's own, a named one, or all."""
        return self.fanout or self.user_id is not None or self.bot_id is not None


# The members that have another name in a ``Submission``.
RENAMED = {"botId": "bot_id", "userId": "user_id", "action_id": "nonce", "sentAt": "sent_at"}


def read(body: JsonObject, deploy_to: str | None = None) -> Submission:
    """Reads a body. ``deploy_to`` is the desk in the path, if there is one.

    Raises ``Invalid`` with all faults of the body at once.
    """
    shape = DEPLOY if deploy_to else _hook_shape(body)
    values, faults = _read_members(shape, body)
    if deploy_to:
        faults += _contradictions(values, deploy_to)
        values["userId"] = deploy_to
    if faults:
        raise Invalid(errors=faults)
    ignored = [name[:MAX_IGNORED_LENGTH] for name in body if name not in shape.members]
    del values["elected"]
    renamed = {RENAMED.get(name, name): value for name, value in values.items()}
    return Submission(**renamed, ignored=tuple(ignored[:MAX_IGNORED]))


def nonce_of(body: JsonObject) -> str | None:
    """The nonce of a body, whatever else it holds. None if it has no valid one."""
    name, member = (
        ("action_id", ACTION_ID) if body.get("source") == Source.NOX else ("nonce", NONCE)
    )
    try:
        return str(member.read(body.get(name)))
    except FaultError:
        return None


def _hook_shape(body: JsonObject) -> Shape:
    """Returns the shape that a body on the hook must have, by its source and fanout."""
    match body.get("source"):
        case Source.TRADINGVIEW:
            return AUTOMATION
        case Source.FLOOR:
            return FANOUT if body.get("fanout") is True else ONE_DESK
        case Source.NOX:
            return NOX
    return UNKNOWN


def _read_members(shape: Shape, body: JsonObject) -> tuple[dict[str, Any], list[FieldError]]:
    """Returns the values of the members that are present, and the faults."""
    values, faults = {}, []
    for name, member in shape.members.items():
        try:
            if body.get(name) is not None:
                values[name] = member.read(body[name])
            elif member.is_required:
                raise FaultError(FieldCode.REQUIRED, "Send this field.")
        except FaultError as fault:
            code, detail = fault.args
            faults.append(FieldError(field=name, code=code, detail=detail))
    return values, faults


def _contradictions(values: dict[str, Any], deploy_to: str) -> Iterator[FieldError]:
    """Yields the faults of a body that contradicts the path."""
    if values.get("fanout"):
        detail = "This path is for one desk. Fan out on the hook."
        yield FieldError(field="fanout", code=FieldCode.CONTRADICTION, detail=detail)
    if values.get("userId", deploy_to) != deploy_to:
        detail = "Leave userId out, or send the one of the path: they name different desks."
        yield FieldError(field="userId", code=FieldCode.CONTRADICTION, detail=detail)
