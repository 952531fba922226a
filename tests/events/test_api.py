"""GET /api/v1/events: the feed, as engines and desks follow it."""

from typing import Any

import pytest
from django.test import Client

from desks import actions
from desks.models import Desk
from events.models import Event, Head, new_epoch
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


def of(desk: Desk) -> Client:
    """A client with this desk's own token."""
    return Client(headers={"Authorization": f"Bearer {a_desk_token(desk)}"})


def push(engine: Client, **fields: Any) -> dict[str, Any]:
    body = {"pair": "BTC/USDT", "direction": "long", "elected": True, "source": "floor"}
    answer = engine.post("/api/hooks/signal", body | fields, content_type="application/json")
    return answer.json()


def kinds(answer: Any) -> list[str]:
    return [event["kind"] for event in answer.json()["events"]]


def positions(answer: Any) -> list[int]:
    return [event["position"] for event in answer.json()["events"]]


def code(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


class TestWhatAReaderSees:
    def test_the_platform_sees_the_whole_log(self, engine, desk):
        assert positions(engine.get(EVENTS)) == list(range(1, Head.objects.get().position + 1))

    def test_an_event_has_the_contracts_fields(self, engine, desk):
        event = engine.get(f"{EVENTS}?kind=desk.connected").json()["events"][0]
        assert set(event) == {"id", "position", "kind", "at", "userId", "signal", "data"}
        assert event["id"] == f"evt_{event['position']}"
        assert (event["userId"], event["signal"]) == (desk.public_id, None)
        assert event["at"].endswith("Z")
        assert len(event["at"]) == len("2026-11-20T09:30:00.000Z")

    def test_a_desk_sees_its_own_events_and_everyones(self, desk, stranger):
        answer = of(desk).get(EVENTS).json()["events"]
        assert {event["userId"] for event in answer} == {desk.public_id, None}
        assert [e["kind"] for e in answer if e["userId"] is None] == ["card.published"]

    def test_a_desk_never_sees_what_is_the_platforms_only(self, engine, desk):
        a_platform_token()
        push(engine, source="nox", mode="draft", fanout=False, action_id="act_1", trace_id="trc_1")
        push(engine, nonce="1", elected=False, fanout=True)
        seen = kinds(of(desk).get(EVENTS))
        assert not {"signal.recorded", "signal.refused"} & set(seen)
        assert seen.count("token.minted") == 1

    def test_a_fan_out_is_seen_by_who_stood_and_by_nobody_else(self, engine, card):
        stood, left = a_ready_desk(card), a_ready_desk(card)
        actions.withdraw_from_card(desk=left)
        push(engine, nonce="1", fanout=True)
        late = a_ready_desk(card)
        actions.withdraw_from_card(desk=stood)
        push(engine, nonce="2", fanout=True)
        assert kinds(of(stood).get(EVENTS)).count("signal.filled") == 1
        assert kinds(of(left).get(EVENTS)).count("signal.filled") == 0
        assert kinds(of(late).get(EVENTS)).count("signal.filled") == 1

    def test_a_desk_whose_card_was_retired_sees_no_fill_after_it(self, engine, desk):
        push(engine, nonce="1", fanout=True)
        a_card(name="Evening")
        push(engine, nonce="2", fanout=True)
        assert kinds(of(desk).get(EVENTS)).count("signal.filled") == 1

    def test_a_desk_is_not_shown_what_only_the_sender_knows(self, engine, desk):
        push(engine, nonce="1", fanout=True)
        own = of(desk).get(f"{EVENTS}?kind=signal.filled").json()["events"][0]
        whole = engine.get(f"{EVENTS}?kind=signal.filled").json()["events"][0]
        assert set(whole["signal"]) - set(own["signal"]) == {"nonce", "traceId", "decisionRef"}
        assert (own["data"], whole["data"]["matched"], whole["data"]["filled"]) == ({}, 1, 1)
        assert whole["data"]["credential"].startswith("tok_")
        assert own["userId"] is None


class TestFilters:
    def test_user_id_is_that_desks_view_with_its_fan_outs(self, engine, desk, stranger):
        push(engine, nonce="1", fanout=True)
        push(engine, nonce="2", userId=stranger.public_id)
        answer = engine.get(f"{EVENTS}?userId={desk.public_id}")
        assert kinds(answer).count("signal.filled") == 1
        assert {e["userId"] for e in answer.json()["events"]} == {desk.public_id, None}

    def test_a_desk_may_name_itself_and_sees_nothing_of_another(self, desk, stranger):
        client = of(desk)
        whole = client.get(EVENTS).json()["events"]
        assert client.get(f"{EVENTS}?userId={desk.public_id}").json()["events"] == whole
        assert kinds(client.get(f"{EVENTS}?userId={stranger.public_id}")) == []

    def test_unknown_ids_give_an_empty_list(self, engine, desk):
        for query in ("userId=usr_x", "signal=sig_x"):
            answer = engine.get(f"{EVENTS}?{query}").json()
            assert (answer["events"], answer["more"]) == ([], False)

    def test_a_signal_chooses_its_one_event(self, engine, desk, stranger):
        answer = push(engine, nonce="1", userId=desk.public_id)
        found = engine.get(answer["events"]).json()["events"]
        assert [event["signal"]["id"] for event in found] == [answer["signal"]["id"]]
        assert kinds(of(stranger).get(answer["events"])) == []

    def test_several_kinds_may_be_asked_for(self, engine, desk):
        answer = engine.get(f"{EVENTS}?kind=desk.created&kind=card.published&kind=desk.created")
        assert kinds(answer) == ["card.published", "desk.created"]

    def test_what_is_unknown_is_refused_by_name(self, engine):
        for query, field in {
            "foo=1": "foo",
            "kind=nonsense": "kind.0",
            "kind=": "kind.0",
            "order=up": "order",
            "limit=0": "limit",
            "limit=1&limit=2": "limit",
            "wait=26": "wait",
            "wait=-1": "wait",
            "wait=1&order=desc": "wait",
            "after=nonsense": "after",
            "after=": "after",
            "userId=": "userId",
        }.items():
            answer = engine.get(f"{EVENTS}?{query}")
            assert code(answer) == (422, "invalid"), query
            assert [e["field"] for e in answer.json()["errors"]] == [field], query


class TestCursors:
    @pytest.mark.parametrize("limit", [1, 2, 5, 1000])
    def test_a_reader_of_pages_sees_each_event_once(self, engine, desk, stranger, limit: int):
        seen, after, more = [], "", True
        while more:
            answer = engine.get(f"{EVENTS}?limit={limit}{after}")
            seen += positions(answer)
            after, more = f"&after={answer.json()['next']}", answer.json()["more"]
        assert seen == list(range(1, Head.objects.get().position + 1))

    def test_an_empty_page_gives_a_cursor_that_goes_on(self, engine, desk):
        tail = engine.get(f"{EVENTS}?order=desc&limit=1").json()["next"]
        empty = engine.get(f"{EVENTS}?after={tail}").json()
        assert (empty["events"], empty["more"]) == ([], False)
        actions.withdraw_from_card(desk=desk)
        assert kinds(engine.get(f"{EVENTS}?after={empty['next']}")) == ["election.withdrawn"]

    def test_a_quiet_desks_cursor_moves_with_the_log(self, engine, desk, stranger):
        client = of(desk)
        before = client.get(EVENTS).json()["next"]
        push(engine, nonce="1", userId=stranger.public_id)
        after = client.get(f"{EVENTS}?after={before}").json()
        assert (after["events"], after["next"] == before) == ([], False)

    def test_newest_first_goes_back_to_the_first(self, engine, desk):
        seen, after = [], ""
        while True:
            answer = engine.get(f"{EVENTS}?order=desc&limit=2{after}")
            if not positions(answer):
                break
            seen += positions(answer)
            after = f"&after={answer.json()['next']}"
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

    def test_a_desk_that_enrolled_and_withdrew_many_times_loses_nothing(self, engine, card):
        desk = a_connected_desk()
        for number in range(45):
            actions.enrol(desk=desk, card_id=card.pk)
            push(engine, nonce=str(number), fanout=True)
            actions.withdraw_from_card(desk=desk)
            push(engine, nonce=f"{number}-without", fanout=True)
        for order in ("asc", "desc"):
            client, fills, after, more = of(desk), 0, "", True
            while more:
                answer = client.get(f"{EVENTS}?order={order}&kind=signal.filled{after}")
                fills += len(positions(answer))
                after, more = f"&after={answer.json()['next']}", answer.json()["more"]
            assert fills == 45


class TestWhoMayRead:
    def test_nobody_without_a_token(self, client, card):
        assert code(client.get(EVENTS)) == (401, "credentials_missing")

    def test_no_token_without_the_scope_read(self, client, card):
        header = {"Authorization": f"Bearer {a_platform_token('write')}"}
        assert code(client.get(EVENTS, headers=header)) == (403, "scope_missing")

    def test_a_bots_owner_sees_its_signals_whole(self, engine, desk):
        a_bot(desk)
        assert "secret.generated" in kinds(of(desk).get(EVENTS))


def test_a_page_costs_the_same_statements_for_few_and_many(engine, desk, django_assert_num_queries):
    engine.get(EVENTS)
    with django_assert_num_queries(3):
        engine.get(EVENTS)
    client = of(desk)
    client.get(EVENTS)
    with django_assert_num_queries(4):
        client.get(f"{EVENTS}?limit=1")
