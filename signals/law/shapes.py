"""The shapes of a signal, and how one is read into a ``Submission`` (contract, section 4).

The functions are pure. Each shape says which members it has. The same members read the body and
describe it in the OpenAPI document. An optional member may be null or absent. Members that the
shape does not have are ignored, and only their names are reported.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

from desks.ids import BOT_ID, USER_ID
from desks.pairs import PAIR_FORM, Direction, PairAndDirection
from events.http.refusals import FieldCode, FieldError, Invalid
from events.json_schema import BOOLEAN, JsonObject
from signals.law import members
from signals.law.members import FaultError, Member, optional
from tokens.choices import Source

MAX_NONCE_LENGTH = 128
MAX_RATIONALE_LENGTH = 500
MAX_DECISION_REF_LENGTH = 128
MAX_IGNORED, MAX_IGNORED_LENGTH = 20, 64

ACTION, TRACE = "act_", "trc_"

VISIBLE = r"\x21-\x7e"  # ASCII, for use in a character class


class Mode(StrEnum):
    """The mode of a signal. The law refuses ``armed`` and ``live``."""

    DRAFT = "draft"
    DRY_RUN = "dry_run"
    PAPER = "paper"


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
    def signer(self) -> str:
        """The scope in which a nonce is single-use: the bot, or the source."""
        return self.bot_id or self.source

    @property
    def pair_and_direction(self) -> PairAndDirection:
        return {"pair": self.pair, "direction": self.direction}

    @property
    def has_target(self) -> bool:
        """Whether it is sent to any desk: a bot's own, a named one, or all."""
        return self.fanout or self.user_id is not None or self.bot_id is not None


@dataclass(frozen=True, slots=True)
class Shape:
    """The members of a signal, by name. ``name`` and ``description`` are for the document."""

    name: str
    description: str
    members: dict[str, Member]


# --- The members ---------------------------------------------------------------------------------


def _id(prefix: str, description: str = "") -> Member:
    """The prefix alone is refused: it is a template that nobody filled in."""
    start = f"{prefix} and " if prefix else ""
    detail = f"Send {start}1 to {MAX_NONCE_LENGTH - len(prefix)} visible ASCII characters."
    form = f"{prefix}[{VISIBLE}]+"
    return members.matching(form, detail, description, longest=MAX_NONCE_LENGTH)


NONCE = _id("", "Single-use.")
ACTION_ID, TRACE_ID = _id(ACTION, "Single-use."), _id(TRACE)
RATIONALE = members.plain_text(MAX_RATIONALE_LENGTH)
DECISION_REF = members.text(MAX_DECISION_REF_LENGTH)
ONLY_PAPER = optional(members.choice(Mode.PAPER))
# A botId or userId of another form is no fault: no such bot or desk exists.
ID_OF_BOT = Member(BOT_ID, lambda value: value)
ID_OF_DESK = members.text(MAX_NONCE_LENGTH, USER_ID)
SENT_AT = optional(
    members.TIME, "When it was sent. Required where the bot's owner set a maximum age."
)
TO_ALL = members.flag({"const": True})
TO_ONE = optional(members.flag({**BOOLEAN, "const": False}))

COMMON = {
    "pair": members.matching(
        PAIR_FORM,
        "Write BASE/QUOTE, each 1 to 20 of A-Z 0-9 . - _",
        "BASE/QUOTE, compared exactly.",
    ),
    "direction": members.choice(*Direction),
    "elected": Member({"const": True}, lambda value: value),  # the law has already checked it
}

# --- The shapes ----------------------------------------------------------------------------------


def _shape(name: str, description: str, *sources: Source, **specific: Member) -> Shape:
    return Shape(name, description, {"source": members.choice(*sources), **specific, **COMMON})


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
    fanout=members.flag(),
    userId=optional(ID_OF_DESK),
    mode=members.choice(*Mode),
    action_id=ACTION_ID,
    trace_id=TRACE_ID,
    size_quote=optional(members.AMOUNT),
    rationale=optional(RATIONALE),
    decision_ref=optional(DECISION_REF),
)
UNKNOWN = _shape("UnknownSignal", "A signal of no known source.", *Source)

# --- Reading -------------------------------------------------------------------------------------

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
