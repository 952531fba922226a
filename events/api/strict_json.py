"""JSON read strictly: one object, nothing said twice, nothing that cannot be kept exactly.

Pure; raises ``Malformed`` (contract, section 5, the row of 400). Numbers become ``Decimal`` with
the digits that were sent, whole ones without a point or exponent ``int``.
"""

import json
from decimal import Decimal, InvalidOperation
from typing import Any, Never

from events.refusals import Malformed

DEEPEST = 16
LONGEST_WHOLE_NUMBER = 100  # digits; a longer one is kept as a Decimal, which int() would not bear


def read(body: bytes) -> dict[str, Any]:
    """The one object that the bytes are."""
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
    """Counts brackets outside strings, before anything is built: depth costs nothing here."""
    if text.count("[") + text.count("{") <= DEEPEST:
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
            if depth > DEEPEST:
                raise Malformed
        elif character in "]}":
            depth -= 1


def _check_strings(value: Any) -> None:
    """NUL and lone surrogates cannot be kept: they are refused wherever they stand."""
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


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Malformed
    return found


def _whole(digits: str) -> int | Decimal:
    return int(digits) if len(digits) <= LONGEST_WHOLE_NUMBER else Decimal(digits)


def _no_number(_: str) -> Never:
    raise Malformed


DECODER = json.JSONDecoder(
    object_pairs_hook=_each_key_once,
    parse_float=Decimal,
    parse_int=_whole,
    parse_constant=_no_number,
)
