"""GET /api/v1/events: the feed, for platform tokens and desk tokens."""

from base64 import urlsafe_b64decode as b64decode
from base64 import urlsafe_b64encode as b64encode
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest
from django.db.models import F
from django.test import Client

from desks import actions
from desks.models import Desk
from events import feed
from events.actors import SYSTEM
from events.columns import new_epoch
from events.http.cursors import log_cursor, place_of
from events.models import Event, Head
from events.times import to_rfc3339
from tests.factories import (
    a_bot,
    a_card,
    a_connected_desk,
    a_desk_token,
    a_platform_token,
    a_ready_desk,
)

pytestmark = pytest.mark.django_db

EVENTS = "/api/v1/events"


@pytest.fixture
def engine(db: None) -> Client:
    """A client with a platform token of both scopes."""
    return Client(headers={"Authorization": f"Bearer {a_platform_token()}"})


def desk_client(desk: Desk) -> Client:
    """A client with a token of this desk."""
    return Client(headers={"Authorization": f"Bearer {a_desk_token(desk)}"})


def push(engine: Client, **fields: Any) -> dict[str, Any]:
    body = {"pair": "BTC/USDT", "direction": "long", "elected": True, "source": "floor"}
    response = engine.post("/api/hooks/signal", body | fields, content_type="application/json")
    return response.json()


def kinds(response: Any) -> list[str]:
    return [event["kind"] for event in response.json()["events"]]


def positions(response: Any) -> list[int]:
    return [event["position"] for event in response.json()["events"]]


def code(response: Any) -> tuple[int, str]:
    return response.status_code, response.json()["code"]


class TestVisibleEvents:
    def test_a_fan_out_is_seen_only_by_desks_with_a_standing_election(self, engine, card):
        enrolled, withdrawn = a_ready_desk(card), a_ready_desk(card)
        actions.withdraw(desk=withdrawn, actor=SYSTEM)
        push(engine, nonce="1", fanout=True)
        late = a_ready_desk(card)
        actions.withdraw(desk=enrolled, actor=SYSTEM)
        push(engine, nonce="2", fanout=True)
        assert kinds(desk_client(enrolled).get(EVENTS)).count("signal.filled") == 1
        assert kinds(desk_client(withdrawn).get(EVENTS)).count("signal.filled") == 0
        assert kinds(desk_client(late).get(EVENTS)).count("signal.filled") == 1

    def test_a_desk_sees_no_fill_after_its_card_was_retired(self, engine, desk):
        push(engine, nonce="1", fanout=True)
        a_card(name="Evening")
        push(engine, nonce="2", fanout=True)
        assert kinds(desk_client(desk).get(EVENTS)).count("signal.filled") == 1


class TestFilters:
    def test_user_id_returns_what_that_desk_sees_including_fan_outs(self, engine, desk, stranger):
        push(engine, nonce="1", fanout=True)
        push(engine, nonce="2", userId=stranger.public_id)
        response = engine.get(f"{EVENTS}?userId={desk.public_id}")
        assert kinds(response).count("signal.filled") == 1
        assert {e["userId"] for e in response.json()["events"]} == {desk.public_id, None}

    def test_the_signal_filter_returns_its_one_event(self, engine, desk, stranger):
        response = push(engine, nonce="1", userId=desk.public_id)
        matches = engine.get(response["events"]).json()["events"]
        assert [event["signal"]["id"] for event in matches] == [response["signal"]["id"]]
        assert kinds(desk_client(stranger).get(response["events"])) == []

    def test_unknown_parameters_and_values_are_refused_by_name(self, engine):
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
            "limit=ten": "limit",
            "limit=": "limit",
            "limit=1&limit=2": "limit",
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
        }.items():
            response = engine.get(f"{EVENTS}?{query}")
            assert code(response) == (422, "invalid"), query
            assert [e["field"] for e in response.json()["errors"]] == [field], query


class TestCursors:
    @pytest.mark.parametrize("limit", [1, 2, 5, 1000])
    def test_a_reader_of_pages_sees_each_event_once(self, engine, desk, stranger, limit: int):
        seen, after, more = [], "", True
        while more:
            response = engine.get(f"{EVENTS}?limit={limit}{after}")
            seen += positions(response)
            after, more = f"&after={response.json()['next']}", response.json()["more"]
        assert seen == list(range(1, Head.objects.get().position + 1))

    def test_the_cursor_of_a_desk_without_new_events_advances(self, engine, desk, stranger):
        client = desk_client(desk)
        before = client.get(EVENTS).json()["next"]
        push(engine, nonce="1", userId=stranger.public_id)
        after = client.get(f"{EVENTS}?after={before}").json()
        assert (after["events"], after["next"] == before) == ([], False)

    def test_newest_first_reads_back_to_the_first_event(self, engine, desk):
        seen, after = [], ""
        while True:
            response = engine.get(f"{EVENTS}?order=desc&limit=2{after}")
            if not positions(response):
                break
            seen += positions(response)
            after = f"&after={response.json()['next']}"
        assert seen == list(range(Head.objects.get().position, 0, -1))

    def test_a_cursor_beyond_the_head_is_lost(self, engine, desk):
        tail = engine.get(f"{EVENTS}?order=desc&limit=1").json()["next"]
        Event.objects.filter(position=Head.objects.get().position).delete()
        Head.objects.update(position=Head.objects.get().position - 1)
        assert code(engine.get(f"{EVENTS}?after={tail}")) == (422, "cursor_lost")

    def test_a_cursor_of_another_epoch_is_lost(self, engine, desk):
        tail = engine.get(f"{EVENTS}?order=desc&limit=1").json()["next"]
        Head.objects.update(epoch=new_epoch())
        assert code(engine.get(f"{EVENTS}?after={tail}")) == (422, "cursor_lost")

    def test_a_cursor_whose_event_is_lost_is_lost_although_the_log_has_grown(
        self, engine, desk, stranger
    ):
        """Also if its reader does not see that event."""
        push(engine, nonce="lost", userId=stranger.public_id)
        owner, desks = desk_client(desk), "/api/v1/desks"
        unseen = owner.get(EVENTS).json()["next"]
        cursors = [
            engine.get(EVENTS).json()["next"],
            engine.get(f"{EVENTS}?order=desc&limit=1").json()["next"],
            engine.get(f"{desks}?limit=1").json()["asOf"],
            unseen,
            owner.get(f"{EVENTS}?after={unseen}").json()["next"],
        ]
        for cursor in cursors:
            assert positions(engine.get(f"{EVENTS}?after={cursor}")) == []
        # Another event is at its position, as in a history that went on without it.
        last = Event.objects.filter(position=Head.objects.get().position)
        last.update(at=F("at") + timedelta(milliseconds=1))
        push(engine, nonce="after", userId=stranger.public_id)
        for cursor in cursors:
            stream = {"Accept": "text/event-stream", "Last-Event-ID": cursor}
            for reader in (engine, owner):
                assert code(reader.get(f"{EVENTS}?after={cursor}")) == (422, "cursor_lost")
                assert code(reader.get(EVENTS, headers=stream)) == (422, "cursor_lost")
            assert code(engine.get(f"{desks}?changedSince={cursor}")) == (422, "cursor_lost")

    def test_the_cursor_of_any_page_has_the_digest_of_its_event(self, engine, desk, bot):
        """Whether or not the event at its position is on the page, or the last of the log."""
        readers = (engine, desk_client(desk))
        head, until = Head.objects.get(), Event.objects.get(position=3).at
        pages = [
            *("", "limit=2", "kind=desk.created", "order=desc&limit=2", "order=desc"),
            *(f"botId={bot.id}", f"until={quote(to_rfc3339(until))}"),
        ]
        examined = set()
        for reader in readers:
            for query in pages:
                page = reader.get(f"{EVENTS}?{query}").json()
                epoch, position = place_of(page["next"])
                identity = feed.read_identity(position)
                assert page["next"] == log_cursor(epoch, position, identity), query
                examined.add(position)
        assert {1, 2, head.position} < examined

    def test_a_cursor_of_the_empty_log_resumes(self, desk):
        """No event is at position 0."""
        engine = Client(headers={"Authorization": f"Bearer {a_platform_token()}"})
        at_0 = log_cursor(Head.objects.get().epoch, 0, feed.read_identity(0))
        assert positions(engine.get(f"{EVENTS}?after={at_0}"))[0] == 1

    @pytest.mark.parametrize("order", ["asc", "desc"])
    def test_a_cursor_without_a_digest_resumes(self, order, engine, desk):
        """The release before wrote it."""
        head = Head.objects.get()
        for position in range(head.position + 1):
            after = f"after={log_cursor(head.epoch, position)}&limit=1000&order={order}"
            behind = range(position + 1, head.position + 1)
            before = range(position - 1, 0, -1)
            shown = positions(engine.get(f"{EVENTS}?{after}"))
            assert shown == list(behind if order == "asc" else before)

    def test_a_cursor_whose_digest_was_changed_is_lost(self, engine, desk):
        tail = engine.get(EVENTS).json()["next"]
        text = b64decode(tail + "=" * (-len(tail) % 4)).decode()
        for wrong, refused in (
            (text[:-1] + "01"[text[-1] == "0"], "cursor_lost"),
            (text[:-1], "invalid"),
            (text[:-1] + "z", "invalid"),
        ):
            cursor = b64encode(wrong.encode()).decode().rstrip("=")
            assert code(engine.get(f"{EVENTS}?after={cursor}")) == (422, refused)

    def test_a_desk_that_enrolled_and_withdrew_many_times_misses_no_fill(self, engine, card):
        desk = a_connected_desk()
        for number in range(45):
            actions.enrol(desk=desk, card_id=card.pk, actor=SYSTEM)
            push(engine, nonce=str(number), fanout=True)
            actions.withdraw(desk=desk, actor=SYSTEM)
            push(engine, nonce=f"{number}-without", fanout=True)
        for order in ("asc", "desc"):
            client, fills, after, more = desk_client(desk), 0, "", True
            while more:
                response = client.get(f"{EVENTS}?order={order}&kind=signal.filled{after}")
                fills += len(positions(response))
                after, more = f"&after={response.json()['next']}", response.json()["more"]
            assert fills == 45


class TestPermissions:
    def test_a_bots_owner_sees_the_events_of_its_secret(self, engine, desk):
        a_bot(desk)
        assert "secret.generated" in kinds(desk_client(desk).get(EVENTS))


def test_a_page_takes_the_same_number_of_statements_for_any_size(
    engine, desk, django_assert_num_queries
):
    engine.get(EVENTS)
    with django_assert_num_queries(3):
        engine.get(EVENTS)
    client = desk_client(desk)
    client.get(EVENTS)
    with django_assert_num_queries(4):
        client.get(f"{EVENTS}?limit=1")
