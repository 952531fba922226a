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
        value = DECODER.decode(body.decode("utf-8"))
    except (ValueError, InvalidOperation, RecursionError) as fault:
        raise Malformed from fault
    if not isinstance(value, dict):
        raise Malformed
    _check(value)
    return value


def _check(value: object, depth: int = 0) -> None:
    """Refuses values that are nested too deeply, and strings that the database cannot store.

    Those are strings with a NUL or a lone surrogate, as a value or as a key.
    """
    if isinstance(value, str):
        if "\x00" in value:
            raise Malformed
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise Malformed from None
    elif isinstance(value, (dict, list)):
        if depth == MAX_DEPTH:
            raise Malformed
        for member in value:
            _check(member, depth + 1)
        for member in value.values() if isinstance(value, dict) else ():
            _check(member, depth + 1)


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
