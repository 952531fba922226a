"""Streams show what the list shows, from where the reader was, and end with the token."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F
from django.utils import timezone

from desks import actions as desks
from desks.models import Card
from events import log
from events.actors import SYSTEM
from events.kinds import Kind
from events.live import hub as hub_module
from events.live import opening
from events.live.frames import EndReason
from events.live.hub import hub
from events.live.streams import MAX_UNSENT
from events.live.waiting_readers import slots
from events.models import Event, Head
from tests import client
from tests.factories import (
    a_card,
    a_connected_desk,
    a_desk_token,
    a_platform_token,
    a_ready_desk,
    an_event_of_a_later_release,
)
from tests.signals import bodies
from tests.stream_oracle import EVENT
from tests.streams import EVENTS, Stream, wait_until
from tokens import actions as tokens
from tokens.models import Token

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def end_streams() -> Iterator[None]:
    """Ends every stream, and waits until the hub closes its connection and all seats are free."""
    yield
    with hub._lock:
        hub._roster.end(hub._roster.everybody(), EndReason.RESTARTING)
    wait_until(lambda: hub._thread is None, "the hub does not rest")
    wait_until(lambda: not slots._taken, "a seat is not free")


def listed(token: str, query: str = "") -> list[str]:
    """The events of the list, each exactly as it is written there."""
    return EVENT.findall(client.get(f"{EVENTS}?limit=1000&{query}", token).content.decode())


def cursor(token: str, query: str = "limit=1") -> str:
    """The cursor behind the first event, or behind what the query asks for."""
    return str(client.get(f"{EVENTS}?{query}", token).json()["next"])


def fan_out(engine: str) -> None:
    assert client.post(client.HOOK, bodies.fanout(), engine).status_code == 200


def texts(stream: Stream) -> list[str]:
    return [frame.data for frame in stream.events]


class TestWhatItShows:
    def test_the_first_frame_says_when_to_come_back_and_where_the_reader_is(self, desk, engine):
        first = cursor(engine)
        stream = Stream(engine, f"after={first}")
        assert 2000 <= int(stream.frames[0].retry) < 6000
        assert stream.frames[0].id == first
        assert Stream(engine).frames[0].id == cursor(engine, "order=desc&limit=1")

    def test_events_of_a_later_release_are_shown_as_any_other(self, desk, engine):
        streams = {token: Stream(token) for token in (engine, a_desk_token(desk))}
        an_event_of_a_later_release(desk)
        fan_out(engine)
        for token, stream in streams.items():
            stream.wait_for(2)
            assert stream.kinds[-2:] == ["desk.renamed", "signal.filled"]
            assert texts(stream)[-2:] == listed(token)[-2:]
        assert '"actor":{"type":"partner","id":"prt_1"}' in texts(streams[engine])[-2]

    def test_its_ids_are_lost_with_their_events(self, desk, engine):
        """The first one, those of events, and those of positions that it does not show."""
        first = cursor(engine)
        stream = Stream(engine, f"after={first}&kind=signal.filled")
        fan_out(engine)
        stream.wait_for(1)
        now = Stream(engine)
        ids = {frame.id for frame in (*stream.frames, *now.frames)}
        assert len(ids) > 1
        Event.objects.update(at=F("at") + timedelta(milliseconds=1))
        for each in ids:
            sent = {"Accept": "text/event-stream", "Last-Event-ID": each}
            assert client.code(client.get(EVENTS, engine, **sent)) == "cursor_lost"

    def test_a_long_way_is_read_in_pages_and_ends_at_the_hub(self, desk, engine, monkeypatch):
        monkeypatch.setattr(opening, "PAGE_SIZE", 2)
        monkeypatch.setattr(hub_module, "KEPT", 1)
        first = cursor(engine)
        stream = Stream(engine, f"after={first}&kind=signal.filled")
        for _ in range(3):
            fan_out(engine)
        stream.wait_for(3)
        assert texts(stream) == listed(engine, "kind=signal.filled")
        assert len({frame.id for frame in stream.frames}) > 4  # also positions without events

    def test_a_reader_whom_the_hub_has_overtaken_reads_on_in_the_log(
        self, desk, engine, monkeypatch
    ):
        monkeypatch.setattr(hub_module, "KEPT", 2)
        first, beside = cursor(engine), Stream(engine)
        for _ in range(4):
            fan_out(engine)
        beside.wait_for(4)
        stream = Stream(engine, f"after={first}")
        stream.wait_for(len(listed(engine)) - 1)
        assert texts(stream) == listed(engine)[1:]

    def test_a_reader_that_missed_more_than_it_may_leave_untaken_gets_it_in_parts(self, engine):
        first, beside = cursor(engine), Stream(engine)  # the hub keeps what follows
        for number in range(1, 7):
            with log.turn(actor=SYSTEM) as turn:
                for _ in range(100):
                    turn.append(Kind.SIGNAL_FILLED, topic=None, data={})
            beside.wait_for(number * 100)
        stream = Stream(engine, f"after={first}")
        stream.wait_for(600)
        assert sum(len(text) for text in texts(stream)) > MAX_UNSENT
        assert texts(stream) == listed(engine)[1:]


class TestConsent:
    """A desk sees a card's events between its election and the election's end, and no others."""

    def test_nothing_from_before_the_election_or_after_its_withdrawal(self, card, desk, engine):
        follower = a_connected_desk()
        token = a_desk_token(follower)
        stream = Stream(token)
        fan_out(engine)
        desks.enrol(desk=follower, card_id=card.pk, actor=SYSTEM)
        fan_out(engine)
        desks.withdraw(desk=follower, actor=SYSTEM)
        fan_out(engine)
        desks.enrol(desk=follower, card_id=card.pk, actor=SYSTEM)
        fan_out(engine)
        desks.disconnect(desk=follower, actor=SYSTEM)
        fan_out(engine)
        end = a_card("Last")
        stream.wait_for(9)
        seen = ["election.made", "signal.filled", "election.withdrawn"]
        assert stream.kinds == [*seen, *seen, "desk.disconnected", "card.retired", "card.published"]
        assert texts(stream) == listed(token)[-9:]
        assert end.name in stream.events[-1].data

    def test_a_card_that_is_replaced_is_no_longer_seen(self, card, desk, engine):
        token = a_desk_token(desk)
        stream, platform = Stream(token), Stream(engine)
        a_card("Next")
        with log.turn(actor=SYSTEM) as turn:  # a signal never names a retired card
            turn.append(Kind.SIGNAL_FILLED, topic=card.pk, data={})
        a_ready_desk(Card.objects.published().get())
        fan_out(engine)
        platform.wait_for(7)
        desks.disconnect(desk=desk, actor=SYSTEM)
        stream.wait_for(3)
        assert stream.kinds == ["card.retired", "card.published", "desk.disconnected"]

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            pytest.param("PART", hub_module.PART, id="from the hub"),
            pytest.param("PART", 1, id="from the hub, in parts"),
            pytest.param("KEPT", 1, id="from the log"),
        ],
    )
    def test_a_reader_that_joins_with_an_old_cursor_sees_what_it_saw_then(
        self, card, engine, monkeypatch, name, value
    ):
        monkeypatch.setattr(hub_module, name, value)
        follower = a_ready_desk(card)
        token = a_desk_token(follower)
        start = cursor(token, "order=desc&limit=1")
        beside = Stream(engine)  # the hub keeps what follows
        fan_out(engine)
        desks.withdraw(desk=follower, actor=SYSTEM)
        fan_out(engine)
        desks.enrol(desk=follower, card_id=card.pk, actor=SYSTEM)
        fan_out(engine)
        beside.wait_for(5)
        stream = Stream(token, f"after={start}")
        stream.wait_for(4)
        fan_out(engine)
        stream.wait_for(5)
        assert texts(stream) == listed(token, f"after={start}")
        assert stream.kinds.count("signal.filled") == 3

    def test_a_cursor_from_before_the_election_shows_no_fills_of_that_time(self, card, engine):
        follower = a_connected_desk()
        token = a_desk_token(follower)
        start = cursor(token, "order=desc&limit=1")
        beside = Stream(engine)  # the hub keeps what follows
        fan_out(engine)
        desks.enrol(desk=follower, card_id=card.pk, actor=SYSTEM)
        fan_out(engine)
        beside.wait_for(3)
        stream = Stream(token, f"after={start}")
        stream.wait_for(2)
        desks.disconnect(desk=follower, actor=SYSTEM)
        stream.wait_for(4)
        seen = ["election.made", "signal.filled", "election.withdrawn", "desk.disconnected"]
        assert stream.kinds == seen

    def test_another_desks_events_are_not_seen(self, card, desk, stranger, engine):
        stream, platform = Stream(a_desk_token(desk)), Stream(engine)
        client.post(client.deploy_path(stranger.public_id), bodies.deploy(), engine)
        desks.disconnect(desk=stranger, actor=SYSTEM)
        platform.wait_for(3)
        desks.disconnect(desk=desk, actor=SYSTEM)
        stream.wait_for(2)
        assert stream.kinds == ["election.withdrawn", "desk.disconnected"]

    def test_a_desk_token_that_asks_for_another_desk_sees_nothing(self, desk, stranger, engine):
        stream = Stream(a_desk_token(desk), f"userId={stranger.public_id}")
        platform = Stream(engine)
        desks.disconnect(desk=stranger, actor=SYSTEM)
        desks.disconnect(desk=desk, actor=SYSTEM)
        platform.wait_for(4)
        assert stream.events == []


class TestEnd:
    """A stream ends with its token, says why, and shows nothing from behind that end."""

    REASON = '{"reason":"token_ended"}'

    def test_a_token_that_is_revoked(self, desk, engine):
        token = a_desk_token(desk)
        stream = Stream(token)
        tokens.revoke(token=Token.objects.get(desk=desk), actor=SYSTEM)
        fan_out(engine)
        assert stream.end() == self.REASON
        assert stream.events == []

    def test_a_token_that_expires_by_the_clock_of_the_log(self, engine):
        """The writer's clock is ahead of this server's."""
        soon = timezone.now() + timedelta(hours=1)
        Token.objects.update(expires_at=soon)
        stream = Stream(engine)
        Head.objects.update(at=soon)
        a_card()
        assert stream.end() == self.REASON
        assert stream.events == []

    def test_a_token_whose_end_the_log_does_not_tell(self, engine, monkeypatch):
        monkeypatch.setattr(hub_module, "CHECK_INTERVAL", 0.2)
        stream = Stream(engine)
        Token.objects.update(revoked_at=timezone.now())
        assert stream.end() == self.REASON

    @pytest.mark.parametrize("others", [0, 1])
    def test_a_token_that_ended_while_its_reader_was_admitted(
        self, desk, engine, monkeypatch, others
    ):
        """The hub applied that end, and an event behind it, before it knew the reader."""
        token, first = a_desk_token(desk), cursor(engine)
        for _ in range(others):
            Stream(engine)  # keeps the hub running
        credential: Any = vars(Token)["credential"]

        def revoked(presented: Token) -> object:
            if not presented.is_platform:
                tokens.revoke(token=Token.objects.get(pk=presented.pk), actor=SYSTEM)
                desks.disconnect(desk=desk, actor=SYSTEM)
                wait_until(lambda: hub.position >= Head.objects.get().position or not others, "it")
            return credential.fget(presented)

        monkeypatch.setattr(Token, "credential", property(revoked))
        stream = Stream(token, f"after={first}")
        assert stream.end() == self.REASON
        assert stream.events == []

    def test_another_tokens_stream_goes_on(self, desk, engine):
        stream, other = Stream(a_desk_token(desk)), Stream(engine)
        tokens.revoke(token=Token.objects.get(desk=desk), actor=SYSTEM)
        stream.end()
        other.wait_for(1)
        assert other.kinds == ["token.revoked"]

    def test_a_log_that_was_replaced_ends_every_stream(self, engine):
        stream = Stream(engine)
        Head.objects.update(epoch="00000000")
        assert stream.end() == '{"reason":"cursor_lost"}'


class TestRefused:
    """Refused before the stream begins, as a problem."""

    def refused(self, stream: Stream, status: int, code: str) -> bool:
        return (stream.response.status_code, stream.response.json()["code"]) == (status, code)

    @pytest.mark.once
    @pytest.mark.parametrize(
        "query", ["wait=1", "limit=1", "order=asc", "since=2026-01-01T00:00:00Z", "after=x", "x=1"]
    )
    def test_a_parameter_that_a_stream_does_not_take(self, engine, query):
        assert self.refused(Stream(engine, query), 422, "invalid")

    def test_more_streams_of_a_token_than_the_limit(self, engine, settings):
        settings.LIMIT_STREAMS = 1
        first = Stream(engine)
        second = Stream(engine)
        assert self.refused(second, 429, "rate_limited")
        assert int(second.response["Retry-After"]) > 0
        assert Stream(a_platform_token()).frames
        assert first.is_alive()

    def test_a_stream_beyond_the_seats_that_its_own_token_may_have(self, engine, desk, settings):
        settings.WAITING_READERS = 4
        for token, most in ((engine, settings.WAITING_READERS_PER_TOKEN), (a_desk_token(desk), 1)):
            streams = [Stream(token) for _ in range(most)]
            assert all(stream.frames for stream in streams)
            beyond = Stream(token)
            assert self.refused(beyond, 429, "rate_limited")
            assert int(beyond.response["Retry-After"]) > 0
            assert client.get(f"{EVENTS}?wait=25&after={cursor(token)}", token).status_code == 200

    def test_a_desks_pages_take_seats_of_its_token_and_none_of_another_desk(self, desk, settings):
        settings.WAITING_READERS = 8
        token = a_desk_token(desk)
        streams = [Stream(token) for _ in range(settings.WAITING_READERS_PER_TOKEN)]
        assert all(stream.frames for stream in streams)
        assert client.signed_in(desk.user).get("/activity/stream").status_code == 429
        others = [Stream(a_desk_token(a_connected_desk())) for _ in range(2)]
        assert all(stream.frames for stream in others)

    def test_a_stream_beyond_the_seats_of_the_process(self, engine, settings):
        settings.WAITING_READERS = 1
        assert Stream(engine).frames
        beyond = Stream(a_platform_token())
        assert self.refused(beyond, 503, "unavailable")
        assert int(beyond.response["Retry-After"]) > 0

    def test_a_seat_and_a_place_are_free_again_after_the_stream(self, engine, settings):
        settings.WAITING_READERS = settings.LIMIT_STREAMS = 1
        stream = Stream(engine)
        Head.objects.update(epoch="00000000")
        stream.end()
        wait_until(lambda: not slots._taken, "the seat is not free")
        assert Stream(engine).frames

    @pytest.mark.once
    def test_json_is_sent_to_who_wants_it_more(self, engine):
        for accept, expected in {
            "text/event-stream": True,
            "text/event-stream, */*": True,
            "application/json, text/event-stream": True,
            "application/json, text/event-stream;q=0.9": False,
            "text/event-stream;q=0": False,
            "*/*": False,
        }.items():
            response = client.head(EVENTS, engine, Accept=accept)
            assert (response["Content-Type"] == "text/event-stream") is expected, accept

    @pytest.mark.once
    def test_head_opens_no_stream(self, engine):
        response = client.head(EVENTS, engine, Accept="text/event-stream")
        assert (response.status_code, hub.readers) == (200, 0)
        assert response["Cache-Control"] == "no-store"
        assert "Content-Encoding" not in response
