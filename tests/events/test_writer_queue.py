"""The queue of a process's writers, when one of them finds the database unavailable."""

import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from django.db import OperationalError, connection  # noqa: F401 - used by skipif

from events import writer_queue
from events.waits import Wait, wait_of
from events.writer_queue import WaitEnded

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif("connection.vendor == 'sqlite'", reason="SQLite uses the queue of files"),
]


def take_turn(
    ident: Future, held: threading.Event, end: threading.Event, fails: Exception | None
) -> None:
    ident.set_result(threading.get_ident())
    with writer_queue.wait_for_turn():
        held.set()
        end.wait()
        if fails:
            raise fails


def waits(ident: int) -> bool:
    """Whether this thread waits in the queue."""
    return sys._current_frames()[ident].f_code is writer_queue._thread_queue.__wrapped__.__code__  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("fails", "behind_it"),
    [
        (None, None),
        (OperationalError("the database is unavailable"), Wait.DATABASE),
        (WaitEnded(Wait.LOCK), Wait.LOCK),
        (WaitEnded(Wait.PROCESS), None),
    ],
)
def test_queued_writers_fail_with_the_failed_writer_and_later_writers_retry(fails, behind_it):
    held, end, behind = threading.Event(), threading.Event(), Future()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(take_turn, Future(), held, end, fails)
        held.wait()
        second = pool.submit(take_turn, behind, threading.Event(), end, None)
        while not waits(behind.result()):
            pass
        end.set()
    assert first.exception() is fails
    error = second.exception()
    assert (error and wait_of(error)) == behind_it
    with writer_queue.wait_for_turn():
        pass
