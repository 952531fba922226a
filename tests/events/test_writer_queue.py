"""The queue of a process's writers, when one of them finds the database unavailable."""

import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from django.db import OperationalError, connection  # noqa: F401 - used by skipif

from events import writer_queue

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif("connection.vendor == 'sqlite'", reason="SQLite uses the queue of files"),
]


def take_turn(ident: Future, held: threading.Event, end: threading.Event, fail: bool) -> None:
    ident.set_result(threading.get_ident())
    with writer_queue.wait_for_turn():
        held.set()
        end.wait()
        if fail:
            raise OperationalError("the database is unavailable")


def waits(ident: int) -> bool:
    """Whether this thread waits in the queue."""
    return sys._current_frames()[ident].f_code is writer_queue._thread_queue.__wrapped__.__code__  # type: ignore[attr-defined]


@pytest.mark.parametrize("fails", [True, False])
def test_queued_writers_fail_with_the_failed_writer_and_later_writers_retry(fails):
    held, end, behind = threading.Event(), threading.Event(), Future()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(take_turn, Future(), held, end, fails)
        held.wait()
        second = pool.submit(take_turn, behind, threading.Event(), end, False)
        while not waits(behind.result()):
            pass
        end.set()
    for turn in (first, second):
        assert isinstance(turn.exception(), OperationalError) == fails
    with writer_queue.wait_for_turn():
        pass
