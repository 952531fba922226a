"""GET /api/v1/events: the feed, for platform tokens and desk tokens."""

from base64 import urlsafe_b64decode as b64decode
from base64 import urlsafe_b64encode as b64encode
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest
from django.db.models import F

from desks import actions
from desks.models import Desk
from events import feed
from events.actors import SYSTEM
from events.http.cursors import log_cursor, place_of
from events.models import Event, Head
from events.times import to_rfc3339
from tests.client import DESKS, EVENTS, get, push
from tests.factories import a_connected_desk, a_desk_token, a_ready_desk
from tests.signals.bodies import fanout, floor

pytestmark = pytest.mark.django_db


def positions(response: Any) -> list[int]:
    return [event["position"] for event in response.json()["events"]]


def code(response: Any) -> tuple[int, str]:
    return response.status_code, response.json()["code"]


def test_a_fan_out_is_seen_only_by_desks_with_a_standing_election(engine, card):
    def fills(desk: Desk) -> int:
        return len(positions(get(f"{EVENTS}?kind=signal.filled", a_desk_token(desk))))

    enrolled, withdrawn = a_ready_desk(card), a_ready_desk(card)
    actions.withdraw(desk=withdrawn, actor=SYSTEM)
    push(fanout(), engine)
    late = a_ready_desk(card)
    actions.withdraw(desk=enrolled, actor=SYSTEM)
    push(fanout(), engine)
    assert [fills(desk) for desk in (enrolled, withdrawn, late)] == [1, 0, 1]


def test_unknown_parameters_and_values_are_refused_by_name(engine):
    for query, field in {
        "foo=1": "foo",
        "kind=nonsense": "kind",
        "kind=": "kind",
        "kind=signal.filled&kind=x": "kind",
        "ready=1": "ready",
        "signal=": "signal",
        "order=up": "order",
        "order=": "order",
        "order=asc&order=desc": "order",
        "limit=0": "limit",
        "limit=1001": "limit",
        "wait=26": "wait",
        "wait=-1": "wait",
        "wait=1.5": "wait",
        "wait=": "wait",
        "wait=1&order=desc": "wait",
        "after=nonsense": "after",
        "after=": "after",
        "after=%00": "after",
        "after=" + "A" * 200: "after",
        "userId=": "userId",
        "userId=x&userId=x": "userId",
        "botId=%00": "botId",
        "since=": "since",
        "since=2026-01-01T00:00:00": "since",
        "since=2026-01-01T00:00:00+01:00": "since",  # a plus in a query is a space
        "until=9999-12-31T23:59:59-01:00": "until",
        "since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z": "until",
    }.items():
        response = get(f"{EVENTS}?{query}", engine)
        assert code(response) == (422, "invalid"), query
        assert [e["field"] for e in response.json()["errors"]] == [field], query


class TestCursors:
    def test_a_cursor_whose_event_is_lost_is_lost_although_the_log_has_grown(
        self, engine, desk, stranger
    ):
        """Also if its reader does not see that event."""
        push(floor(stranger), engine)
        owner = a_desk_token(desk)
        unseen = get(EVENTS, owner).json()["next"]
        cursors = [
            get(EVENTS, engine).json()["next"],
            get(f"{EVENTS}?order=desc&limit=1", engine).json()["next"],
            get(f"{DESKS}?limit=1", engine).json()["asOf"],
            unseen,
            get(f"{EVENTS}?after={unseen}", owner).json()["next"],
        ]
        for cursor in cursors:
            assert positions(get(f"{EVENTS}?after={cursor}", engine)) == []
        # Another event is at its position, as in a history that went on without it.
        last = Event.objects.filter(position=Head.objects.get().position)
        last.update(at=F("at") + timedelta(milliseconds=1))
        push(floor(stranger), engine)
        for cursor in cursors:
            stream = {"Accept": "text/event-stream", "Last-Event-ID": cursor}
            for reader in (engine, owner):
                assert code(get(f"{EVENTS}?after={cursor}", reader)) == (422, "cursor_lost")
                assert code(get(EVENTS, reader, **stream)) == (422, "cursor_lost")
            assert code(get(f"{DESKS}?changedSince={cursor}", engine)) == (422, "cursor_lost")

    def test_the_cursor_of_any_page_has_the_digest_of_its_event(self, engine, desk, bot):
        """Whether or not the event at its position is on the page, or the last of the log."""
        readers = (engine, a_desk_token(desk))
        head, until = Head.objects.get(), Event.objects.get(position=3).at
        pages = [
            *("", "limit=2", "kind=desk.created", "order=desc&limit=2", "order=desc"),
            *(f"botId={bot.id}", f"until={quote(to_rfc3339(until))}"),
        ]
        examined = set()
        for reader in readers:
            for query in pages:
                page = get(f"{EVENTS}?{query}", reader).json()
                epoch, position = place_of(page["next"])
                identity = feed.read_identity(position)
                assert page["next"] == log_cursor(epoch, position, identity), query
                examined.add(position)
        assert {1, 2, head.position} < examined

    def test_a_cursor_of_the_empty_log_resumes(self, engine):
        """No event is at position 0."""
        at_0 = log_cursor(Head.objects.get().epoch, 0, feed.read_identity(0))
        assert positions(get(f"{EVENTS}?after={at_0}", engine))[0] == 1

    @pytest.mark.parametrize("order", ["asc", "desc"])
    def test_a_cursor_without_a_digest_resumes(self, order, engine, desk):
        """The release before wrote it."""
        head = Head.objects.get()
        for position in range(head.position + 1):
            after = f"after={log_cursor(head.epoch, position)}&limit=1000&order={order}"
            behind = range(position + 1, head.position + 1)
            before = range(position - 1, 0, -1)
            shown = positions(get(f"{EVENTS}?{after}", engine))
            assert shown == list(behind if order == "asc" else before)

    def test_a_cursor_whose_digest_was_changed_is_lost(self, engine, desk):
        tail = get(EVENTS, engine).json()["next"]
        text = b64decode(tail + "=" * (-len(tail) % 4)).decode()
        for wrong, refused in (
            (text[:-1] + "01"[text[-1] == "0"], "cursor_lost"),
            (text[:-1], "invalid"),
            (text[:-1] + "z", "invalid"),
        ):
            cursor = b64encode(wrong.encode()).decode().rstrip("=")
            assert code(get(f"{EVENTS}?after={cursor}", engine)) == (422, refused)

    def test_a_desk_that_enrolled_and_withdrew_many_times_misses_no_fill(self, engine, card):
        desk = a_connected_desk()
        for _ in range(45):
            actions.enrol(desk=desk, card_id=card.pk, actor=SYSTEM)
            push(fanout(), engine)
            actions.withdraw(desk=desk, actor=SYSTEM)
            push(fanout(), engine)
        for order in ("asc", "desc"):
            token, fills, after, more = a_desk_token(desk), 0, "", True
            while more:
                response = get(f"{EVENTS}?order={order}&kind=signal.filled{after}", token)
                fills += len(positions(response))
                after, more = f"&after={response.json()['next']}", response.json()["more"]
            assert fills == 45


def test_a_page_takes_the_same_number_of_statements_for_any_size(
    engine, desk, django_assert_num_queries
):
    get(EVENTS, engine)
    with django_assert_num_queries(3):
        get(EVENTS, engine)
    token = a_desk_token(desk)
    get(EVENTS, token)
    with django_assert_num_queries(4):
        get(f"{EVENTS}?limit=1", token)
