"""A strict JSON parser, and the encoder of answers: one object, no repeated keys, exact values.

Without Django. Raises ``Malformed`` (contract, section 5, row 400). A short number without point
and exponent becomes an ``int``, and any other a ``Number``.
"""

import json
from dataclasses import dataclass
from typing import Any, Never

from events.http.refusals import Malformed
from events.json_schema import JsonObject

MAX_DEPTH = 16
MAX_INTEGER_DIGITS = 18


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it was written. Only who uses it converts it.

    It may have any length and exponent: converting all of a body would take time for nothing.
    """

    text: str

    def __str__(self) -> str:
        return self.text


def parse(body: bytes) -> JsonObject:
    """Parses the bytes, which must be one JSON object."""
    try:
        value = DECODER.decode(body.decode("utf-8"))
    except (ValueError, RecursionError) as fault:
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


def _parse_integer(digits: str) -> int | Number:
    return int(digits) if len(digits) <= MAX_INTEGER_DIGITS else Number(digits)


def _refuse_constant(_: str) -> Never:
    raise Malformed


DECODER = json.JSONDecoder(
    object_pairs_hook=_refuse_repeated_keys,
    parse_float=Number,
    parse_int=_parse_integer,
    parse_constant=_refuse_constant,
)
# What the API writes. NaN and infinity are not JSON: encoding one raises ValueError.
ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
