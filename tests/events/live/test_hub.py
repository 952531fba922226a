"""The hub: what it costs, its heartbeats, a stop, and how it fares without a database."""

import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from datetime import timedelta
from io import StringIO
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.management import call_command
from django.db import OperationalError, connection
from django.db.models import F
from django.test import RequestFactory
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from desks import actions as desks
from desks.visibility import desk_visibility
from events import api
from events.actors import SYSTEM
from events.feed import WHOLE_LOG, Query, read_end
from events.http.cursors import log_cursor
from events.http.refusals import Unavailable
from events.live import hub as hub_module
from events.live import opening
from events.live.frames import Version
from events.live.hub import (
    CHECK_INTERVAL,
    POLL_INTERVAL,
    RETRY_INTERVAL,
    Hub,
    Missed,
    Recent,
)
from events.live.streams import HEARTBEAT, MAX_UNSENT, Credential, Reader, ReaderSpec, Topic
from events.live.waiting_readers import ThreadReader
from events.models import Event, Head
from events.statements import execute
from events.unavailable_reasons import Wait
from events.writer_queue import WaitEnded
from tests.client import EVENTS, code, end_stream, get
from tests.factories import a_card, a_desk, a_platform_token, a_ready_desk
from tests.streams import wait_until
from tokens import actions as tokens
from tokens.models import Token
from tokens.models.token import StreamTokens

pytestmark = pytest.mark.django_db(transaction=True)


class Noting(Reader):
    """A reader that keeps what it gets."""

    def __init__(self, spec: ReaderSpec) -> None:
        super().__init__(spec)
        self.frames: list[bytes] = []
        self.beats: list[bytes] = []
        self.ends: list[bytes] = []

    def deliver(self, frame: bytes, at: float) -> None:
        self.frames.append(frame)

    def beat(self, frame: bytes) -> None:
        self.beats.append(frame)

    def end(self, frame: bytes) -> None:
        self.ends.append(frame)


class Endless(StreamTokens):
    """Tokens that never end, and need no row."""

    def find_ended(self, ids: Collection[str]) -> Collection[str]:
        return ()


ENDLESS = Endless()


def a_spec(version: Version = Version.DESK) -> ReaderSpec:
    credential = Credential(ENDLESS, "tok_1", None)
    return ReaderSpec(credential, "tok_1", is_platform=False, version=version)


class StillHub(Hub):
    """A hub without a thread: the test takes its turns."""

    def _start(self) -> None:
        if not self._is_ready:
            self._poll()

    def look(self) -> float:
        """One turn; returns the seconds until the next one."""
        return self._look_for_events()


@pytest.fixture
def hub(settings: Any) -> StillHub:
    settings.LIMIT_STREAMS = None
    return StillHub()


def joined(hub: Hub, *topics: str | None, version: Version = Version.DESK) -> Noting:
    """A reader of these topics, from the hub's position on."""
    reader = Noting(a_spec(version))
    hub.admit(reader)
    assert hub.attach(reader, hub.position, topics)
    return reader


def opened_stream(reader: Reader, after: int | None = None) -> opening.Stream:
    """A stream of the whole log for this reader, behind this position."""
    head, event = read_end(after)
    position = head.position if after is None else after
    start = opening.Start(head.epoch, position, log_cursor(head.epoch, position, event))
    return opening.Stream(reader, Query(), lambda window: WHOLE_LOG, start)


def tail(token: str) -> str:
    """The cursor of the end of the log."""
    return str(get(f"{EVENTS}?order=desc&limit=1", token).json()["next"])


def test_everybody_who_sees_an_event_gets_the_same_bytes(hub):
    desk = a_desk()
    one, other = (joined(hub, desk.public_id, "all") for _ in range(2))
    platform = joined(hub, None, version=Version.PLATFORM)
    hint = joined(hub, desk.public_id, version=Version.HINT)
    stranger = joined(hub, "usr_other", "all")
    desks.connect(desk=desk, venue="Kraken", actor=SYSTEM)
    hub.look()
    assert one.frames[0] is other.frames[0]
    assert b"event: desk.connected" in one.frames[0]
    assert len(platform.frames) == 1
    assert f'event: news\ndata: {{"position": {hub.position}}}'.encode() in hint.frames[0]
    assert stranger.frames == []


@pytest.mark.parametrize("readers", [1, 50])
def test_a_look_at_the_log_takes_two_statements_however_many_read(hub, readers, monkeypatch):
    card = a_card()
    monkeypatch.setattr("events.live.hub.CHECK_INTERVAL", float("inf"))
    crowd = [joined(hub, f"usr_{number}", "all", card.pk) for number in range(readers)]
    a_card("Next")
    with CaptureQueriesContext(connection) as queries:
        hub.look()
    assert len(queries) == 2
    assert all(len(reader.frames) == 2 for reader in crowd)
    with CaptureQueriesContext(connection) as queries:
        hub.look()
    assert len(queries) == 1


def test_one_statement_looks_at_all_tokens_together(hub):
    values = [tokens.mint_platform_token(name="T", scopes=["read"], actor=SYSTEM) for _ in range(5)]
    readers = []
    for _, token in values:
        reader = Noting(replace(a_spec(), credential=token.credential))
        hub.admit(reader)
        readers.append(reader)
    Token.objects.filter(pk=values[2][1].pk).update(revoked_at=timezone.now())
    hub._checked_at = 0.0
    with CaptureQueriesContext(connection) as queries:
        hub.look()
    assert [len(reader.ends) for reader in readers] == [0, 0, 1, 0, 0]
    assert len(queries) == 2  # the head, and the tokens


def test_one_statement_looks_at_more_tokens_than_a_statement_has_parameters():
    """PostgreSQL takes 65,535 parameters, SQLite as it is built for Debian 250,000."""
    most = 65_535 if connection.vendor == "postgresql" else 250_000
    _, token = tokens.mint_platform_token(name="T", scopes=["read"], actor=SYSTEM)
    gone = {f"tok_{number}" for number in range(most)}
    with CaptureQueriesContext(connection) as queries:
        ended = StreamTokens().find_ended([token.public_id, *gone])
    assert set(ended) == gone
    assert len(queries) == 1


@pytest.mark.parametrize("known", [False, True])
def test_a_reader_whose_credential_ended_before_it_was_admitted_is_ended(hub, monkeypatch, known):
    """Where the log does not tell what ended since the credential was read, a statement does."""
    monkeypatch.setattr(hub_module, "KEPT", 1)
    _, token = tokens.mint_platform_token(name="T", scopes=["read"], actor=SYSTEM)
    since = Head.objects.get() if known else None
    tokens.revoke(token=token, actor=SYSTEM)
    a_desk()
    reader = Noting(replace(a_spec(), credential=token.credential, since=since))
    hub.admit(reader)
    assert (len(reader.ends), hub.readers) == (1, 0)


def test_no_statement_looks_at_a_credential_of_which_the_log_tells(hub):
    joined(hub, None)
    reader = Noting(replace(a_spec(), since=hub.head))
    with CaptureQueriesContext(connection) as queries:
        hub.admit(reader)
    assert (len(queries), hub.readers) == (0, 2)


def test_heartbeats_and_checks_of_tokens_are_as_frequent_as_the_contract_promises():
    """Section 4: a heartbeat every 15 s; a stream ends at most 5 s after its token."""
    assert HEARTBEAT == 15
    assert CHECK_INTERVAL + POLL_INTERVAL < 5


def test_heartbeats_tell_how_far_the_log_was_examined(hub):
    reader, waiting, ahead = joined(hub, "usr_other"), Noting(a_spec()), Noting(a_spec())
    hub.admit(waiting)
    hub.admit(ahead)
    a_desk()
    hub.look()
    hub.attach(ahead, hub.position + 5, (None,))
    reader.beats.clear()  # there is one if its second has passed since the hub began
    hub._roster.beaten_until -= HEARTBEAT
    hub.look()
    head = Head.objects.get()
    cursor = log_cursor(head.epoch, head.position, Event.objects.get(pk=head.position).identity)
    assert reader.beats == [f"id: {cursor}\n\n".encode()]
    assert (reader.frames, waiting.beats, ahead.beats) == ([], [], [])


def test_a_heartbeat_at_a_position_without_an_event_has_no_digest(hub):
    a_desk()
    Head.objects.update(position=F("position") + 1)
    reader, head = joined(hub, None), Head.objects.get()
    hub._roster.beaten_until -= HEARTBEAT
    hub.look()
    assert reader.beats == [f"id: {log_cursor(head.epoch, head.position)}\n\n".encode()]


def test_a_reader_that_has_read_on_in_the_log_gets_nothing_twice(hub):
    behind = joined(hub, None)
    for _ in range(2):
        a_desk()
    ahead = Noting(a_spec())
    hub.admit(ahead)
    hub.attach(ahead, hub.position + 1, (None,))
    hub.look()
    assert (len(behind.frames), len(ahead.frames)) == (2, 1)


def test_a_reader_from_before_the_hubs_last_events_must_read_on(hub, monkeypatch):
    monkeypatch.setattr(hub_module, "KEPT", 1)
    joined(hub, None)
    start = hub.position
    for _ in range(2):
        a_desk()
    hub.look()
    late = Noting(a_spec())
    hub.admit(late)
    assert not hub.attach(late, start, (None,))
    assert hub.attach(late, start + 1, (None,))
    assert len(late.frames) == 1


def test_a_reader_that_catches_up_does_not_read_beyond_the_hub(hub, monkeypatch):
    """The hub may not have applied the end of its token yet."""
    a_desk()
    monkeypatch.setattr(opening, "hub", hub)
    monkeypatch.setattr(Recent, "reaches", lambda self, position: False)
    reader = Noting(a_spec())
    hub.admit(reader)
    a_desk()
    opened = opened_stream(reader, after=0)
    assert (opened.read() or b"").count(b"event: desk.created") == 1


class MovingOn(StillHub):
    """A hub that takes its next turn when it is asked how far it is."""

    moves_on = False

    @property
    def position(self) -> int:
        if self.moves_on:
            self.moves_on = False
            self.look()
        return super().position


def test_a_token_that_is_revoked_while_its_reader_catches_up_reads_nothing_more(
    settings, monkeypatch
):
    hub = MovingOn()
    monkeypatch.setattr(opening, "hub", hub)
    monkeypatch.setattr(Recent, "reaches", lambda self, position: False)
    _, token = tokens.mint_platform_token(name="T", scopes=["read"], actor=SYSTEM)
    reader = Noting(replace(a_spec(), credential=token.credential))
    hub.admit(reader)
    tokens.revoke(token=token, actor=SYSTEM)
    a_desk()
    opened = opened_stream(reader, after=0)
    hub.moves_on = True
    assert opened.read() is None
    assert len(reader.ends) == 1


class Replaced(StillHub):
    """A hub that sees a new epoch before it lets a reader in."""

    def admit(self, reader: Reader) -> str:
        call_command("new_epoch", stdout=StringIO())
        self.look()
        return super().admit(reader)


class ReplacedAndWritten(Replaced):
    """It then sees an event of the new log, before a reader has joined it."""

    joins = 0

    def admit(self, reader: Reader) -> str:
        epoch = super().admit(reader)
        a_card()
        self.look()
        return epoch

    def attach(self, reader: Reader, position: int, topics: tuple[Topic, ...]) -> Missed | None:
        self.joins += 1
        return super().attach(reader, position, topics)


class TestNewEpoch:
    """Readers that come while ``manage.py new_epoch`` replaces the log."""

    def opened(self, token: str, after: str | None = None) -> str:
        """The code of the answer to the request for a stream."""
        path = EVENTS if after is None else f"{EVENTS}?after={after}"
        answer = end_stream(get(path, token, Accept="text/event-stream"))
        is_unavailable = answer.status_code == 503
        assert ("Retry-After" in answer) == is_unavailable
        if is_unavailable:
            assert answer.json()["detail"].startswith(
                "The log of events was replaced a moment ago."
            )
        return code(answer)

    def test_before_the_hub_has_seen_it_no_cursor_of_the_next_log_is_lost(self, hub, monkeypatch):
        monkeypatch.setattr(opening, "hub", hub)
        token = a_platform_token()
        reader, before = joined(hub, None), tail(token)
        call_command("new_epoch", stdout=StringIO())
        starts = (None, tail(token), before)
        codes = [self.opened(token, start) for start in starts]
        assert codes == ["unavailable", "unavailable", "cursor_lost"]
        assert (hub.readers, reader.ends) == (1, [])
        hub.look()
        assert [self.opened(token, start) for start in starts] == ["ok", "ok", "cursor_lost"]

    def test_if_the_hub_sees_it_while_it_lets_a_reader_in_no_cursor_is_lost(self, hub, monkeypatch):
        """The hub ends the reader with the log before, which is not the one of its cursor."""

        class Looking(Endless):
            """Tokens. While they are looked for, the hub takes its next turn."""

            def find_ended(self, ids: Collection[str]) -> Collection[str]:
                hub.look()
                return ()

        monkeypatch.setattr(opening, "hub", hub)
        joined(hub, None)
        call_command("new_epoch", stdout=StringIO())
        spec = replace(a_spec(), credential=Credential(Looking(), "tok_1", None))
        request, start = RequestFactory().get(EVENTS), opening.Start.now()
        with pytest.raises(WaitEnded) as ended:
            opening.open_stream(request, spec, Query(), lambda window: WHOLE_LOG, start)
        assert ended.value.wait is Wait.REPLACED_LOG
        assert (hub.epoch, hub.readers) == (start.epoch, 0)

    def test_if_the_hub_saw_it_first_the_next_request_is_told_that_its_cursor_is_lost(
        self, monkeypatch
    ):
        monkeypatch.setattr(opening, "hub", Replaced())
        token = a_platform_token()
        before = tail(token)
        assert [self.opened(token, before) for _ in range(2)] == ["unavailable", "cursor_lost"]

    def test_a_stream_that_catches_up_gets_nothing_of_the_next_log_and_ends(self, hub, monkeypatch):
        monkeypatch.setattr(opening, "hub", hub)
        monkeypatch.setattr(Recent, "reaches", lambda self, position: False)
        a_card()
        reader = Noting(a_spec())
        hub.admit(reader)
        opened = opened_stream(reader, after=0)
        call_command("new_epoch", stdout=StringIO())
        assert opened.read() is None
        hub.look()
        assert len(reader.ends) == 1

    def test_if_the_hub_saw_it_first_a_reader_does_not_wait_and_gets_no_cursor_of_the_next_log(
        self, monkeypatch
    ):
        replaced = ReplacedAndWritten()
        monkeypatch.setattr(api, "hub", replaced)
        token = a_platform_token()
        answer = get(f"{EVENTS}?after={tail(token)}&wait=25", token).json()
        assert (answer["events"], replaced.joins, replaced.readers) == ([], 0, 0)
        assert code(get(f"{EVENTS}?after={answer['next']}", token)) == "cursor_lost"


def test_an_election_at_the_very_position_of_a_reader_is_among_its_topics():
    card = a_card()
    desk = a_ready_desk(card)
    elected = Event.objects.get(kind="election.made").position
    for position, is_seen in ((elected - 1, False), (elected, True)):
        assert (card.pk in opening.topics_at(desk_visibility(desk), position)) == is_seen


def test_a_stream_of_a_thread_keeps_no_connection_to_the_database(hub, monkeypatch):
    monkeypatch.setattr(opening, "hub", hub)
    reader = ThreadReader(a_spec(), None)
    try:
        hub.admit(reader)
        parts = iter(opened_stream(reader))
        next(parts)
        reader.deliver(b"id: 1\n\n", 1.0)
        assert next(parts) == b"id: 1\n\n"
        assert connection.connection is None
    finally:
        reader.close()


def test_after_a_restore_to_an_earlier_head_of_its_epoch_readers_are_ended(hub):
    a_desk()
    reader = joined(hub, None)
    Head.objects.update(position=F("position") - 1)
    hub.look()
    assert reader.ends == [b'event: end\ndata: {"reason":"cursor_lost"}\n\n']
    assert hub.position == Head.objects.get().position


def test_if_the_log_lost_an_event_and_grew_past_it_readers_are_ended(hub):
    """They come back with their cursors, which are refused."""
    a_desk()
    reader = joined(hub, None)
    # Another event is at the hub's position, as in a history that went on without it.
    Event.objects.filter(position=hub.position).update(at=F("at") + timedelta(microseconds=1))
    a_desk()
    hub.look()
    assert reader.frames == []
    assert reader.ends == [b'event: end\ndata: {"reason":"cursor_lost"}\n\n']
    assert hub.position == Head.objects.get().position


def test_the_last_events_of_another_log_are_none_since_a_head():
    known = Recent(5)
    assert known.since(Head(position=5, epoch="before"), "after") is None
    assert known.since(Head(position=5, epoch="after"), "after") == []


def test_a_reader_ahead_of_the_hub_stays_where_it_is():
    missed = Recent(5).missed(a_spec(), 9, (None,))
    assert (missed.position, missed.events, missed.is_all) == (9, [], True)


def test_an_expiry_ends_a_stream_without_a_statement(hub, monkeypatch):
    reader = Noting(replace(a_spec(), credential=Credential(ENDLESS, "tok_1", timezone.now())))
    hub.admit(reader)
    monkeypatch.setattr("events.live.hub.CHECK_INTERVAL", float("inf"))
    with CaptureQueriesContext(connection) as queries:
        hub.look()
    assert (len(reader.ends), len(queries)) == (1, 1)  # the head


def test_without_a_database_readers_stay_and_then_get_everything_once(hub):
    reader = joined(hub, None)
    a_desk()
    table = Event._meta.db_table
    execute(f"ALTER TABLE {table} RENAME TO away")
    try:
        assert hub.look() == RETRY_INTERVAL
        assert hub.look() == RETRY_INTERVAL
    finally:
        execute(f"ALTER TABLE away RENAME TO {table}")
    assert (reader.frames, reader.ends) == ([], [])
    hub.look()
    hub.look()
    assert len(reader.frames) == 1


def test_a_reader_is_refused_while_the_log_cannot_be_read(settings):
    settings.LIMIT_STREAMS = None
    hub, reader, table = Hub(), Noting(a_spec()), Head._meta.db_table
    execute(f"ALTER TABLE {table} RENAME TO away")
    try:
        with pytest.raises(OperationalError):
            hub.admit(reader)
    finally:
        execute(f"ALTER TABLE away RENAME TO {table}")
    assert hub.readers == 0
    wait_until(lambda: not is_running(), "the hub's thread goes on")


def test_a_hub_whose_thread_could_not_be_started_starts_with_the_next_reader(monkeypatch, settings):
    """A process may have as many threads as it is allowed."""
    settings.LIMIT_STREAMS = None
    hub, refused, reader = Hub(), Noting(a_spec()), Noting(a_spec())

    def start(thread: threading.Thread) -> None:
        raise RuntimeError

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        with pytest.raises(RuntimeError):
            hub.admit(refused)
    hub.dismiss(refused)
    hub.admit(reader)
    assert hub.knows(reader)
    hub.dismiss(reader)
    hub._rests_at = 0.0
    wait_until(lambda: not is_running(), "the hub's thread goes on")


def test_a_stop_ends_everybody_spread_out_though_the_hub_looks_at_nothing(hub):
    """The hub's thread may wait for a database that does not answer."""
    readers = [joined(hub, "all") for _ in range(2 * HEARTBEAT)]
    began = time.monotonic()
    hub.stop(1.5)
    wait_until(lambda: any(reader.ends for reader in readers), "nobody is ended")
    wait_until(lambda: all(reader.ends for reader in readers), "not everybody is ended")
    assert time.monotonic() - began >= 1.5 * (HEARTBEAT - 1) / HEARTBEAT
    assert readers[0].ends == [b'event: end\ndata: {"reason":"restarting"}\n\n']
    assert hub.readers == 0
    with pytest.raises(Unavailable):
        hub.admit(Noting(a_spec()))


def test_a_stop_lasts_no_longer_though_each_of_its_pauses_does(hub, monkeypatch):
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds + 0.2

    reader = joined(hub, "all")
    monkeypatch.setattr(hub_module, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    hub._end_all(3.0)
    assert 3.0 <= now[0] < 3.5
    assert len(reader.ends) == 1


def test_the_thread_goes_on_for_a_while_without_readers_and_follows_the_log(monkeypatch, settings):
    settings.LIMIT_STREAMS = None
    monkeypatch.setattr(hub_module, "REST", 60)
    hub, reader = Hub(), Noting(a_spec())
    hub.admit(reader)
    hub.dismiss(reader)
    thread, start = hub._thread, hub.position
    a_desk()
    wait_until(lambda: hub.position > start, "it does not follow the log")
    assert hub.reaches(start)
    hub.admit(reader)
    assert hub._thread is thread
    hub.dismiss(reader)
    monkeypatch.setattr(hub_module, "REST", 0)
    hub._rests_at = 0.0
    wait_until(lambda: not is_running(), "the hub's thread goes on")


@pytest.fixture
def a_thread_reader() -> Iterator[Callable[..., ThreadReader]]:
    made: list[ThreadReader] = []

    def make(connection: socket.socket | None) -> ThreadReader:
        made.append(ThreadReader(a_spec(), connection))
        return made[-1]

    yield make
    for reader in made:
        reader.close()


class TestThreadReader:
    def test_one_that_does_not_take_its_data_is_cut_at_the_bound(self, a_thread_reader):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            reader, frame = a_thread_reader(ours), b"x" * 1000
            for _ in range(MAX_UNSENT // len(frame)):
                reader.deliver(frame, 1.0)
            theirs.setblocking(False)
            with pytest.raises(BlockingIOError):
                theirs.recv(1)
            reader.deliver(frame, 1.0)
            assert theirs.recv(1) == b""  # the connection is closed
            assert reader.take() == b""

    def test_one_whose_client_has_gone_ends_while_nothing_happens(self, a_thread_reader):
        ours, theirs = socket.socketpair()
        with ours:
            reader = a_thread_reader(ours)
            theirs.close()
            assert reader.take() == b""

    def test_one_that_takes_its_data_is_not(self, a_thread_reader):
        reader, frame = a_thread_reader(None), b"x" * 1000
        for _ in range(3 * MAX_UNSENT // len(frame)):
            reader.deliver(frame, 1.0)
            assert reader.take() == frame


def is_running() -> bool:
    return "log-hub" in {thread.name for thread in threading.enumerate()}


@pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite has no server")
def test_a_hub_whose_connection_was_lost_opens_another_one(settings):
    settings.LIMIT_STREAMS = None
    hub, reader = Hub(), Noting(a_spec())
    hub.admit(reader)
    hub.attach(reader, hub.position, (None,))
    execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid != pg_backend_pid()"
    )
    a_desk()
    wait_until(lambda: reader.frames, "it reads no more")
    hub.dismiss(reader)
    wait_until(lambda: not is_running(), "the hub's thread goes on")
