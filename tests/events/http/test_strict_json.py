"""The strict JSON parser: what it accepts, and what it refuses."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.http import strict_json
from events.http.refusals import Malformed

pytestmark = pytest.mark.once

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**16), 10**16)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=10,
)


def nested(depth: int) -> bytes:
    """An object with this depth of nesting. The body itself is level one."""
    return b'{"a":' * depth + b"1" + b"}" * depth


MALFORMED = {
    "empty": b"",
    "blank": b"  \r\n",
    "not JSON": b"pair=BTC/USDT",
    "an array": b"[]",
    "a string": b'"x"',
    "a number": b"1",
    "null": b"null",
    "true": b"true",
    "half": b'{"a":1',
    "two": b"{}{}",
    "a tail": b"{} x",
    "a comment": b"{} // x",
    "single quotes": b"{'a':1}",
    "a trailing comma": b'{"a":1,}',
    "a BOM": b"\xef\xbb\xbf{}",
    "UTF-16": '{"a":1}'.encode("utf-16"),
    "invalid UTF-8": b'{"a":"\xff"}',
    "overlong UTF-8": b'{"a":"\xc0\xaf"}',
    "an encoded surrogate": b'{"a":"\xed\xa0\x80"}',
    "NUL": b'{"a":"\\u0000"}',
    "NUL in a name": b'{"\\u0000":1}',
    "NUL deep": b'{"a":[{"b":["x\\u0000"]}]}',
    "a NUL byte": b'{"a":1}\x00',
    "a lone high surrogate": b'{"a":"\\ud800"}',
    "a lone low surrogate": b'{"a":["\\udc00"]}',
    "surrogates the wrong way round": b'{"a":"\\udc00\\ud800"}',
    "a lone surrogate in a name": b'{"\\ud800":1}',
    "a repeated key": b'{"a":1,"a":1}',
    "a repeated key, escaped": b'{"a":1,"\\u0061":2}',
    "a repeated key, deep": b'{"x":[{"a":1,"a":2}]}',
    "NaN": b'{"a":NaN}',
    "Infinity": b'{"a":Infinity}',
    "-Infinity": b'{"a":[-Infinity]}',
    "a raw newline in a string": b'{"a":"x\ny"}',
    "a leading zero": b'{"a":01}',
    "a plus sign": b'{"a":+1}',
    "a bare point": b'{"a":.5}',
    "hexadecimal": b'{"a":0x10}',
    "17 levels": nested(17),
    "17 levels of arrays": b'{"a":' + b"[" * 16 + b"]" * 16 + b"}",
    "5,000 brackets": b"[" * 5000,
    "5,000 brackets in an object": b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}",
    "30,000 braces": b'{"a":' * 10_000,
    "gzip": b"\x1f\x8b\x08\x00",
}


@pytest.mark.parametrize("what", MALFORMED)
def test_anything_but_one_plain_object_is_malformed(what):
    with pytest.raises(Malformed):
        strict_json.parse(MALFORMED[what])


def test_sixteen_levels_are_read():
    assert strict_json.parse(nested(16))


def test_brackets_in_strings_do_not_count_as_nesting():
    text = '"\\' + "[{" * 40
    assert strict_json.parse(json.dumps({"a": text}).encode()) == {"a": text}


def test_a_pair_of_surrogates_is_one_character():
    assert strict_json.parse(b'{"a": "\\ud83d\\ude00"}') == {"a": "\U0001f600"}


NUMBERS = [
    *(
        "100.50",
        "0.00000001",
        "1e999",
        "1E+2",
        "9" * 40 + ".5",
        "1e-" + "9" * 40,
        "-1E" + "9" * 60_000,
    ),
    *("1" * 19, "-" + "1" * 60_000, "0." + "1" * 60_000),
]


@pytest.mark.parametrize("text", NUMBERS, ids=lambda text: text[:20])
def test_a_number_of_any_length_is_kept_as_it_was_written(text: str):
    value = strict_json.parse(f'{{"a": {text}}}'.encode())["a"]
    assert value == strict_json.Number(text)
    assert str(value) == text


@pytest.mark.parametrize("digits", ["7", "-7", "0", "1" * 18])
def test_a_short_whole_number_is_read(digits: str):
    value = strict_json.parse(f'{{"a": {digits}}}'.encode())["a"]
    assert (type(value), value) == (int, int(digits))


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
