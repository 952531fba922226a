"""A promotion that lost events, on a PostgreSQL of the test's own.

Its database is changed while nobody is connected: the last events are gone, or others, as on a
standby that did not have them. To the service that is what a failover is: it connects anew.
"""

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import httpx2
import pytest

from events.unavailable_reasons import Wait
from tests.client import EVENTS
from tests.config.postgresql.conftest import MARKS, Service
from tests.drills.stage import Postgresql
from tests.server import Server, run_python, serving, serving_beside, serving_live
from tests.streams import wait_until

pytestmark = MARKS

GONE = """DELETE FROM events_event WHERE position > (SELECT position - 2 FROM events_head);
DELETE FROM signals_signal WHERE position > (SELECT position - 2 FROM events_head);
UPDATE events_head SET position = position - 2"""
ANOTHER = """UPDATE events_event SET at = at + interval '1 s'
WHERE position = (SELECT position FROM events_head)"""
OTHERS = "UPDATE events_event SET at = at + interval '1 s'"
NOTHING = "SELECT"
END_OTHERS = """SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
WHERE datname = 'signals' AND pid <> pg_backend_pid()"""
FOUND = "The database has lost events"
CONNECTIONS = 20  # as many as a process has, and more


class Losing(Service):
    def promote(self, change: str) -> None:
        """Ends all connections. A new one finds the database changed."""
        with self.postgresql.connect("signals") as here:
            self.postgresql.execute("ALTER DATABASE signals ALLOW_CONNECTIONS false")
            here.execute(END_OTHERS)
            here.execute(change)
        self.postgresql.execute("ALTER DATABASE signals ALLOW_CONNECTIONS true")

    def is_halted(self) -> bool:
        return self.postgresql.execute("SELECT halted FROM events_head", "signals") == [(True,)]


@pytest.fixture(scope="module")
def service(postgresql: Postgresql) -> Iterator[Losing]:
    with (
        serving(DATABASE_URL=postgresql.url, WEB_CONCURRENCY="1") as server,
        httpx2.Client(trust_env=False, timeout=60) as http,
    ):
        yield Losing(postgresql, server, http)


@pytest.fixture(autouse=True)
def resumed(service: Losing) -> Iterator[None]:
    """The next test's log has lost nothing that the server has seen."""
    yield
    service.get(EVENTS, "readToken")  # it notices now what this test took from it
    if service.is_halted():
        run_python(service.server.environment, "manage.py", "new_epoch")


@contextmanager
def streaming(service: Service, server: Server) -> Iterator[Iterator[str]]:
    """The lines of a stream of the platform at this server, which has begun."""
    headers = {**service.of("readToken"), "Accept": "text/event-stream"}
    url = f"{server.base_url}{EVENTS}"
    with service.http.stream("GET", url, headers=headers) as response:
        lines = response.iter_lines()
        assert next(lines).startswith("retry: ")
        yield lines


@contextmanager
def standing_by(postgresql: Postgresql) -> Iterator[None]:
    """PostgreSQL is a standby, which is promoted when the block ends."""
    postgresql.end(signal.SIGINT)
    (postgresql.data / "standby.signal").touch()
    postgresql.start()
    try:
        yield
    finally:
        postgresql.execute("SELECT pg_promote()")


def is_refused(answer: httpx2.Response) -> bool:
    said = answer.json()
    return (answer.status_code, said.get("code")) == (503, "unavailable") and said[
        "detail"
    ].startswith(Wait.NEW_EPOCH.meaning)


@pytest.mark.parametrize("change", [GONE, ANOTHER], ids=["gone", "another"])
def test_after_a_loss_nothing_is_written_until_new_epoch(change, service, request):
    case = request.node.callspec.id
    said = service.server.log.read_text().count(FOUND)
    for number in range(3):
        assert service.push(f"before-{number}-{case}").status_code == 200
    service.promote(change)
    assert is_refused(service.push(f"after-{case}"))
    assert service.is_halted()
    assert is_refused(service.push(f"again-{case}"))
    assert service.get(EVENTS, "readToken").is_success
    assert service.state() == (503, "halted")
    assert service.server.log.read_text().count(FOUND) == said + 1
    run_python(service.server.environment, "manage.py", "new_epoch")
    assert service.state() == (200, "ok")
    service.promote(NOTHING)  # what was seen in the epoch before does not count
    assert service.push(f"resumed-{case}").status_code == 200


def test_a_reconnect_without_a_loss_halts_nothing(service):
    with serving_live(service.server) as live, streaming(service, live) as lines:
        for number in range(3):
            assert service.push(f"seen-{number}").status_code == 200
            service.promote(NOTHING)
            assert service.push(f"next-{number}").status_code == 200
            for _ in range(2):  # the hub has connected anew, and goes on
                assert any(line.startswith("data: ") for line in lines)
    assert service.state() == (200, "ok")


def test_the_hub_notices_a_loss_that_its_process_did_not_write(service):
    """The web server has just started, so only the live server has seen what is lost."""
    with serving_live(service.server) as live, streaming(service, live) as lines:
        with serving_beside(service.server) as writer:
            assert service.push("of-another", writer).status_code == 200
        assert any(line.startswith("data: ") for line in lines)
        service.promote(ANOTHER)  # what it read when it began is still there
        wait_until(service.is_halted, "The hub does not notice it.")
    assert is_refused(service.push("halted-by-the-hub"))


def test_of_many_processes_that_notice_it_one_says_so_and_none_writes(service):
    with ExitStack() as stack:
        servers = [stack.enter_context(serving_beside(service.server)) for _ in range(3)]
        for number, server in enumerate(servers):
            assert service.push(f"each-{number}", server).status_code == 200
        said = [server.log.read_text().count(FOUND) for server in servers]
        service.promote(OTHERS)
        with ThreadPoolExecutor() as threads:
            race = [f"race-{number}" for number in range(len(servers))]
            answers = list(threads.map(service.push, race, servers))
        assert all(map(is_refused, answers))
        now = [server.log.read_text().count(FOUND) for server in servers]
        assert sum(now) == sum(said) + 1


def test_a_reader_of_a_lost_event_is_refused_even_if_every_process_was_restarted(service):
    token = service.of("readToken")
    with serving_beside(service.server) as server:
        assert service.push("read-and-lost", server).status_code == 200
        tail = service.http.get(
            f"{server.base_url}{EVENTS}", params={"order": "desc", "limit": 1}, headers=token
        )
        lost = tail.json()["next"]
    service.promote(GONE)
    with serving_beside(service.server) as server:
        for number in range(3):
            assert service.push(f"unaware-{number}", server).status_code == 200
        assert not service.is_halted()
        for headers in ({}, {"Accept": "text/event-stream"}):
            answer = service.http.get(
                f"{server.base_url}{EVENTS}", params={"after": lost}, headers={**token, **headers}
            )
            assert (answer.status_code, answer.json()["code"]) == (422, "cursor_lost")


def test_reads_go_on_and_the_log_is_halted_although_nobody_confirms(postgresql, service):
    assert service.push("confirmed-and-lost").status_code == 200
    service.promote(ANOTHER)
    postgresql.confirm_by("nobody")
    try:
        assert service.get(EVENTS, "readToken").is_success
        assert service.is_halted()
    finally:
        postgresql.confirm_by("")


def test_a_connection_made_at_a_standby_is_compared_after_its_promotion(postgresql, service):
    """Not before: a standby may be late, and nothing can be written there."""
    assert service.push("lost-by-a-standby").status_code == 200
    postgresql.execute(ANOTHER, "signals")
    with standing_by(postgresql):
        wait_until(lambda: service.state() == (200, "ok"), "It does not reach the standby.")
        for _ in range(CONNECTIONS):  # the pool gives out each in turn
            assert service.state() == (200, "ok")
    assert is_refused(service.push("after-its-promotion"))
    assert service.is_halted()
