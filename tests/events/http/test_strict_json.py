"""The strict JSON parser: what it accepts, and what it refuses."""

import contextlib
import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.http import strict_json
from events.http.refusals import Malformed

pytestmark = pytest.mark.once

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=10,
)


def nested(depth: int) -> bytes:
    """An object with this depth of nesting. The body itself is level one."""
    return b'{"a":' * depth + b"1" + b"}" * depth


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"null",
        b"[]",
        b'"text"',
        b"{",
        b"{}{}",
        b"{'a': 1}",
        b'{"a": 1,}',
        b'{"a": 1} x',
        b"\xef\xbb\xbf{}",
        b"\xff\xfe",
        b'{"a": "\xc3\x28"}',
        b'{"a": 1, "a": 1}',
        b'{"b": {"a": 1, "a": 2}}',
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": -Infinity}',
        b'{"a": 1e99999999999999999999}',
        b'{"a": "\\u0000"}',
        b'{"\\u0000": 1}',
        b'{"a": ["\\ud800"]}',
        b'{"a": {"b": "\\udfff"}}',
        b'{"a": "\x01"}',
        nested(17),
        b"[" * 5000,
        b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}",
    ],
)
def test_anything_but_one_plain_object_is_malformed(body: bytes):
    with pytest.raises(Malformed):
        strict_json.parse(body)


def test_sixteen_levels_are_read():
    assert strict_json.parse(nested(16))


def test_brackets_in_strings_do_not_count_as_nesting():
    text = '"\\' + "[{" * 40
    assert strict_json.parse(json.dumps({"a": text}).encode()) == {"a": text}


def test_a_pair_of_surrogates_is_one_character():
    assert strict_json.parse(b'{"a": "\\ud83d\\ude00"}') == {"a": "\U0001f600"}


@pytest.mark.parametrize("digits", ["100.50", "0.00000001", "1e999", "1E+2", "9" * 40 + ".5"])
def test_numbers_with_a_point_or_exponent_keep_their_digits(digits: str):
    value = strict_json.parse(f'{{"a": {digits}}}'.encode())["a"]
    assert isinstance(value, Decimal)
    assert value == Decimal(digits)


@pytest.mark.parametrize("digits", ["7", "-7", "1" * 40, "1" * 5000])
def test_integers_of_any_length_are_read(digits: str):
    assert Decimal(strict_json.parse(f'{{"a": {digits}}}'.encode())["a"]) == Decimal(digits)


@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=5))
def test_the_output_of_json_dumps_is_read_back(value: dict):
    text = json.dumps(value).encode()
    if "\\u0000" in text.decode():
        return
    depth = max(text.count(b"{") + text.count(b"["), 1)
    if depth <= strict_json.MAX_DEPTH:
        try:
            assert strict_json.parse(text) == value
        except Malformed:
            assert any(0xD800 <= ord(c) < 0xE000 for c in str(value))


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_malformed(body: bytes):
    with contextlib.suppress(Malformed):
        assert isinstance(strict_json.parse(body), dict)
