"""Reading the log: every event of a view once, in order, from any cursor."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from events import log
from events.feed import SPANS_A_PAGE, WHOLE_LOG, Page, Query, Span, View, read_page
from events.kinds import EVERYONE, PLATFORM, Kind

pytestmark = pytest.mark.django_db

MINE, OTHERS, CARD = "usr_mine", "usr_other", "card_one"


def write(*topics: str | None, kind: Kind = Kind.DESK_CREATED) -> None:
    for topic in topics:
        with log.turn() as turn:
            turn.append(kind, topic=topic, data={})


def fixed(spans: Sequence[Span]) -> View:
    return lambda window: spans


def whole(query: Query, view: View) -> list[int]:
    """Every position that a reader sees who follows the pages to the end."""
    seen: list[int] = []
    while True:
        page = read_page(query, view)
        seen += [event.position for event in page.events]
        if not page.more:
            return seen
        assert page.examined != query.after, "it stands still"
        query = replace(query, after=page.examined)


def page(view: View, **query: object) -> Page:
    return read_page(Query(**query), view)


def test_the_whole_log_is_read_oldest_first():
    write(MINE, PLATFORM, EVERYONE)
    assert whole(Query(), fixed(WHOLE_LOG)) == [1, 2, 3]


def test_the_whole_log_is_read_newest_first_where_asked():
    write(MINE, PLATFORM, EVERYONE)
    assert whole(Query(descending=True), fixed(WHOLE_LOG)) == [3, 2, 1]


def test_a_view_shows_its_topics_and_nothing_else():
    write(MINE, OTHERS, EVERYONE, PLATFORM, MINE)
    view = fixed([Span(MINE), Span(EVERYONE)])
    assert whole(Query(), view) == [1, 3, 5]


def test_a_span_ends_before_the_position_that_closed_it():
    write(CARD, CARD, CARD, CARD, CARD)
    assert whole(Query(), fixed([Span(CARD, opened=2, closed=4)])) == [3]


def test_no_spans_show_nothing_and_still_move_the_cursor():
    write(MINE, MINE)
    empty = page(fixed([]))
    assert (empty.events, empty.examined, empty.more) == ([], 2, False)


def test_the_cursor_stands_on_the_last_position_examined_not_the_last_returned():
    write(MINE, OTHERS, OTHERS)
    first = page(fixed([Span(MINE)]))
    assert ([e.position for e in first.events], first.examined) == ([1], 3)
    write(MINE)
    assert [e.position for e in page(fixed([Span(MINE)]), after=first.examined).events] == [4]


def test_a_full_page_stands_on_its_last_event_and_says_that_there_is_more():
    write(*[MINE] * 5)
    first = page(fixed([Span(MINE)]), limit=2)
    assert ([e.position for e in first.events], first.examined, first.more) == ([1, 2], 2, True)


def test_a_page_that_is_exactly_full_has_no_more():
    write(MINE, MINE)
    assert page(fixed([Span(MINE)]), limit=2).more is False


def test_from_the_tail_a_reader_goes_on_with_what_comes():
    write(MINE, MINE)
    tail = page(fixed([Span(MINE)]), descending=True, limit=1)
    write(MINE)
    assert [e.position for e in page(fixed([Span(MINE)]), after=tail.examined).events] == [3]


def test_an_empty_log_gives_a_cursor_that_resumes():
    empty = page(fixed(WHOLE_LOG))
    assert (empty.events, empty.examined) == ([], 0)
    write(MINE)
    assert whole(Query(after=empty.examined), fixed(WHOLE_LOG)) == [1]


def test_kinds_choose_among_the_events_of_every_span():
    write(MINE, kind=Kind.DESK_CREATED)
    write(MINE, EVERYONE, kind=Kind.CARD_PUBLISHED)
    write(MINE, kind=Kind.DESK_CONNECTED)
    view = fixed([Span(MINE), Span(EVERYONE)])
    assert whole(Query(kinds=[Kind.CARD_PUBLISHED]), view) == [2, 3]
    assert whole(Query(kinds=[Kind.DESK_CREATED, Kind.DESK_CONNECTED]), view) == [1, 4]


def test_a_signal_chooses_its_event_and_only_within_the_view():
    with log.turn() as turn:
        turn.append(Kind.SIGNAL_FILLED, topic=MINE, data={}, signal={"id": "sig_1"})
    write(MINE)
    assert whole(Query(signal="sig_1"), fixed(WHOLE_LOG)) == [1]
    assert whole(Query(signal="sig_1"), fixed([Span(MINE)])) == [1]
    assert whole(Query(signal="sig_1"), fixed([Span(OTHERS)])) == []
    assert whole(Query(signal="sig_2"), fixed(WHOLE_LOG)) == []


def test_a_page_costs_two_statements_and_what_its_view_asks(django_assert_num_queries):
    write(*[MINE, CARD, EVERYONE] * 10)
    spans = [Span(MINE), Span(EVERYONE), *(Span(CARD, n, n + 2) for n in range(1, 29, 2))]
    with django_assert_num_queries(2):
        page(fixed(spans), limit=5)


@pytest.mark.parametrize("descending", [False, True])
def test_many_spans_are_read_in_pages_that_lose_nothing(descending: bool):
    """As many cards one after the other, whose ids follow no order, beside what has no end."""
    count = 2 * SPANS_A_PAGE + 3
    cards = [f"card_{(number * 37) % count:03}" for number in range(count)]
    for card in cards:
        write(card, MINE, card, OTHERS)
    spans = [Span(card, 4 * n, 4 * n + 3) for n, card in enumerate(cards)]
    expected = [n for n in range(1, 4 * count + 1) if n % 4 in (1, 2)]
    view = fixed([Span(MINE), Span(EVERYONE), *spans, Span(cards[-1], 4 * count)])
    seen = whole(Query(descending=descending), view)
    assert seen == (expected[::-1] if descending else expected)


@pytest.mark.parametrize("descending", [False, True])
def test_a_page_reads_as_many_spans_as_it_may_and_says_where_it_ended(descending: bool):
    write(*[CARD] * (SPANS_A_PAGE + 2))
    spans = [Span(CARD, n, n + 2) for n in range(SPANS_A_PAGE + 2)]
    endless = [Span(MINE), Span(EVERYONE)]
    for more, one in ((False, spans[:SPANS_A_PAGE]), (True, spans[: SPANS_A_PAGE + 1])):
        found = page(fixed([*endless, *one]), descending=descending)
        assert found.more is more
    last = 2 if descending else SPANS_A_PAGE
    assert (found.examined, found.events[-1].position) == (last, last)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    topics=st.lists(
        st.sampled_from([MINE, OTHERS, CARD, EVERYONE, PLATFORM]), min_size=1, max_size=12
    ),
    bounds=st.lists(st.integers(1, 13), unique=True, max_size=6),
    limit=st.integers(1, 5),
    descending=st.booleans(),
)
def test_whatever_the_page_size_a_reader_sees_each_event_of_the_view_once(
    topics: list[str | None], bounds: list[int], limit: int, descending: bool
):
    with log.turn() as turn:
        for topic in topics:
            turn.append(Kind.DESK_CREATED, topic=topic, data={})
        start = turn.position - len(topics)
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
    view = fixed([Span(MINE), Span(EVERYONE), *spans])
    query = Query(after=None if descending else start, limit=limit, descending=descending)
    seen = [position for position in whole(query, view) if position > start]
    assert seen == (expected[::-1] if descending else expected)
