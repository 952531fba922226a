"""Cursors resume exactly where they were issued, or are refused."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.columns import new_epoch
from events.http.cursors import (
    list_cursor,
    list_key,
    log_cursor,
    log_position,
    scan_cursor,
    scan_place,
)
from events.http.refusals import CursorLost, Invalid

EPOCH = "0011aabb"


@given(st.integers(min_value=0, max_value=10**18 - 1))
def test_a_cursor_returns_its_position(position: int):
    assert log_position(log_cursor(EPOCH, position), EPOCH, head=position) == position
    assert list_key(list_cursor("desks", position), "desks") == str(position)
    walk = scan_cursor("desks", EPOCH, position, position)
    assert scan_place(walk, "desks", EPOCH, head=position) == (position, position)


@pytest.mark.parametrize("key", ["1", "bot_", "bot_a\n", "x", "bot_a:bot_b", "bot_%"])
def test_a_list_of_ids_takes_an_id_of_its_form_only(key: str):
    assert list_key(list_cursor("bots", "bot_a"), "bots", "bot_[a-z]") == "bot_a"
    for cursor in (list_cursor("bots", key), list_cursor("desks", "bot_a")):
        with pytest.raises(Invalid):
            list_key(cursor, "bots", "bot_[a-z]")


def test_a_cursor_of_another_epoch_is_lost():
    with pytest.raises(CursorLost):
        log_position(log_cursor(new_epoch(), 3), EPOCH, head=10)


def test_a_cursor_beyond_the_head_is_lost():
    assert log_position(log_cursor(EPOCH, 10), EPOCH, head=10) == 10
    with pytest.raises(CursorLost):
        log_position(log_cursor(EPOCH, 11), EPOCH, head=10)


def test_a_cursor_of_a_walk_is_lost_with_the_log_in_which_the_walk_began():
    walk = scan_cursor("desks", EPOCH, 10, 99)
    assert scan_place(walk, "desks", EPOCH, head=10) == (10, 99)
    for epoch, head in ((new_epoch(), 10), (EPOCH, 9)):
        with pytest.raises(CursorLost):
            scan_place(walk, "desks", epoch, head)
    for wrong in (log_cursor(EPOCH, 10), list_cursor("desks", 10), list_cursor("desks", "e.1.2.3")):
        with pytest.raises(Invalid):
            scan_place(wrong, "desks", EPOCH, head=10)


@given(st.text())
def test_any_text_is_a_cursor_or_refused(text: str):
    for read in (lambda t: list_key(t, "desks"), lambda t: log_position(t, EPOCH, head=10)):
        with contextlib.suppress(Invalid, CursorLost):
            assert int(read(text)) >= 0


def test_a_cursor_is_valid_for_its_list_only():
    of_desks, of_log = list_cursor("desks", 3), log_cursor(EPOCH, 3)
    for name in ("tokens", "desks&ready=1", "events", "", "desks:3"):
        with pytest.raises(Invalid):
            list_key(of_desks, name)
    with pytest.raises(Invalid):
        list_key(of_log, "desks")
    with pytest.raises(Invalid):
        log_position(of_desks, EPOCH, head=10)


GOOD = list_cursor("desks", 1)


@pytest.mark.parametrize(
    "text",
    ["", "1", "e", "MQ==", "MQ ", "LTE", "MQ", "ééé", "w6k", f"{GOOD}\n", f"{GOOD}=", GOOD[:-1]],
)
def test_text_that_no_list_gave_is_invalid(text: str):
    with pytest.raises(Invalid) as refused:
        list_key(text, "desks")
    assert refused.value.members["errors"][0]["field"] == "after"
