"""The database backend: connections that the server closed while they were idle, and times."""

import secrets
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
from django.db import DEFAULT_DB_ALIAS, OperationalError, connection

from config.postgresql.base import DatabaseWrapper
from events import losses
from events.kinds import Kind
from events.models import Event, Head
from tests.network import network_to
from tests.streams import wait_until

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite has no server"),
]

SIZE = 4
END_THEM = """
SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE application_name = %s"""
LAST_ASKED = "SELECT query FROM pg_stat_activity WHERE application_name = %s"


@contextmanager
def a_pool(timeout=60, alias="pooled", **address):
    """A database with a pool of ``SIZE`` idle connections."""
    pool = {"min_size": SIZE, "max_size": SIZE, "timeout": timeout, "reconnect_timeout": 0.5}
    # A name of its own: the server may not have ended the sessions of the pool before.
    name = f"pooled-{secrets.token_hex(4)}"
    given = {**connection.settings_dict["OPTIONS"], "application_name": name, "pool": pool}
    database = DatabaseWrapper({**connection.settings_dict, **address, "OPTIONS": given}, alias)
    database.pool.open()
    database.pool.wait(60)
    try:
        yield database
    finally:
        database.close()
        database.close_pool()


def of_each(database, query):
    """What the server answers for each session of the pool."""
    with connection.cursor() as cursor:
        cursor.execute(query, [database.settings_dict["OPTIONS"]["application_name"]])
        return cursor.fetchall()


def answers(database):
    """Whether a thread of its own gets an answer, as a request does."""
    other = database.copy()
    try:
        with other.cursor() as cursor:
            cursor.execute("SELECT 1")
            return cursor.fetchone() == (1,)
    finally:
        other.close()


def is_back(database):
    try:
        return answers(database)
    except OperationalError:
        return False


def test_those_that_the_server_closed_are_replaced_and_no_request_fails():
    with a_pool() as database, ThreadPoolExecutor(SIZE) as requests:
        for _ in range(3):
            assert of_each(database, END_THEM) == [(True,)] * SIZE
            assert all(requests.map(answers, [database] * SIZE))
            database.pool.wait(60)


def test_one_that_is_idle_is_asked_nothing():
    """A query before each request would take longer than many requests."""
    with a_pool() as database:
        assert all(answers(database) for _ in range(SIZE))
        for _ in range(SIZE):
            database.connect()
            database.close()
        assert of_each(database, LAST_ASKED) == [("SELECT 1",)] * SIZE


def test_a_server_that_is_away_is_reported_and_found_again_when_it_is_back():
    port = int(connection.settings_dict["PORT"] or 5432)
    with network_to(port) as network, a_pool(0.5, HOST="127.0.0.1", PORT=network.port) as database:
        network.cut()
        with pytest.raises(OperationalError):
            answers(database)
        network.restore()
        wait_until(lambda: is_back(database), "The server is not found again.")


def test_one_that_was_used_before_anything_was_seen_is_compared_later():
    with a_pool(alias=DEFAULT_DB_ALIAS) as database:
        assert all(answers(database) for _ in range(SIZE))
        head = Head.objects.get()
        losses.memory.note(Event(position=head.position + 1, kind=Kind.DESK_CREATED), head.epoch)
        assert answers(database)
    assert Head.objects.get().halted


@pytest.mark.parametrize("fraction", ["", ".5", ".123", ".123456"])
def test_a_time_is_read_in_utc_with_each_fraction_that_postgresql_writes(fraction):
    written = f"2026-11-20T09:30:00{fraction}+05:30"
    with connection.cursor() as cursor:
        cursor.execute("SELECT CAST(%s AS timestamptz), CAST(NULL AS timestamptz)", [written])
        found, nothing = cursor.fetchone()
    assert found == datetime.fromisoformat(written)
    assert found.tzinfo is UTC
    assert nothing is None
