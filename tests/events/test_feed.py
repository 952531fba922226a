"""Reading the log: each visible event once, in order, from any cursor."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from events import log
from events.actors import SYSTEM
from events.feed import (
    MAX_SPANS_PER_PAGE,
    WHOLE_LOG,
    Page,
    Query,
    Span,
    Visibility,
    read_page,
)
from events.kinds import EVERYONE, PLATFORM, Kind

pytestmark = pytest.mark.django_db

MINE, OTHERS, CARD = "usr_mine", "usr_other", "card_one"


def write(*topics: str | None) -> None:
    for topic in topics:
        with log.turn(actor=SYSTEM) as turn:
            turn.append(Kind.DESK_CREATED, topic=topic, data={})


def always(spans: Sequence[Span]) -> Visibility:
    return lambda window: spans


def read_all(query: Query, visibility: Visibility) -> list[int]:
    """All positions that a reader sees who reads every page."""
    seen: list[int] = []
    while True:
        page = read_page(query, visibility)
        seen += [event.position for event in page.events]
        if not page.more:
            return seen
        assert page.examined != query.after, "the cursor does not advance"
        query = replace(query, after=page.examined)


def page(visibility: Visibility, **query: Any) -> Page:
    return read_page(Query(**query), visibility)


def test_the_whole_log_is_read_oldest_first():
    write(MINE, PLATFORM, EVERYONE)
    assert read_all(Query(), always(WHOLE_LOG)) == [1, 2, 3]


def test_a_span_ends_before_the_position_that_closed_it():
    write(CARD, CARD, CARD, CARD, CARD)
    assert read_all(Query(), always([Span(CARD, opened=2, closed=4)])) == [3]


def test_without_spans_a_page_is_empty_and_the_cursor_advances():
    write(MINE, MINE)
    empty = page(always([]))
    assert (empty.events, empty.examined, empty.more) == ([], 2, False)


def test_the_cursor_is_the_last_position_examined_not_the_last_returned():
    write(MINE, OTHERS, OTHERS)
    first = page(always([Span(MINE)]))
    assert ([e.position for e in first.events], first.examined) == ([1], 3)
    write(MINE)
    assert [e.position for e in page(always([Span(MINE)]), after=first.examined).events] == [4]


def test_the_cursor_of_a_full_page_is_its_last_event_and_more_is_true():
    write(*[MINE] * 5)
    first = page(always([Span(MINE)]), limit=2)
    assert ([e.position for e in first.events], first.examined, first.more) == ([1, 2], 2, True)


def test_an_empty_log_returns_a_cursor_that_resumes():
    empty = page(always(WHOLE_LOG))
    assert (empty.events, empty.examined) == ([], 0)
    write(MINE)
    assert read_all(Query(after=empty.examined), always(WHOLE_LOG)) == [1]


def test_the_signal_filter_returns_only_a_visible_event():
    with log.turn(actor=SYSTEM) as turn:
        turn.append(Kind.SIGNAL_FILLED, topic=MINE, data={}, signal={"id": "sig_1"})
    write(MINE)
    assert read_all(Query(signal="sig_1"), always(WHOLE_LOG)) == [1]
    assert read_all(Query(signal="sig_1"), always([Span(MINE)])) == [1]
    assert read_all(Query(signal="sig_1"), always([Span(OTHERS)])) == []
    assert read_all(Query(signal="sig_2"), always(WHOLE_LOG)) == []


def test_a_page_takes_two_statements_plus_those_of_its_visibility(django_assert_num_queries):
    write(*[MINE, CARD, EVERYONE] * 10)
    spans = [Span(MINE), Span(EVERYONE), *(Span(CARD, n, n + 2) for n in range(1, 29, 2))]
    with django_assert_num_queries(2):
        page(always(spans), limit=5)


@pytest.mark.parametrize("descending", [False, True])
def test_many_spans_are_read_without_gaps(descending: bool):
    """Spans of successive cards whose ids are in no order, and spans without an end."""
    count = 2 * MAX_SPANS_PER_PAGE + 3
    cards = [f"card_{(number * 37) % count:03}" for number in range(count)]
    for card in cards:
        write(card, MINE, card, OTHERS)
    spans = [Span(card, 4 * n, 4 * n + 3) for n, card in enumerate(cards)]
    expected = [n for n in range(1, 4 * count + 1) if n % 4 in (1, 2)]
    visibility = always([Span(MINE), Span(EVERYONE), *spans, Span(cards[-1], 4 * count)])
    seen = read_all(Query(descending=descending), visibility)
    assert seen == (expected[::-1] if descending else expected)


@pytest.mark.parametrize("descending", [False, True])
def test_a_page_reads_a_limited_number_of_spans_and_returns_where_it_ended(descending: bool):
    write(*[CARD] * (MAX_SPANS_PER_PAGE + 2))
    spans = [Span(CARD, n, n + 2) for n in range(MAX_SPANS_PER_PAGE + 2)]
    endless = [Span(MINE), Span(EVERYONE)]
    for more, one in ((False, spans[:MAX_SPANS_PER_PAGE]), (True, spans[: MAX_SPANS_PER_PAGE + 1])):
        result = page(always([*endless, *one]), descending=descending)
        assert result.more is more
    last = 2 if descending else MAX_SPANS_PER_PAGE
    assert (result.examined, result.events[-1].position) == (last, last)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    topics=st.lists(
        st.sampled_from([MINE, OTHERS, CARD, EVERYONE, PLATFORM]), min_size=1, max_size=12
    ),
    bounds=st.lists(st.integers(1, 13), unique=True, max_size=6),
    limit=st.integers(1, 5),
    descending=st.booleans(),
)
def test_with_any_page_size_a_reader_sees_each_visible_event_once(
    topics: list[str | None], bounds: list[int], limit: int, descending: bool
):
    with log.turn(actor=SYSTEM) as turn:
        for topic in topics:
            turn.append(Kind.DESK_CREATED, topic=topic, data={})
        start = turn.position - 1 - len(topics)
    edges = sorted(bounds)
    spans = [
        Span(CARD, start + opened, start + closed)
        for opened, closed in zip(edges[::2], edges[1::2], strict=False)
    ]
    expected = [
        start + n
        for n, topic in enumerate(topics, 1)
        if topic in (MINE, EVERYONE)
        or (topic == CARD and any(s.opened < start + n < s.closed for s in spans))
    ]
    visibility = always([Span(MINE), Span(EVERYONE), *spans])
    query = Query(after=None if descending else start, limit=limit, descending=descending)
    seen = [position for position in read_all(query, visibility) if position > start]
    assert seen == (expected[::-1] if descending else expected)
