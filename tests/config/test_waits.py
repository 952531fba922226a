"""What a 503 says of the wait that ended: in its detail, in the log and in /metrics.

Each wait has a real cause, on PostgreSQL.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connection
from prometheus_client import REGISTRY

from config.postgresql.base import DatabaseWrapper
from events.unavailable_reasons import Wait, wait_of
from signals.intake import group_commit
from signals.intake.models import Signal
from tests.client import ME, get, push
from tests.factories import a_card, a_platform_token, a_ready_desk
from tests.signals.bodies import fanout

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif("connection.vendor != 'postgresql'", reason="PostgreSQL ends these waits"),
]


@pytest.fixture
def token() -> str:
    a_ready_desk(a_card())
    return a_platform_token()


@pytest.fixture(autouse=True)
def settings_of_the_session() -> Iterator[None]:
    """A new connection after each test, because the tests change the limits of their own."""
    yield
    connection.close()


def limit(name: str, value: str) -> None:
    """Sets a limit of this test's connection."""
    connection.cursor().execute(f"SET {name} = '{value}'")


@contextmanager
def beside() -> Iterator[psycopg.Connection[Any]]:
    """Another session, inside a transaction that is rolled back."""
    connected = connection.get_connection_params()
    names = ("host", "port", "user", "password", "dbname")
    with psycopg.connect(**{key: connected[key] for key in names if key in connected}) as other:
        yield other
        other.rollback()


def wait_for_another_to_wait(other: psycopg.Connection[Any]) -> None:
    """Waits until a session waits for a lock of this other one."""
    blocked = "SELECT 1 FROM pg_locks WHERE pg_backend_pid() = ANY(pg_blocking_pids(pid))"
    while not other.execute(blocked).fetchone():
        pass


@contextmanager
def log_held() -> Iterator[None]:
    """The lock of the log is another session's."""
    with beside() as other:
        other.execute("SELECT 1 FROM events_head FOR UPDATE")
        yield


def counted(wait: Wait) -> float:
    found = REGISTRY.get_sample_value("signals_unavailable_total", {"waited_for": wait})
    return found or 0.0


@contextmanager
def said(wait: Wait, caplog: Any) -> Iterator[list[Any]]:
    """Expects that the one answer that the block adds says this wait, and so do log and metrics."""
    answers: list[Any] = []
    before = counted(wait)
    yield answers
    (answer,) = answers
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert answer.json()["detail"].startswith(wait.meaning)
    assert f"A request waited in vain for: {wait} " in caplog.text
    assert counted(wait) == before + 1


def test_a_lock_that_another_session_holds(token, caplog):
    limit("lock_timeout", "50ms")
    with said(Wait.LOCK, caplog) as answers, log_held():
        answers.append(push(fanout(), token))


def test_a_statement_that_takes_too_long(token, caplog):
    limit("lock_timeout", "0")
    limit("statement_timeout", "200ms")
    with said(Wait.STATEMENT, caplog) as answers, log_held():
        answers.append(push(fanout(), token))


def test_a_process_that_stands_still_inside_its_turn(token, caplog):
    with said(Wait.PROCESS, caplog) as answers, standing_still(in_front_of="INSERT"):
        answers.append(push(fanout(), token))
    assert not Signal.objects.exists()


def test_a_process_that_stands_still_until_its_commit_has_written_nothing(token, caplog):
    with said(Wait.PROCESS, caplog) as answers, standing_still(behind="INSERT"):
        answers.append(push(fanout(), token))
    assert (Signal.objects.count(), push(fanout(), token).status_code) == (0, 200)


@contextmanager
def standing_still(in_front_of: str = "\0", behind: str = "\0") -> Iterator[None]:
    """This process waits at such a statement until PostgreSQL has ended its transaction."""

    def wait(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        if in_front_of in sql:
            _stand_still()
        result = execute(sql, *rest)
        if behind in sql:
            _stand_still()
        return result

    with connection.execute_wrapper(wait):
        yield


def _stand_still() -> None:
    limit("idle_in_transaction_session_timeout", "50ms")
    backend = connection.connection.info.backend_pid
    with beside() as other:
        lives = "SELECT 1 FROM pg_stat_activity WHERE pid = %s"
        while other.execute(lives, [backend]).fetchone():
            other.rollback()


def test_a_pool_without_a_free_connection():
    pool = {"min_size": 0, "max_size": 1}
    given = {**connection.settings_dict, "OPTIONS": {**connection.settings_dict["OPTIONS"]}}
    given["OPTIONS"]["pool"] = pool
    first, second = (DatabaseWrapper(given, "waits") for _ in range(2))
    try:
        first.ensure_connection()
        first.pool.timeout = 0.2  # not before: on a busy machine it takes longer to connect
        with pytest.raises(OperationalError) as failed:
            second.ensure_connection()
        assert wait_of(failed.value) is Wait.CONNECTION
    finally:
        first.close()
        first.close_pool()


def test_a_session_that_the_server_ended(token, caplog):
    pid = connection.connection.info.backend_pid
    with beside() as other:
        other.execute("SELECT pg_terminate_backend(%s)", [pid])
    with said(Wait.DATABASE, caplog) as answers:
        answers.append(get(ME, token))


def test_a_turn_behind_the_other_writers_of_the_process(token, caplog, monkeypatch):
    """The first signal leads, and waits for the log's lock longer than those behind it may."""
    monkeypatch.setattr(group_commit, "TIMEOUT", 0.1)

    def lead() -> None:
        push(fanout(), token)
        connection.close()

    with ThreadPoolExecutor(1) as pool, beside() as other, said(Wait.QUEUE, caplog) as answers:
        other.execute("SELECT 1 FROM events_head FOR UPDATE")
        leads = pool.submit(lead)
        wait_for_another_to_wait(other)
        answers.append(push(fanout(), token))
        other.rollback()
        leads.result()


def test_a_turn_that_comes_late_is_used(token, monkeypatch):
    """The lock may be free only after a wait that is longer than any of ours: the work is done."""
    monkeypatch.setattr(group_commit, "TIMEOUT", 0.1)
    with ThreadPoolExecutor(1) as pool, beside() as other:
        other.execute("SELECT 1 FROM events_head FOR UPDATE")
        late = pool.submit(other.execute, "SELECT pg_sleep(%s)", [0.2])
        late.add_done_callback(lambda _: other.rollback())
        answer = push(fanout(), token)
    assert answer.status_code == 200
    assert Signal.objects.count() == 1
