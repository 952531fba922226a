"""The kinds of member of a signal: how each is described, and how its value is read.

The functions are pure. Each returns a ``Member``.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Any

from events.http.refusals import FieldCode
from events.http.strict_json import Number
from events.json_schema import BOOLEAN, STRING, JsonObject, nullable, one_of, pattern
from events.times import RFC3339_DETAIL, parse_rfc3339

DIGITS_BEFORE_POINT, DIGITS_AFTER_POINT = 15, 8

# For use in a character class: control characters except newline and tab.
CONTROL = r"\x00-\x08\x0b-\x1f\x7f-\x9f"
_CONTROL = re.compile(rf"[{CONTROL}]")
CRLF = "\r\n"


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
