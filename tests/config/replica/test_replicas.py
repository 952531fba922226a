"""A live server on replicas.

The primary and its two standbys are the test's own. A stand-in answers for Patroni.
"""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx2
import pytest
from django.db import DEFAULT_DB_ALIAS, connection, connections

from config.caches import DatabaseCache
from config.replica import base, patroni
from events import confirmation
from events.columns import new_epoch
from events.databases import PRIMARY
from events.http.cursors import log_cursor
from events.models import Identity
from events.unavailable_reasons import Wait
from events.writer_queue import WaitEnded
from tests.client import EVENTS, bearer
from tests.conformance.streams import Frame, frames_of
from tests.drills.stage import Postgresql, needs_servers
from tests.patroni import Patroni
from tests.server import (
    PREPARE,
    Server,
    environment_of,
    free_port,
    run_python,
    serving_live,
)
from tests.streams import wait_until
from tokens.crypto import formats, keys

pytestmark = [
    pytest.mark.processes,
    needs_servers,
    pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite has no standby"),
]

HAPPEN = """
WITH head AS (UPDATE events_head SET position = position + 1 RETURNING position, at)
INSERT INTO events_event (position, kind, at, content)
SELECT position, 'desk.connected', at, '{"signal": null, "data": {}}' FROM head
RETURNING position"""
REPLACE = """
UPDATE events_event SET at = at + interval '1 s'
WHERE position = (SELECT position FROM events_head)
RETURNING position, at, kind, actor_id, topic, signal_id"""
PUT_BACK = REPLACE.replace("+", "-")
COPY_TOKEN = """
INSERT INTO tokens_token
    (public_id, scope, name, can_read, can_write, digest, key_id, hint, created_at)
SELECT %s, scope, name, can_read, can_write, %s, key_id, hint, created_at
FROM tokens_token WHERE scope = 'platform' LIMIT 1"""
CREATE_CACHE = """
CREATE TABLE kept (cache_key varchar(255) PRIMARY KEY, value text, expires timestamptz)"""
COPIED = "SELECT count(*) FROM tokens_token WHERE public_id LIKE 'tok_copy%'"
UNUSED = f"{COPIED} AND last_used_at IS NULL"
PAUSED = "SELECT pg_get_wal_replay_pause_state()"


class Cluster:
    """``service`` is what a web server on the primary would be; none runs."""

    def __init__(self, primary: Postgresql, standbys: list[Postgresql], service: Server) -> None:
        self.primary, self.standbys, self.service = primary, standbys, service
        self.log = service.log.with_name("primary.log")
        self.patroni_port = free_port("")  # the same one at each address
        self.patronis = [Patroni(each.address, self.patroni_port) for each in standbys]

    @contextmanager
    def live(self, **settings: str) -> Iterator["Live"]:
        hosts = ",".join(f"{each.address}:{each.port}" for each in self.standbys)
        given = {
            "DATABASE_URL": f"{self.primary.url}?application_name=live",
            "REPLICA_URL": f"postgres://postgres@{hosts}/signals?target_session_attrs=read-write",
            "PATRONI_PORT": str(self.patroni_port),
            "LIMIT_STREAMS": "off",
            "PATIENCE": "",
            **settings,
        }
        with serving_live(self.service, **given) as server:
            yield Live(server, self)

    def happen(self) -> int:
        """An event of the log. Returns its position."""
        [(position,)] = self.primary.execute(HAPPEN, "signals")
        return int(position)

    def epoch(self) -> str:
        [(epoch,)] = self.primary.execute("SELECT epoch FROM events_head", "signals")
        return str(epoch)

    def renew(self, epoch: str) -> None:
        with self.primary.connect("signals") as primary:
            primary.execute("UPDATE events_head SET epoch = %s", [epoch])

    def head(self, server: Postgresql) -> int:
        [(position,)] = server.execute("SELECT position FROM events_head", "signals")
        return int(position)

    def move(self) -> None:
        """The second standby may be read from now on, and the first one no more."""
        first, second = self.patronis
        first.may_be_read, second.may_be_read = False, True

    def wait_for(self, standby: Postgresql) -> None:
        """Until the standby has done all that the primary has written."""
        [(written,)] = self.primary.execute("SELECT pg_current_wal_lsn()::text")
        done = f"SELECT pg_last_wal_replay_lsn() >= '{written}'"
        wait_until(lambda: standby.execute(done) == [(True,)], "The standby stays behind.")

    @contextmanager
    def paused(self, standby: Postgresql) -> Iterator[None]:
        """The standby does not replay what it gets."""
        standby.execute("SELECT pg_wal_replay_pause()")
        wait_until(lambda: standby.execute(PAUSED) == [("paused",)], "It replays on.")
        try:
            yield
        finally:
            standby.execute("SELECT pg_wal_replay_resume()")


class Live:
    def __init__(self, server: Server, cluster: Cluster) -> None:
        self.server, self.cluster = server, cluster
        self.token = server.seed["readToken"]
        self._client = httpx2.Client(base_url=server.base_url, trust_env=False, timeout=120)

    def ask(self, cursor: str, token: str = "") -> httpx2.Response:
        """The answer to the request for a stream, without the stream."""
        with self._asked(cursor, token) as answer:
            if answer.status_code != 200:
                answer.read()
            return answer

    def ask_until(self, status: int, cursor: str, token: str = "") -> httpx2.Response:
        """Asks as long as the answer is 503: on a busy machine no standby may be known well."""
        answers: list[httpx2.Response] = []

        def is_settled() -> bool:
            answers.append(self.ask(cursor, token))
            return answers[-1].status_code != 503

        wait_until(is_settled, "No standby may be read.")
        assert answers[-1].status_code == status
        return answers[-1]

    def is_ready(self) -> bool:
        return self._client.get("/readyz").is_success

    @contextmanager
    def follow(self) -> Iterator["Follower"]:
        with ExitStack() as streams:
            answer = streams.enter_context(self._asked())
            while answer.status_code == 503:
                time.sleep(int(answer.headers["Retry-After"]))
                answer = streams.enter_context(self._asked())
            assert answer.status_code == 200
            yield Follower(answer)

    def _asked(self, cursor: str = "", token: str = "") -> Any:
        headers = {**bearer(token or self.token), "Accept": "text/event-stream"}
        params = {"after": cursor} if cursor else {}
        return self._client.stream("GET", EVENTS, params=params, headers=headers)

    def reads(self, standby: Postgresql) -> bool:
        """Whether the last node that it named is this one."""
        lines = [line for line in self.server.log.read_text().splitlines() if "is now" in line]
        return bool(lines) and f"port='{standby.port}')" in lines[-1]


class Follower(threading.Thread):
    """Reads a stream until it ends."""

    def __init__(self, answer: httpx2.Response) -> None:
        super().__init__(daemon=True)
        self._answer = answer
        self.frames: list[Frame] = []
        self.start()
        wait_until(lambda: self.frames, "no first frame")

    def run(self) -> None:
        try:
            for frame in frames_of(self._answer.iter_lines()):
                self.frames.append(frame)
        except (httpx2.HTTPError, httpx2.StreamError):
            pass  # the test closed it

    @property
    def shown(self) -> list[int | str]:
        """The positions of its events, and the end."""
        frames = [frame for frame in self.frames if frame.data]
        return [json.loads(frame.data).get("position", frame.event) for frame in frames]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        folder.chmod(0o755)  # PostgreSQL runs as another user
        primary = Postgresql(folder, folder / "primary.log")
        primary.start()
        stack.callback(primary.stop)
        primary.execute("CREATE DATABASE signals")
        service = _service(folder, primary)
        standbys = []
        for name, address in {"one": "127.0.0.2", "other": "127.0.0.3"}.items():
            standby = Postgresql(folder, folder / f"{name}.log", name, primary, address)
            standby.start()
            stack.callback(standby.stop)
            standbys.append(standby)
        cluster = Cluster(primary, standbys, service)
        stack.callback(lambda: [each.stop() for each in cluster.patronis])
        yield cluster


def _service(folder: Path, primary: Postgresql) -> Server:
    environment = {**environment_of(folder, free_port()), "DATABASE_URL": primary.url}
    seed = json.loads(run_python(environment, "-c", PREPARE, "--desks=1", "--idle=0"))
    return Server(environment["BASE_URL"], seed, environment, folder / "log")


@pytest.fixture(scope="module")
def shared(cluster) -> Iterator[Live]:
    with cluster.live(MOST_BEHIND="600") as live:  # tests hold a standby back for some seconds
        yield live


@pytest.fixture
def live(shared) -> Iterator[Live]:
    """The live server, which reads the first standby, and may not read the second one.

    On a busy machine the first may not answer for so long that another one would be read.
    """
    first, second = shared.cluster.patronis
    first.may_be_read, second.may_be_read = True, False
    shared.cluster.wait_for(shared.cluster.standbys[0])
    wait_until(lambda: shared.is_ready() and shared.reads(shared.cluster.standbys[0]), "not ready")
    yield shared
    first.may_be_read = second.may_be_read = True


def test_the_feed_comes_from_the_standby_and_uses_are_noted_at_the_primary(cluster, live):
    standby = cluster.standbys[0]
    with live.follow() as follower:
        with cluster.paused(standby):
            position = cluster.happen()
            assert cluster.head(standby) < position
            used = "SELECT count(*) FROM tokens_token WHERE last_used_at IS NOT NULL"
            wait_until(lambda: cluster.primary.execute(used, "signals") != [(0,)], "not noted")
            assert follower.shown == []
        wait_until(lambda: follower.shown == [position], "The event did not come.")
    assert "ReadOnly" not in live.server.log.read_text()


def test_a_cursor_that_only_the_standby_does_not_know_is_not_lost(cluster, live):
    standby = cluster.standbys[0]
    epoch = cluster.epoch()
    cluster.wait_for(standby)
    with cluster.paused(standby):
        ahead = live.ask(log_cursor(epoch, cluster.happen()))
        beyond = live.ask_until(422, log_cursor(epoch, cluster.happen() + 100))
        cluster.renew(new_epoch())
        renewed = live.ask(log_cursor(cluster.epoch(), 1))
        cluster.renew(epoch)
        replaced = live.ask_until(422, log_cursor(new_epoch(), 1))
    for answer in (ahead, renewed):
        assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
        assert answer.headers["Retry-After"] == "1"
    assert [each.json()["code"] for each in (beyond, replaced)] == ["cursor_lost"] * 2


def test_only_the_primary_says_that_another_event_is_at_the_position_of_a_cursor(
    cluster, live, settings
):
    """The standby still has the event that was replaced."""
    settings.SECRET_KEY = live.server.environment["SECRET_KEY"]
    standby, epoch, position = cluster.standbys[0], cluster.epoch(), cluster.happen()
    cluster.wait_for(standby)
    with cluster.paused(standby):
        [row] = cluster.primary.execute(REPLACE, "signals")
        event = Identity(*row)._replace(at=row[1].astimezone(UTC))
        other = event._replace(kind="desk.created")
        kept = live.ask(log_cursor(epoch, position, event))
        lost = live.ask_until(422, log_cursor(epoch, position, other))
        # Else the hub, which rests only some seconds after its last reader, finds the event that it
        # has read lost, and ends whoever follows by then.
        cluster.primary.execute(PUT_BACK, "signals")
    assert (kept.status_code, kept.json()["code"]) == (503, "unavailable")
    assert lost.json()["code"] == "cursor_lost"


def test_an_event_that_is_shown_before_it_is_confirmed_is_not_lost(cluster, live):
    """Neither the standby that is read nor the primary shows it; another standby did."""
    with cluster.paused(cluster.standbys[0]), ThreadPoolExecutor(1) as threads:
        position = cluster.head(cluster.primary) + 1
        cluster.primary.confirm_by("nobody")
        try:
            writing = threads.submit(cluster.happen)
            wait_until(lambda: cluster.head(cluster.standbys[1]) == position, "It is not shown.")
            assert live.ask(log_cursor(cluster.epoch(), position)).status_code == 503
            assert cluster.head(cluster.primary) < position
        finally:
            cluster.primary.confirm_by("")
        assert writing.result() == position


def test_a_move_to_a_standby_that_is_behind_ends_no_stream_and_shows_each_event_once(cluster, live):
    first, second = cluster.standbys
    cluster.wait_for(second)
    with live.follow() as follower:
        with cluster.paused(second):
            seen = [cluster.happen() for _ in range(2)]
            wait_until(lambda: follower.shown == seen, "The events did not come.")
            cluster.move()
            wait_until(lambda: live.reads(second), "It reads the first standby.")
            later = cluster.happen()
            cluster.wait_for(first)
            # A reader that was further than this standby is neither refused for good nor let in.
            assert live.ask(log_cursor(cluster.epoch(), seen[-1])).status_code == 503
            assert follower.shown == seen
        wait_until(lambda: len(follower.shown) > 2, "The stream stands still.")
        last = cluster.happen()
        wait_until(lambda: last in follower.shown, "The stream stands still.")
        assert follower.shown == [*seen, later, last]


def test_a_move_to_a_standby_with_an_older_epoch_ends_no_stream(cluster, live):
    _, second = cluster.standbys
    cluster.wait_for(second)
    with live.follow() as before, cluster.paused(second):
        cluster.renew(new_epoch())
        cluster.happen()
        wait_until(lambda: before.shown == ["end"], "The hub does not begin with the new log.")
        with live.follow() as follower:
            cluster.move()
            wait_until(lambda: live.reads(second), "It reads the first standby.")
            live.ask(log_cursor(cluster.epoch(), 1))
            second.execute("SELECT pg_wal_replay_resume()")
            position = cluster.happen()
            wait_until(lambda: position in follower.shown, "The event did not come.")
            assert follower.shown == [position]


@pytest.mark.parametrize("case", ["denied", "not streaming", "another service", "no answer"])
def test_what_is_not_in_the_quorum_or_does_not_stream_or_answer_is_not_read(case, cluster, live):
    with live.follow() as follower:
        for each in cluster.patronis:
            each.may_be_read = case != "denied"
            each.streams = case != "not streaming"
            each.says = b'["streaming"]' if case == "another service" else b""
            if case == "no answer":
                each.stop()
        wait_until(lambda: not live.is_ready(), "It reads on.")
        position = cluster.happen()
        for standby in cluster.standbys:
            cluster.wait_for(standby)
        for _ in range(3):
            assert live.ask(log_cursor(cluster.epoch(), 1)).status_code == 503
        assert follower.shown == []
        if case == "no answer":
            cluster.patronis[:] = [
                Patroni(each.address, cluster.patroni_port) for each in cluster.standbys
            ]
        for each in cluster.patronis:
            each.may_be_read, each.streams, each.says = True, True, b""
        wait_until(lambda: follower.shown == [position], "The event did not come.")


def test_a_token_that_was_revoked_is_refused_although_the_standby_has_not_replayed_that(cluster):
    first, second = cluster.standbys
    value = formats.new(formats.PLATFORM_TOKEN)
    with cluster.live() as live, cluster.primary.connect("signals") as primary:
        key = bytes.fromhex(live.server.environment["TOKEN_KEYS"])
        primary.execute(COPY_TOKEN, ["tok_revoked", keys.digest(value, key)])
        wait_until(lambda: live.ask("", value).status_code == 200, "The token does not come.")
        with cluster.paused(first), cluster.paused(second):
            revoke = "UPDATE tokens_token SET revoked_at = now() WHERE public_id = 'tok_revoked'"
            primary.execute(revoke)
            wait_until(
                lambda: live.ask("", value).status_code == 503 and not live.is_ready(),
                "It is accepted.",
            )
        wait_until(lambda: live.ask("", value).status_code == 401, "It is not refused.")
    cluster.primary.execute("DELETE FROM tokens_token WHERE public_id = 'tok_revoked'", "signals")


def test_a_standby_that_hangs_is_left_although_its_patroni_goes_on(cluster, live):
    first, second = cluster.standbys
    cluster.patronis[1].may_be_read = True
    with live.follow() as follower, frozen(first):
        position = cluster.happen()
        wait_until(lambda: follower.shown == [position], "The event did not come.")
        assert live.reads(second)
        wait_until(lambda: live.ask("").status_code == 200, "Its threads hang.")


@contextmanager
def frozen(server: Postgresql) -> Iterator[None]:
    """Its processes stand still. The kernel goes on to take what is sent to them."""
    processes, of_first = [server.pid], Path(f"/proc/{server.pid}")
    os.kill(server.pid, signal.SIGSTOP)
    try:
        wait_until(lambda: "State:\tT" in (of_first / "status").read_text(), "It goes on.")
        # From now on it starts no more of them.
        children = (of_first / f"task/{server.pid}/children").read_text().split()
        processes += map(int, children)
        for process in processes[1:]:
            os.kill(process, signal.SIGSTOP)
        yield
    finally:
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)


def test_the_primary_gets_as_few_statements_for_200_readers_as_for_10(cluster, live):
    cluster.primary.execute("ALTER SYSTEM SET log_line_prefix = '%a|'")
    cluster.primary.execute("ALTER SYSTEM SET log_statement = 'all'")
    cluster.primary.execute("SELECT pg_reload_conf()")
    key = bytes.fromhex(live.server.environment["TOKEN_KEYS"])
    values = [formats.new(formats.PLATFORM_TOKEN) for _ in range(210)]
    with cluster.primary.connect("signals") as primary:
        for number, value in enumerate(values):
            primary.execute(COPY_TOKEN, [f"tok_copy{number}", keys.digest(value, key)])
    for standby in cluster.standbys:
        wait_until(lambda: standby.execute(COPIED, "signals") == [(210,)], "no tokens")  # noqa: B023
    for some in (values[:10], values[10:]):
        began, size = time.monotonic(), cluster.log.stat().st_size
        for value in some:
            live.ask_until(200, "", value)
        left = 210 - 10 if len(some) == 10 else 0
        wait_until(lambda: cluster.primary.execute(UNUSED, "signals") == [(left,)], "not noted")  # noqa: B023
        lines = cluster.log.read_bytes()[size:].decode().splitlines()
        asked = [line for line in lines if line.startswith("live|LOG:")]
        # Two statements a second, and the three of the transaction of one.
        assert len(asked) <= 6 * (time.monotonic() - began + 2)


@pytest.fixture
def database(cluster, monkeypatch, django_db_blocker) -> Iterator[Any]:
    """The first standby, as the database of this process."""
    standby = cluster.standbys[0]
    node = patroni.Node(standby.address, str(standby.port))
    monkeypatch.setattr(patroni.nodes, "_until", {node: float("inf")})
    monkeypatch.setattr(patroni.nodes, "_current", None)
    monkeypatch.setattr(base, "LASTING", 60)
    options = {**connection.settings_dict["OPTIONS"], "pool": {"min_size": 0, "max_size": 2}}
    given = {**connection.settings_dict, "HOST": "", "PORT": "", "NAME": "signals"}
    given |= {"USER": "postgres", "PASSWORD": "", "OPTIONS": options}
    database = base.DatabaseWrapper(given, "replica")
    database.inc_thread_sharing()
    with django_db_blocker.unblock():
        yield database
        database.close()
        database.close_pool()


def ask(database: Any, statement: str) -> Any:
    with database.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchone()


def test_a_statement_that_the_replay_cancelled_is_tried_again(cluster, database):
    primary, standby = cluster.primary, cluster.standbys[0]
    primary.execute("CREATE TABLE notes (text text)", "signals")
    primary.execute("INSERT INTO notes VALUES ('one'), ('other')", "signals")
    standby.execute("ALTER SYSTEM SET max_standby_streaming_delay = 0")
    standby.execute("SELECT pg_reload_conf()")
    there = "SELECT to_regclass('notes')"
    wait_until(lambda: standby.execute(there, "signals") == [("notes",)], "no table")
    log, cancelled = cluster.log.with_name("one.log"), "canceling statement due to conflict"
    count = "SELECT count(*) FROM notes, (SELECT pg_advisory_xact_lock(1)) AS held"
    with ThreadPoolExecutor() as threads, standby.connect("signals") as other:
        other.execute("SELECT pg_advisory_lock(1)")
        reading = threads.submit(ask, database, count)
        waits = "SELECT 1 FROM pg_locks WHERE NOT granted AND locktype = 'advisory'"
        wait_until(lambda: standby.execute(waits), "It does not wait.")
        primary.execute("DELETE FROM notes WHERE text = 'other'", "signals")

        def is_cancelled() -> bool:
            # It removes nothing that a transaction of the moment may see, autovacuum's for example.
            primary.execute("VACUUM notes", "signals")
            return cancelled in log.read_text()

        wait_until(is_cancelled, "no conflict")
        # A replay that waits for a page which the statement reads may end its connection instead.
        cluster.wait_for(standby)
        other.execute("SELECT pg_advisory_unlock(1)")
        assert reading.result() == (1,)


@pytest.mark.parametrize("statement", ["SELECT 1 FROM nothing", "SELECT nothing FROM events_head"])
def test_what_the_standby_does_not_have_yet_is_waited_for_in_vain(statement, database):
    with pytest.raises(WaitEnded) as ended:
        ask(database, statement)
    assert ended.value.wait is Wait.REPLICA


def test_a_statement_at_a_standby_that_hangs_is_given_up(database, monkeypatch):
    monkeypatch.setattr(base, "LASTING", 0.2)
    with pytest.raises(WaitEnded) as ended:
        ask(database, "SELECT pg_sleep(30)")
    assert ended.value.wait is Wait.REPLICA
    assert not confirmation.doubted.is_set()


def test_a_connection_goes_back_to_the_pool_if_no_node_may_be_read_any_more(database, monkeypatch):
    assert ask(database, "SELECT 1") == (1,)
    monkeypatch.setattr(patroni.nodes, "_until", dict.fromkeys(patroni.nodes._until, 0.0))
    assert database.connection.is_unfit()


def test_a_standby_is_as_late_as_the_last_time_at_which_it_lacked_nothing(cluster):
    nodes, (primary, standby) = patroni.Nodes(), (cluster.primary, cluster.standbys[0])
    [(known, length)] = primary.execute(patroni.WRITTEN, "signals")
    marks = [(7.0, length), (8.0, length), (9.0, length + 10**9)]
    nodes._marks = tuple(patroni.Mark(at, known, end) for at, end in marks)
    with standby.connect("signals") as here:
        wait_until(lambda: nodes._as_of(here) == 8.0, "It stays behind.")


@pytest.mark.parametrize("case", ["the primary", "another database", "another cluster"])
def test_what_is_no_copy_of_the_primary_is_not_read(case, cluster):
    nodes, server = patroni.Nodes(), cluster.standbys[0]
    [(known, _)] = cluster.primary.execute(patroni.WRITTEN, "signals")
    nodes._marks = (patroni.Mark(7.0, f"1{known}" if case == "another cluster" else known, 0),)
    server = cluster.primary if case == "the primary" else server
    with server.connect("postgres" if case == "another database" else "signals") as here:
        assert nodes._as_of(here) == patroni.NEVER


def test_the_cache_in_a_table_is_written_at_the_primary(cluster, database, monkeypatch):
    primary = {"HOST": cluster.primary.address, "PORT": cluster.primary.port}
    primary |= {"ENGINE": "config.postgresql", "OPTIONS": connection.settings_dict["OPTIONS"]}
    monkeypatch.setitem(connections.settings, PRIMARY, {**database.settings_dict, **primary})
    before, connections[DEFAULT_DB_ALIAS] = connections[DEFAULT_DB_ALIAS], database
    cluster.primary.execute(CREATE_CACHE, "signals")
    there = "SELECT to_regclass('kept')"
    standby = cluster.standbys[0]
    wait_until(lambda: standby.execute(there, "signals") == [("kept",)], "no table")
    kept = DatabaseCache("kept", {})
    try:
        assert kept.add("used", True, 600)
        wait_until(lambda: kept.get("used"), "The standby does not have it.")
    finally:
        connections[DEFAULT_DB_ALIAS] = before
        opened: Any = connections[PRIMARY]
        opened.close()
        opened.close_pool()
        del connections[PRIMARY]
