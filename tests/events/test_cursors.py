"""Cursors: they resume exactly, and say so when they cannot."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.cursors import list_cursor, list_key, log_cursor, log_position
from events.models import new_epoch
from events.refusals import CursorLost, Invalid

EPOCH = "0011aabb"


@given(st.integers(min_value=0, max_value=10**18 - 1))
def test_a_cursor_gives_back_what_it_stands_on(position: int):
    assert log_position(log_cursor(EPOCH, position), EPOCH, head=position) == position
    assert list_key(list_cursor(position)) == position


def test_a_cursor_of_another_epoch_is_lost():
    with pytest.raises(CursorLost):
        log_position(log_cursor(new_epoch(), 3), EPOCH, head=10)


def test_a_cursor_beyond_the_head_is_lost():
    assert log_position(log_cursor(EPOCH, 10), EPOCH, head=10) == 10
    with pytest.raises(CursorLost):
        log_position(log_cursor(EPOCH, 11), EPOCH, head=10)


@given(st.text())
def test_any_text_is_a_cursor_or_refused(text: str):
    for read in (list_key, lambda t: log_position(t, EPOCH, head=10)):
        with contextlib.suppress(Invalid, CursorLost):
            assert read(text) >= 0


@pytest.mark.parametrize(
    "text", ["", "1", "e", "MQ==", "MQ ", "LTE", "MS41", "ééé", "w6k", "MTIz\n"]
)
def test_text_that_no_list_gave_is_invalid(text: str):
    with pytest.raises(Invalid) as refused:
        list_key(text)
    assert refused.value.members["errors"][0]["field"] == "after"
