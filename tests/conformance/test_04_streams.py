"""Section 4, GET /api/v1/events: the feed as a stream of server-sent events."""

import json
from typing import Any

import httpx2
import pytest

from tests.conformance.client import (
    EVENTS,
    OF_ANOTHER_LOG,
    PROBLEM,
    SOMEBODY,
    TOKENS,
    Service,
    assert_refused,
    bearer,
    faults,
)
from tests.conformance.streams import EVENT, LIVE_URL, MEDIA_TYPE, Frame, streaming


def listed(service: Service, token: str, **query: Any) -> list[str]:
    """The events of the list, each exactly as it is written there."""
    texts: list[str] = []
    while True:
        answer = service.get(EVENTS, token, **query)
        texts += EVENT.findall(answer.text)
        query["after"] = answer.json()["next"]
        if not answer.json()["more"]:
            return texts


def data(frames: list[Frame]) -> list[str]:
    return [frame.data for frame in frames]


def ask(service: Service, token: str | None, **headers: str) -> httpx2.Response:
    """The answer to a request for a stream, which is expected to be refused."""
    sent = {"Accept": MEDIA_TYPE, **(bearer(token) if token else {}), **headers}
    return service.http.get(f"{LIVE_URL or service.base_url}{EVENTS}", headers=sent)


def push(service: Service, **changes: Any) -> None:
    assert service.push(service.fanout(**changes), service.platform).status_code == 200


def test_each_event_is_as_in_the_list_with_its_cursor_and_its_kind(service):
    """Section 4: data is the event, byte for byte; id is a cursor, event the kind."""
    start = service.tail()
    with streaming(service, service.platform) as stream:
        for _ in range(3):
            push(service)
        events = stream.events(3)
    assert data(events) == listed(service, service.platform, after=start)
    for number, frame in enumerate(events, 1):
        assert frame.event == json.loads(frame.data)["kind"]
        rest = listed(service, service.platform, after=frame.id)
        assert data(events[number:]) == rest


def test_a_desk_sees_no_event_of_a_card_from_while_it_was_not_enrolled(service, user):
    """Section 4: neither from before its election nor after its end."""
    token, start = user.mint_desk_token(), service.tail()
    with streaming(service, token) as now:
        push(service)
        user.post("/desk/withdraw", {}, seen_at="/desk")
        try:
            push(service)
        finally:
            user.enrol()
        push(service)
        live = now.events(4)
    with streaming(service, token, after=start) as later:
        read = later.events(4)
    expected = ["signal.filled", "election.withdrawn", "election.made", "signal.filled"]
    assert [frame.event for frame in live] == expected
    assert data(live) == data(read) == listed(service, token, after=start)


def test_the_first_frame_says_where_the_reader_is_and_when_to_come_back(service):
    """Section 4: the first frame has retry and an id."""
    start = service.tail()
    with streaming(service, service.platform) as now:
        assert (now.first.id, now.first.data) == (start, "")
        assert 2000 <= int(now.first.retry) <= 6000
    first = service.get(EVENTS, service.platform, limit=1).json()["next"]
    with streaming(service, service.platform, after=first) as earlier:
        assert earlier.first.id == first


def test_streams_that_follow_each_other_show_each_event_once(service):
    """Section 4: across streams that each begin with the last id of the one before."""
    start = last = service.tail()
    seen: list[str] = []
    for number in (1, 3, 2):
        for _ in range(2):
            push(service)
        header = {"Last-Event-ID": last}
        with streaming(service, service.desk_token, header, after=start) as stream:
            events = stream.events(number)
        seen += data(events)
        last = events[-1].id
    assert seen == listed(service, service.desk_token, after=start)


def test_a_list_goes_on_where_a_stream_was_and_the_other_way_round(service):
    """Section 4: an id is a cursor of the feed."""
    start = service.tail()
    push(service)
    push(service)
    with streaming(service, service.platform, {"Last-Event-ID": start}) as stream:
        first = stream.events(1)[0]
    page = service.get(EVENTS, service.platform, after=first.id).json()
    push(service)
    with streaming(service, service.platform, after=page["next"]) as stream:
        last = stream.events(1)
    whole = listed(service, service.platform, after=start)
    assert [first.data, *data(last)] == [whole[0], whole[-1]]


@pytest.mark.parametrize(
    "query", [{"kind": "signal.filled"}, {"userId": "desk"}, {"botId": "bot"}, {"signal": "first"}]
)
def test_it_filters_as_the_list_does(service, query):
    """Section 4: kind, userId, botId and signal, before the stream and in it."""
    start = service.tail()
    sent = service.push(service.fanout(), service.platform).json()["signal"]["id"]
    value = {"desk": service.desk, "bot": service.bot["botId"], "first": sent}
    query = {name: value.get(text, text) for name, text in query.items()}
    service.push(service.tradingview(), secret=service.bot["secret"])
    with streaming(service, service.platform, after=start, **query) as stream:
        service.push(service.fanout(elected=False), service.platform)
        service.push(service.tradingview(), secret=service.bot["secret"])
        push(service)
        expected = listed(service, service.platform, after=start, **query)
        assert data(stream.events(len(expected))) == expected
    assert expected


def test_a_heartbeat_says_how_far_the_log_was_examined(service):
    """Section 4: every 15 s, with an id alone. The first may come before the signal."""
    with streaming(service, service.platform, userId=SOMEBODY) as stream:
        push(service)
        beats = [next(stream.frames)]
        if service.get(EVENTS, service.platform, after=beats[0].id).json()["events"]:
            beats.append(next(stream.frames))
    assert {(beat.event, beat.data) for beat in beats} == {("", "")}
    assert service.get(EVENTS, service.platform, after=beats[-1].id).json()["events"] == []


def test_it_ends_with_its_token_and_says_so(service, admin):
    """Section 4: event: end with the reason, and none of what happened since."""
    with admin.platform_token("read") as token:
        with streaming(service, token["token"]) as stream:
            assert service.send("DELETE", TOKENS, token=token["token"]).status_code == 200
            push(service)
            frames = [frame for frame in stream.frames if frame.data]
        assert frames == [Frame(event="end", data='{"reason":"token_ended"}')]
        assert_refused(ask(service, token["token"]), 401, "token_invalid")


def test_it_is_refused_before_it_begins(service):
    """Sections 4 and 5: a refusal of a stream is the problem that the list answers."""
    assert_refused(ask(service, None), 401, "credentials_missing")
    lost = ask(service, service.platform, **{"Last-Event-ID": OF_ANOTHER_LOG})
    assert_refused(lost, 422, "cursor_lost")
    unknown = ask(service, service.platform, **{"Last-Event-ID": "x"})
    assert_refused(unknown, 422, "invalid")
    assert faults(unknown) == {"Last-Event-ID"}
    assert unknown.headers["Content-Type"] == PROBLEM


@pytest.mark.once
@pytest.mark.parametrize("query", ["wait=1", "x=1"])
def test_a_parameter_that_it_does_not_take_is_refused(service, query):
    """Section 4: the query parameters of a stream."""
    headers = {**bearer(service.platform), "Accept": MEDIA_TYPE}
    answer = service.http.get(f"{LIVE_URL or service.base_url}{EVENTS}?{query}", headers=headers)
    assert_refused(answer, 422, "invalid")
    assert faults(answer) == {query.partition("=")[0]}


@pytest.mark.once
def test_json_goes_to_who_gives_it_more_weight(service):
    """Section 4: named with at least the weight of JSON."""
    for accept in ("application/json", "*/*", f"{MEDIA_TYPE};q=0.5, application/json"):
        answer = service.get(EVENTS, service.platform, headers={"Accept": accept}, limit=1)
        assert answer.json()["events"]


@pytest.mark.once
def test_a_token_has_a_limited_number_of_streams(limited_service):
    """Section 7: LIMIT_STREAMS, then 429 until one is closed."""
    service = limited_service
    with streaming(service, service.reader):
        answer = ask(service, service.reader)
        assert_refused(answer, 429, "rate_limited")
        assert int(answer.headers["Retry-After"]) > 0
        with streaming(service, service.platform):
            pass
