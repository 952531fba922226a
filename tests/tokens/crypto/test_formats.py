"""The format of credentials (contract, section 2)."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from desks.ids import BASE62
from tests.client import EVENTS, code, get, push
from tokens.crypto import formats

pytestmark = pytest.mark.once

PREFIXES = [formats.DESK_TOKEN, formats.PLATFORM_TOKEN, formats.SIGNING_SECRET]

credentials = st.builds(
    lambda prefix, body: prefix + body + formats.checksum(prefix + body),
    st.sampled_from(PREFIXES),
    st.text(BASE62, min_size=43, max_size=43),
)


def read_base62(digits: str) -> int:
    value = 0
    for digit in digits:
        value = value * 62 + BASE62.index(digit)
    return value


@given(credentials)
def test_the_checksum_is_the_crc32_of_all_before_it_big_endian_in_base62(text):
    assert read_base62(text[-6:]) == zlib.crc32(text[:-6].encode())


def test_a_small_checksum_is_padded_with_zeros_on_the_left():
    assert formats.checksum("") == "000000"
    text = next(str(n) for n in range(2_000_000) if zlib.crc32(b"%d" % n) < 62**4)
    assert formats.checksum(text).startswith("00")
    assert read_base62(formats.checksum(text)) == zlib.crc32(text.encode())


def test_no_two_credentials_are_alike():
    assert len({formats.new(formats.DESK_TOKEN) for _ in range(200)}) == 200


@given(credentials, st.data())
def test_a_mistyped_character_is_detected(text, data):
    place = data.draw(st.integers(len("svc_desk_"), len(text) - 1))
    other = data.draw(st.sampled_from([c for c in BASE62 if c != text[place]]))
    assert formats.is_credential(text, *PREFIXES)
    assert not formats.is_credential(text[:place] + other + text[place + 1 :], *PREFIXES)


@pytest.mark.parametrize("more", ["0", " ", "\n", "é"])
def test_a_credential_with_other_text_around_it_is_not_valid(more):
    text = formats.new(formats.DESK_TOKEN)
    assert not formats.is_credential(text + more, formats.DESK_TOKEN)
    assert not formats.is_credential(more + text, formats.DESK_TOKEN)


def test_a_credential_is_valid_only_with_its_own_prefix():
    text = formats.new(formats.SIGNING_SECRET)
    assert formats.is_credential(text, formats.SIGNING_SECRET)
    assert not formats.is_credential(text, formats.DESK_TOKEN, formats.PLATFORM_TOKEN)
    body = text[len(formats.SIGNING_SECRET) :]
    assert not formats.is_credential(formats.DESK_TOKEN + body, formats.DESK_TOKEN)


@given(credentials, st.text(), st.text())
def test_a_credential_is_found_in_any_text(text, before, after):
    assert formats.contains_credential(before + text + after)


def test_a_credential_is_found_where_a_broken_one_overlaps_it():
    text = formats.new(formats.DESK_TOKEN)
    # The first credential breaks off at the underscore of the second, which is not base62.
    assert formats.contains_credential("svc_plat_" + "0" * 30 + text)
    # Here the letters "svc" of the second would complete the first.
    assert formats.contains_credential("svc_plat_" + "0" * 46 + text)
    inside = formats.new(formats.PLATFORM_TOKEN)
    assert formats.contains_credential("svc_desk_" + inside)
    assert formats.contains_credential("svc_sign_svc_desk_" + inside + "0000")


def test_text_with_a_wrong_checksum_contains_no_credential():
    text = formats.new(formats.DESK_TOKEN)
    assert not formats.contains_credential(text[:-1])
    assert not formats.contains_credential("svc_desk_" + "0" * 49)
    assert not formats.contains_credential("svc_other_" + text[len("svc_desk_") :])


@pytest.mark.django_db
@pytest.mark.parametrize("prefix", [formats.DESK_TOKEN, formats.PLATFORM_TOKEN])
def test_a_token_whose_checksum_is_wrong_is_refused_without_a_query(
    prefix, django_assert_num_queries
):
    text = formats.new(prefix)
    mistyped = text[:-1] + ("0" if text[-1] != "0" else "1")
    with django_assert_num_queries(0):
        assert code(get(EVENTS, mistyped)) == "token_invalid"
        assert code(push({}, mistyped)) == "token_invalid"
