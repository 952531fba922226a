"""Cursors resume exactly where they were issued, or are refused."""

import contextlib
from datetime import UTC, datetime, timedelta

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
from events.models import Identity

EPOCH = "0011aabb"
AT = datetime(2026, 11, 24, 12, tzinfo=UTC)
EVENT = Identity(7, AT, "signal.filled", "tok_1", "usr_1", "sig_1")


def no_event(position: int) -> None:
    """A log without an event at this position."""


@given(st.integers(min_value=0, max_value=10**18 - 1))
def test_a_cursor_returns_its_position(position: int):
    assert log_position(log_cursor(EPOCH, position), EPOCH, position, no_event) == position
    assert list_key(list_cursor("desks", position), "desks") == str(position)
    walk = scan_cursor("desks", EPOCH, position, position)
    assert scan_place(walk, "desks", EPOCH, position, no_event) == (position, position)


@pytest.mark.once
@pytest.mark.parametrize("key", ["1", "bot_", "bot_a\n", "x", "bot_a:bot_b", "bot_%"])
def test_a_list_of_ids_takes_an_id_of_its_form_only(key: str):
    assert list_key(list_cursor("bots", "bot_a"), "bots", "bot_[a-z]") == "bot_a"
    for cursor in (list_cursor("bots", key), list_cursor("desks", "bot_a")):
        with pytest.raises(Invalid):
            list_key(cursor, "bots", "bot_[a-z]")


def test_a_cursor_of_another_epoch_is_lost():
    with pytest.raises(CursorLost):
        log_position(log_cursor(new_epoch(), 3), EPOCH, 10, no_event)


def test_a_cursor_beyond_the_head_is_lost():
    assert log_position(log_cursor(EPOCH, 10), EPOCH, 10, no_event) == 10
    with pytest.raises(CursorLost):
        log_position(log_cursor(EPOCH, 11), EPOCH, 10, no_event)


@pytest.mark.parametrize(
    "other",
    [
        None,
        EVENT._replace(at=AT + timedelta(microseconds=1)),
        EVENT._replace(kind="signal.refused"),
        EVENT._replace(actor_id=None),
        EVENT._replace(topic="all"),
        EVENT._replace(signal_id="sig_2"),
    ],
)
def test_a_cursor_with_a_digest_is_lost_if_its_event_is_not_there(other: Identity | None):
    cursor = log_cursor(EPOCH, 7, EVENT)
    assert log_position(cursor, EPOCH, 9, {7: EVENT}.get) == 7
    with pytest.raises(CursorLost):
        log_position(cursor, EPOCH, 9, {7: other}.get)


def test_a_digest_is_compared_as_long_as_its_key_is_configured(settings):
    cursor, old_key = log_cursor(EPOCH, 7, EVENT), settings.SECRET_KEY
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "b" * 32, [old_key]
    assert log_position(cursor, EPOCH, 9, {7: EVENT}.get) == 7
    with pytest.raises(CursorLost):
        log_position(cursor, EPOCH, 9, no_event)
    settings.SECRET_KEY_FALLBACKS = []
    assert log_position(cursor, EPOCH, 9, no_event) == 7


def test_a_digest_depends_on_a_key_that_its_reader_does_not_know(settings):
    cursor = log_cursor(EPOCH, 7, EVENT)
    settings.SECRET_KEY = "b" * 32
    assert log_cursor(EPOCH, 7, EVENT)[-12:] != cursor[-12:]


@pytest.mark.once
@given(st.text())
def test_any_text_is_a_cursor_or_refused(text: str):
    for read in (lambda t: list_key(t, "desks"), lambda t: log_position(t, EPOCH, 10, no_event)):
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
        log_position(of_desks, EPOCH, 10, no_event)


GOOD = list_cursor("desks", 1)


@pytest.mark.once
@pytest.mark.parametrize(
    "text",
    ["", "1", "e", "MQ==", "MQ ", "LTE", "MQ", "ééé", "w6k", f"{GOOD}\n", f"{GOOD}=", GOOD[:-1]],
)
def test_text_that_no_list_gave_is_invalid(text: str):
    with pytest.raises(Invalid) as refused:
        list_key(text, "desks")
    assert refused.value.members["errors"][0]["field"] == "after"
