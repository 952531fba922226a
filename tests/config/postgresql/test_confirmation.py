"""Commits that no standby confirms, on a PostgreSQL of the test's own that waits for one.

The standby for which it waits does not exist, and that wait is the same as for one that is away.
"""

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from uuid import uuid4

import httpx2
import pytest
from django.db import OperationalError, connection

from config.postgresql.base import DatabaseWrapper
from events import confirmation
from events.statements import without_timeouts
from events.unavailable_reasons import Wait, wait_of
from tests.client import EVENTS
from tests.config.postgresql.conftest import MARKS, Service
from tests.drills.stage import Postgresql
from tests.server import run_python, serving
from tests.streams import wait_until

pytestmark = MARKS

LONG, SHORT = 60, 0.2  # seconds, for a commit
SENDERS = 32  # twice the threads of a process and more
FEW = 4  # one commits, and the others wait for their turn
SOON = 2  # seconds, as the contract says
WAITING = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
COMMITTING = "SELECT pid FROM pg_stat_activity WHERE state = 'active' AND query = 'COMMIT'"
WAIT_AT_COMMIT = """
CREATE OR REPLACE FUNCTION wait_for_disk() RETURNS trigger LANGUAGE plpgsql
AS $$ BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER disk AFTER INSERT ON notes DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION wait_for_disk()"""

USE_CACHE = """
import django
django.setup()
from django.core.cache import cache
cache.set("former", "expired", 0)
cache._max_entries = 0  # the next value removes what has expired
print(cache.add("failures", "counted"), cache.get("failures"))
"""


class Waiting(Service):
    def waiting(self) -> list[int]:
        """The sessions that wait for a standby."""
        return [pid for (pid,) in self.postgresql.execute(WAITING)]

    def push_until_taken(self, nonce: str) -> httpx2.Response:
        """On a busy machine a turn may not come in time."""
        answers: list[httpx2.Response] = []

        def is_taken() -> bool:
            answers.append(self.push(nonce))
            return answers[-1].status_code != 503

        wait_until(is_taken, "The service takes no signal.")
        return answers[-1]

    @contextmanager
    def unconfirmed(self) -> Iterator[None]:
        self.postgresql.confirm_by("nobody")
        try:
            yield
        finally:
            self.postgresql.confirm_by("")
            wait_until(lambda: not self.waiting(), "The sessions go on waiting.")


@pytest.fixture(scope="module")
def service(postgresql: Postgresql) -> Iterator[Waiting]:
    with (
        serving(DATABASE_URL=postgresql.url, PATIENCE="") as server,
        httpx2.Client(
            trust_env=False, timeout=60, limits=httpx2.Limits(max_connections=None)
        ) as http,
    ):
        yield Waiting(postgresql, server, http)


def is_unconfirmed(answer: httpx2.Response) -> bool:
    """A process of a busy machine may stand still before its commit."""
    said = answer.json()
    waits = (
        *(Wait.CONFIRMATION, Wait.LOCK, Wait.QUEUE, Wait.PROCESS),
        *(Wait.CONNECTION, Wait.STATEMENT, Wait.DATABASE),
    )
    return (answer.status_code, said["code"]) == (503, "unavailable") and any(
        said["detail"].startswith(wait.meaning) for wait in waits
    )


def test_a_commit_whose_wait_was_cancelled_is_not_answered_as_recorded(service):
    """PostgreSQL reports it as done, with a warning."""
    pushed: list[Future[httpx2.Response]] = []

    def waits() -> bool:
        """On a busy machine a signal may get its 503 before its commit. Then the next one waits."""
        is_over = not pushed or pushed[-1].done()
        if service.waiting():
            return True
        if is_over:
            pushed.append(threads.submit(service.push, f"cancelled-{len(pushed) + 1}"))
        return False

    with ThreadPoolExecutor() as threads, service.unconfirmed():
        wait_until(waits, "No commit waits.")
        for pid in service.waiting():
            service.postgresql.execute(f"SELECT pg_cancel_backend({pid})")
        answer = pushed[-1].result()
    assert is_unconfirmed(answer)
    assert answer.json()["detail"].startswith(Wait.CONFIRMATION.meaning)
    again = service.push_until_taken(f"cancelled-{len(pushed)}")
    assert (again.status_code, again.json()["identical"]) == (409, True)


def test_while_nobody_confirms_each_signal_gets_503_and_none_is_lost_or_doubled(service):
    def send(nonce: str) -> None:
        answer = service.push(nonce)
        assert is_unconfirmed(answer), answer.text

    nonces = [f"unconfirmed-{number}" for number in range(3 * SENDERS)]
    with ThreadPoolExecutor(SENDERS) as senders, service.unconfirmed():
        list(senders.map(send, nonces))
        wait_until(lambda: service.state() == (503, "unconfirmed"), "It remains ready.")
        left = service.waiting()
        list(senders.map(send, nonces))
        assert service.waiting() == left  # no attempt leaves another session behind
        # No form is taken, in the process that is in doubt.
        form, closing = f"{service.server.base_url}/accounts/login/", {"Connection": "close"}
        wait_until(
            lambda: service.http.post(form, headers=closing).status_code == 503, "Forms are taken."
        )
        # Reads go on, also with a token whose first use is noted now.
        assert service.get(EVENTS, "readToken").status_code == 200
    wait_until(lambda: service.state() == (200, "ok"), "It does not get ready.")
    answers = [service.push_until_taken(nonce) for nonce in nonces]
    assert all(
        answer.status_code == 200 or answer.json().get("identical") is True for answer in answers
    )
    assert sum(answer.status_code == 409 for answer in answers) <= 64  # one batch


def test_a_signal_that_nobody_confirms_gets_503_within_two_seconds(service):
    """The first ones, and those of a process in doubt. A busy machine misses it in some rounds."""

    def took(nonce: str) -> float:
        began = time.monotonic()
        assert is_unconfirmed(service.push(nonce))
        return time.monotonic() - began

    def are_answered_soon() -> bool:
        with ThreadPoolExecutor(FEW) as senders, service.unconfirmed():
            nonces = [f"soon-{uuid4()}" for _ in range(FEW)]
            return max(*senders.map(took, nonces), *senders.map(took, nonces)) < SOON

    wait_until(are_answered_soon, "No round of signals is answered soon.")


def test_while_nobody_confirms_the_cache_in_the_database_goes_on(service):
    """Wrong passwords are counted in it."""
    environment = {**service.server.environment, "CACHE_URL": "dbcache://cache"}
    run_python(environment, "manage.py", "createcachetable")
    with service.unconfirmed():
        assert run_python(environment, "-c", USE_CACHE).split() == ["True", "counted"]


# --- The connection ------------------------------------------------------------------------------


@pytest.fixture
def database(postgresql, monkeypatch, django_db_blocker) -> Iterator[DatabaseWrapper]:
    """A database with a pool, and a table ``notes``."""
    options = {**connection.settings_dict["OPTIONS"], "pool": {"min_size": 0, "max_size": 4}}
    given = {**connection.settings_dict, "HOST": "127.0.0.1", "PORT": postgresql.port}
    given |= {"NAME": "postgres", "USER": "postgres", "PASSWORD": "", "OPTIONS": options}
    database = DatabaseWrapper(given, "confirmed")
    postgresql.execute("DROP TABLE IF EXISTS notes; CREATE TABLE notes (text text)")
    monkeypatch.setattr(confirmation, "TIMEOUT", LONG)
    try:
        with django_db_blocker.unblock():
            yield database
    finally:
        postgresql.confirm_by("")
        database.close()
        database.close_pool()


def note(database: DatabaseWrapper, text: str) -> None:
    with database.cursor() as cursor:
        cursor.execute("INSERT INTO notes VALUES (%s)", [text])


def note_in_a_transaction(
    database: DatabaseWrapper, text: str, synchronous_commit: str = "on"
) -> None:
    database.set_autocommit(False)
    try:
        with database.cursor() as cursor:
            cursor.execute(f"SET LOCAL synchronous_commit = {synchronous_commit}")
        note(database, text)
        database.commit()
    finally:
        database.close()


def notes(postgresql: Postgresql) -> list[str]:
    return [text for (text,) in postgresql.execute("SELECT text FROM notes")]


def is_missing(postgresql: Postgresql, database: str = "postgres") -> bool:
    return postgresql.execute(f"SELECT {confirmation.IS_MISSING}", database) == [(True,)]


@pytest.mark.parametrize("write", [note, note_in_a_transaction])
def test_what_waits_too_long_raises_and_closes_the_connection(
    write, database, postgresql, monkeypatch
):
    """Closed, not cancelled: nobody sees what no standby has."""
    monkeypatch.setattr(confirmation, "TIMEOUT", SHORT)
    database.ensure_connection()
    driver = database.connection
    postgresql.confirm_by("nobody")
    with pytest.raises(OperationalError) as failed:
        write(database, "late")
    assert wait_of(failed.value) is Wait.CONFIRMATION
    assert driver.closed
    wait_until(lambda: len(postgresql.execute(WAITING)) == 1, "Its session waits no more.")
    assert notes(postgresql) == []
    postgresql.confirm_by("")
    wait_until(lambda: notes(postgresql) == ["late"], "What waited is not there.")


@pytest.mark.parametrize("write", [note, note_in_a_transaction])
def test_what_was_cancelled_raises(write, database, postgresql):
    postgresql.confirm_by("nobody")
    with ThreadPoolExecutor() as threads:
        writing = threads.submit(lambda: write(database.copy(), "cancelled"))
        wait_until(lambda: postgresql.execute(WAITING), "Nothing waits.")
        [(pid,)] = postgresql.execute(WAITING)
        postgresql.execute(f"SELECT pg_cancel_backend({pid})")
        with pytest.raises(OperationalError) as failed:
            writing.result()
    assert wait_of(failed.value) is Wait.CONFIRMATION
    assert notes(postgresql) == ["cancelled"]


def give_up(database: DatabaseWrapper, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(confirmation, "TIMEOUT", SHORT)
        with pytest.raises(OperationalError):
            note_in_a_transaction(database, text)


def test_in_doubt_a_commit_that_would_wait_in_vain_writes_nothing(
    database, postgresql, monkeypatch
):
    postgresql.confirm_by("nobody")
    give_up(database, "first", monkeypatch)
    wait_until(lambda: is_missing(postgresql), "It has not waited.")
    for text in ("second", "third"):
        with pytest.raises(OperationalError) as failed:
            note_in_a_transaction(database, text)
        assert wait_of(failed.value) is Wait.CONFIRMATION
    note_in_a_transaction(database, "of a use", "local")
    with database.cursor() as cursor:
        cursor.execute("SELECT text FROM notes")  # reads go on
        assert cursor.fetchall() == [("of a use",)]
    assert len(postgresql.execute(WAITING)) == 1
    postgresql.confirm_by("")
    wait_until(lambda: not postgresql.execute(WAITING), "It waits on.")
    note_in_a_transaction(database, "last")
    assert notes(postgresql) == ["first", "of a use", "last"]
    assert not confirmation.doubted.is_set()


def test_what_waits_in_another_database_is_not_the_services(database, postgresql):
    note, other = "CREATE TABLE notes AS SELECT", "another"
    postgresql.execute(f"CREATE DATABASE {other}")
    postgresql.confirm_by("nobody")
    with ThreadPoolExecutor() as threads:
        writing = threads.submit(postgresql.execute, note, other)
        wait_until(lambda: is_missing(postgresql, other), "It has not waited.")
        found = is_missing(postgresql)
        postgresql.confirm_by("")
        writing.result()
    assert not found


def test_a_migration_waits_as_long_as_it_takes(database, postgresql, monkeypatch):
    def migrate() -> None:
        with without_timeouts(database):
            # A statement of a request would end before it is seen to wait.
            monkeypatch.setattr(confirmation, "TIMEOUT", 0.05)
            note(database, "migrated")

    postgresql.confirm_by("nobody")
    database.inc_thread_sharing()
    with ThreadPoolExecutor() as threads:
        migrating = threads.submit(migrate)
        wait_until(lambda: is_missing(postgresql), "It does not wait.")
        is_done = migrating.done()
        postgresql.confirm_by("")
        migrating.result()
    assert not is_done
    assert notes(postgresql) == ["migrated"]


def test_a_commit_of_a_disk_that_stands_still_leaves_one_session_behind_too(
    database, postgresql, monkeypatch
):
    """A trigger that runs at the commit stands for the disk."""
    postgresql.execute(WAIT_AT_COMMIT)
    with postgresql.connect("postgres") as disk:
        disk.execute("SELECT pg_advisory_lock(1)")
        give_up(database, "first", monkeypatch)
        wait_until(lambda: is_missing(postgresql), "It has not waited.")
        with pytest.raises(OperationalError) as failed:
            note_in_a_transaction(database, "second")
        assert wait_of(failed.value) is Wait.CONFIRMATION
        assert len(postgresql.execute(COMMITTING)) == 1
    wait_until(lambda: notes(postgresql) == ["first"], "What waited is not there.")
