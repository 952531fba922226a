"""A strict JSON parser, and the encoder of answers: one object, no repeated keys, exact values.

Without Django. Raises ``Malformed`` (contract, section 5, row 400). A number becomes an ``int``
if it has no point and no exponent, and otherwise a ``Decimal`` with the digits that were sent.
"""

import json
from decimal import Decimal, InvalidOperation
from typing import Any, Never

from events.http.refusals import Malformed
from events.json_schema import JsonObject

MAX_DEPTH = 16
MAX_INTEGER_DIGITS = 100  # int() refuses very long numbers: these become a Decimal


def parse(body: bytes) -> JsonObject:
    """Parses the bytes, which must be one JSON object."""
    try:
        text = body.decode("utf-8")
        _check_depth(text)
        value = DECODER.decode(text)
    except (ValueError, InvalidOperation, RecursionError) as fault:
        raise Malformed from fault
    if not isinstance(value, dict):
        raise Malformed
    _check_strings(value)
    return value


def _check_depth(text: str) -> None:
    """Checks the nesting before parsing, by counting the brackets outside strings."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    depth, inside_string, escaped = 0, False, False
    for character in text:
        if inside_string:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                inside_string = False
        elif character == '"':
            inside_string = True
        elif character in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise Malformed
        elif character in "]}":
            depth -= 1


def _check_strings(value: object) -> None:
    """Refuses NUL and lone surrogates in all strings: the database cannot store them."""
    if isinstance(value, str):
        if "\x00" in value:
            raise Malformed
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise Malformed from None
    elif isinstance(value, dict):
        for key, member in value.items():
            _check_strings(key)
            _check_strings(member)
    elif isinstance(value, list):
        for member in value:
            _check_strings(member)


def _refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> JsonObject:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise Malformed
    return members


def _parse_integer(digits: str) -> int | Decimal:
    return int(digits) if len(digits) <= MAX_INTEGER_DIGITS else Decimal(digits)


def _refuse_constant(_: str) -> Never:
    raise Malformed


DECODER = json.JSONDecoder(
    object_pairs_hook=_refuse_repeated_keys,
    parse_float=Decimal,
    parse_int=_parse_integer,
    parse_constant=_refuse_constant,
)
# What the API writes. NaN and infinity are not JSON: encoding one raises ValueError.
ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
