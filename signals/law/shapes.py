"""Parses the four shapes of a signal into one ``Submission`` (contract, section 4).

The functions are pure. ``read`` raises ``Invalid`` with all faults of the body at once. An optional
field may be null or absent. Fields that the shape does not define are ignored, and only their
names are reported.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any

from desks.choices import PAIR_FORM, Direction
from events.http.refusals import FieldError, Invalid
from tokens.choices import Source

MAX_NONCE_LENGTH = 128
MAX_RATIONALE_LENGTH = 500
MAX_DECISION_REF_LENGTH = 128
DIGITS_BEFORE_POINT, DIGITS_AFTER_POINT = 15, 8
MAX_IGNORED, MAX_IGNORED_LENGTH = 20, 64

ACTION, TRACE = "act_", "trc_"

# For use in a character class: visible ASCII; control characters except newline and tab.
VISIBLE = r"\x21-\x7e"
CONTROL = r"\x00-\x08\x0b-\x1f\x7f-\x9f"

_PAIR = re.compile(PAIR_FORM, re.ASCII)
_NONCE = re.compile(rf"[{VISIBLE}]{{1,{MAX_NONCE_LENGTH}}}", re.ASCII)
_CONTROL = re.compile(rf"[{CONTROL}]")


class Mode(StrEnum):
    """The mode of a signal. The law refuses ``armed`` and ``live``."""

    DRAFT = "draft"
    DRY_RUN = "dry_run"
    PAPER = "paper"


@dataclass(frozen=True, slots=True)
class Submission:
    """A parsed signal, the same for every shape.

    ``user_id`` is the desk named by the body or path. ``size_quote`` is in the quote currency.
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
    ignored: tuple[str, ...] = field(default=(), compare=False)

    @property
    def signer(self) -> str:
        """The scope in which a nonce is single-use: the bot, or the source."""
        return self.bot_id or self.source

    @property
    def has_target(self) -> bool:
        """Whether it is sent to any desk: a bot's own, a named one, or all."""
        return self.fanout or self.user_id is not None or self.bot_id is not None


def read(body: dict[str, Any], deploy_to: str | None = None) -> Submission:
    """Parses a body. ``deploy_to`` is the desk in the path, if there is one."""
    fields = _Fields(body)
    source = fields.choice("source", [Source.FLOOR] if deploy_to else list(Source))
    specific = _deploy(fields, deploy_to) if deploy_to else _of_source(fields, source)
    common = {
        "source": source,
        "pair": fields.matching("pair", _PAIR, "Write BASE/QUOTE, each 1 to 20 of A-Z 0-9 . - _"),
        "direction": fields.choice("direction", list(Direction)),
    }
    fields.take("elected")
    fields.refuse_faults()
    return Submission(**common, **specific, ignored=fields.ignored())


class _Fields:
    """Reads the fields of a body, and collects the names it read and the faults it found."""

    def __init__(self, body: dict[str, Any]) -> None:
        self._body = body
        self._named: set[str] = set()
        self._faults: list[FieldError] = []

    def take(self, name: str) -> Any:
        self._named.add(name)
        return self._body.get(name)

    def fault(self, name: str, code: str, detail: str) -> None:
        self._faults.append(FieldError(field=name, code=code, detail=detail))

    def required(self, name: str, value: Any) -> None:
        if value is None:
            self.fault(name, "required", "Send this field.")

    def choice(self, name: str, choices: Collection[Any], *, optional: bool = False) -> Any:
        value = self.take(name)
        if value is None:
            if not optional:
                self.required(name, value)
        elif not isinstance(value, str) or value not in choices:
            self.fault(name, "choice", f"Send one of: {', '.join(choices)}.")
        else:
            return next(choice for choice in choices if choice == value)
        return None

    def flag(self, name: str, *, optional: bool = False) -> bool:
        value = self.take(name)
        if value is None and not optional:
            self.required(name, value)
        elif value is not None and not isinstance(value, bool):
            self.fault(name, "type", "Send true or false.")
        return value is True

    def matching(
        self, name: str, form: re.Pattern[str], detail: str, *, prefix: str = ""
    ) -> str | None:
        value = self.take(name)
        self.required(name, value)
        if value is None:
            return None
        if not isinstance(value, str) or not form.fullmatch(value) or not value.startswith(prefix):
            self.fault(name, "form", detail)
            return None
        return value

    def text(self, name: str, longest: int, *, plain: bool = False) -> str | None:
        """Optional text. ``plain`` refuses control characters except newline and tab."""
        value = self.take(name)
        if value is None:
            return None
        if not isinstance(value, str):
            self.fault(name, "type", "Send text.")
        elif len(value) > longest:
            self.fault(name, "length", f"Send at most {longest} characters.")
        elif plain and _CONTROL.search(value):
            self.fault(name, "form", "Send plain text without control characters.")
        else:
            return value
        return None

    def amount(self, name: str) -> Decimal | None:
        value = self.take(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            self.fault(name, "type", "Send a number or null.")
            return None
        amount = Decimal(value)
        digits_after = max(0, -int(amount.as_tuple().exponent))
        if amount <= 0 or amount.adjusted() >= DIGITS_BEFORE_POINT:
            self.fault(
                name, "range", f"Send a number above 0 with at most {DIGITS_BEFORE_POINT} digits."
            )
        elif digits_after > DIGITS_AFTER_POINT:
            self.fault(name, "range", f"Send at most {DIGITS_AFTER_POINT} digits after the point.")
        else:
            return amount
        return None

    def refuse_faults(self) -> None:
        if self._faults:
            raise Invalid(errors=self._faults)

    def ignored(self) -> tuple[str, ...]:
        """The names of the fields that were never read."""
        names = [name[:MAX_IGNORED_LENGTH] for name in self._body if name not in self._named]
        return tuple(names[:MAX_IGNORED])


def _nonce(fields: _Fields, name: str = "nonce", prefix: str = "") -> str | None:
    start = f", beginning with {prefix}" if prefix else ""
    detail = f"Send 1 to {MAX_NONCE_LENGTH} visible ASCII characters{start}."
    return fields.matching(name, _NONCE, detail, prefix=prefix)


def _paper_only(fields: _Fields) -> None:
    fields.choice("mode", [Mode.PAPER], optional=True)


def _of_source(fields: _Fields, source: Source | None) -> dict[str, Any]:
    """Reads the fields that only the shape of this source has."""
    if source is None:
        return {}
    return {Source.TRADINGVIEW: _automation, Source.FLOOR: _floor, Source.NOX: _nox}[source](fields)


def _automation(fields: _Fields) -> dict[str, Any]:
    _paper_only(fields)
    return {"bot_id": fields.take("botId"), "nonce": _nonce(fields)}


def _floor(fields: _Fields) -> dict[str, Any]:
    _paper_only(fields)
    fanout = fields.flag("fanout", optional=True)
    user_id = fields.text("userId", MAX_NONCE_LENGTH)
    if not fanout:
        fields.required("userId", user_id)
    return {"fanout": fanout, "user_id": user_id, "nonce": _nonce(fields)}


def _deploy(fields: _Fields, user_id: str) -> dict[str, Any]:
    _paper_only(fields)
    if fields.flag("fanout", optional=True):
        fields.fault("fanout", "contradiction", "This path is for one desk. Fan out on the hook.")
    named = fields.text("userId", MAX_NONCE_LENGTH)
    if named not in (None, user_id):
        fields.fault("userId", "contradiction", "The body and the path name different desks.")
    return {"user_id": user_id, "nonce": _nonce(fields)}


def _nox(fields: _Fields) -> dict[str, Any]:
    return {
        "fanout": fields.flag("fanout"),
        "user_id": fields.text("userId", MAX_NONCE_LENGTH),
        "mode": fields.choice("mode", list(Mode)),
        "nonce": _nonce(fields, "action_id", ACTION),
        "trace_id": _nonce(fields, "trace_id", TRACE),
        "size_quote": fields.amount("size_quote"),
        "rationale": fields.text("rationale", MAX_RATIONALE_LENGTH, plain=True),
        "decision_ref": fields.text("decision_ref", MAX_DECISION_REF_LENGTH),
    }
