"""The loops of a runner in this process: what they do again, and which connections they keep."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from django.db import connection  # noqa: F401 - for skipif
from django.utils import timezone

from events.models import Head
from events.statements import execute, fetch_one
from signals.outbound.database import in_database, tell_log
from signals.outbound.guarded_client import KEEP_ALIVE, Client
from signals.webhooks.models import DeliveryAttempt, Subscription
from signals.webhooks.runner.delivery import NO_PAUSE, Lease, Session, due, lease
from signals.webhooks.runner.loop import Connections, Runner
from signals.webhooks.runner.rates import Rates
from tests.factories import a_desk
from tests.notices import elsewhere
from tests.signals.webhooks.runner.stage import LIMIT, close_connections, locked, subscribe


def run(test: Callable[[Runner], Awaitable[Any]]) -> Any:
    """Runs a test with a runner, in its event loop."""

    async def within() -> Any:
        try:
            return await asyncio.wait_for(test(Runner(Client(), asyncio.Event())), LIMIT)
        finally:
            await close_connections()

    return asyncio.run(within())


def a_session(leased: Lease) -> Session:
    endpoint = Client().endpoint(leased.url)
    return Session(leased, None, endpoint, rates=Rates(), stop=asyncio.Event())


# --- Connections ----------------------------------------------------------------------------------


def kept_until(monkeypatch: pytest.MonkeyPatch, seconds: float, most: int) -> list[bool]:
    """Which of two connections are still kept so many seconds later."""
    now = [0.0]
    monkeypatch.setattr("signals.webhooks.runner.loop.time.monotonic", lambda: now[0])
    connections = Connections(Client())
    leases = [
        Lease(Subscription(pk=pk), 0.0, timezone.now(), 0, url="https://a.example/")
        for pk in (1, 2)
    ]
    endpoints = [connections.take(leased) for leased in leases]
    for leased, endpoint in zip(leases, endpoints, strict=True):
        connections.put(leased, endpoint)
    now[0] = seconds
    asyncio.run(connections.close_old(most))
    return [connections.take(one) is kept for one, kept in zip(leases, endpoints, strict=True)]


def test_connections_are_kept_for_a_while(monkeypatch):
    assert kept_until(monkeypatch, KEEP_ALIVE - 1, most=2) == [True, True]
    assert kept_until(monkeypatch, KEEP_ALIVE + 1, most=2) == [False, False]


def test_of_too_many_connections_the_oldest_are_closed(monkeypatch):
    assert kept_until(monkeypatch, 0, most=1) == [False, True]


# --- What could not be done at once ---------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif("connection.vendor != 'sqlite'", reason="the error is another one there")
def test_what_cannot_be_saved_while_the_database_is_away_is_saved_later(caplog):
    row = subscribe("https://a.example/")[1]
    (leased,), _ = lease([row.pk])
    leased.attempts = [
        DeliveryAttempt(subscription=row, at=timezone.now(), milliseconds=1, status=204)
    ]
    table = DeliveryAttempt._meta.db_table

    async def test(runner: Runner) -> None:
        runner._queue.add([row.pk])
        assert runner._queue.take() == [row.pk]
        runner._ended.append(a_session(leased))
        saving = asyncio.create_task(runner._repeat(runner._save, 0.0, runner._saved))
        while "The database is unavailable" not in caplog.text:
            await asyncio.sleep(0.01)
        await asyncio.to_thread(execute, f"ALTER TABLE away RENAME TO {table}")
        runner._stop.set()
        await saving

    execute(f"ALTER TABLE {table} RENAME TO away")
    with caplog.at_level(logging.WARNING):
        run(test)
    assert DeliveryAttempt.objects.count() == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite locks no rows")
def test_a_webhook_whose_row_was_locked_for_a_moment_waits_again():
    row = subscribe("https://a.example/")[1]

    async def test(runner: Runner) -> None:
        runner._queue.add([row.pk])
        await runner._lease_waiting()
        while not (waiting := runner._queue.take()):
            await asyncio.sleep(0.01)
        assert waiting == [row.pk]

    with elsewhere(locked(Subscription.objects.filter(pk=row.pk))):
        run(test)


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite has no server")
def test_the_log_is_told_after_the_server_closed_the_connection_that_told_it_last():
    """Much later, after a restart of PostgreSQL: nothing else in this thread would notice."""

    async def test(runner: Runner) -> None:
        for _ in range(2):
            (process,) = await tell_log(fetch_one, "SELECT pg_backend_pid()")
            await in_database(end, process)

    def end(process: int) -> None:
        execute(f"SELECT pg_terminate_backend({process}, 60000)")

    run(test)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("stops", [True, False])
def test_what_a_runner_that_stops_has_leased_is_due_for_another_at_once(stops):
    """Neither looks for news of it: this one stops, and it was leased when the other one did."""
    row = subscribe("https://a.example/")[1]
    (leased,), _ = lease([row.pk])
    leased.pause = None  # until there is news

    async def test(runner: Runner) -> None:
        runner._queue.add([row.pk])
        assert runner._queue.take() == [row.pk]
        runner._ended.append(a_session(leased))
        if stops:
            runner._stop.set()
        await runner._save()

    run(test)
    assert due(10) == ([(row.pk, False)] if stops else [])


@pytest.mark.django_db(transaction=True)
def test_what_waits_at_a_runner_that_stops_is_due_for_another_at_once():
    """The other one may have dropped the news, because this one had leased it then."""
    row = subscribe("https://a.example/")[1]
    Subscription.objects.update(next_attempt_at=None)

    async def test(runner: Runner) -> None:
        runner._queue.add([row.pk])
        await runner._hand_over()

    run(test)
    assert due(10) == [(row.pk, False)]


@pytest.mark.django_db(transaction=True)
def test_an_endpoint_that_failed_waits_apart_from_then_on():
    row = subscribe("https://a.example/")[1]
    (leased,), _ = lease([row.pk])
    leased.failures, leased.pause = 1, NO_PAUSE

    async def test(runner: Runner) -> None:
        runner._queue.add([row.pk])
        assert runner._queue.take() == [row.pk]
        runner._ended.append(a_session(leased))
        await runner._save()
        runner._queue.add([0])
        assert runner._queue.take() == [0]
        assert runner._queue.take_slow() == [row.pk]

    run(test)


@pytest.mark.django_db(transaction=True)
def test_after_a_restore_to_an_earlier_head_a_runner_looks_for_who_is_behind():
    row = subscribe("https://a.example/")[1]
    a_desk()
    beyond = Head.objects.get().position + 1000

    async def test(runner: Runner) -> None:
        runner._position = beyond
        runner._stop.set()
        await runner._follow()
        assert runner._queue.take() == [row.pk]

    run(test)
