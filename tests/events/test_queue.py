"""The queue of one process's writers: who waits behind one that finds the database away."""

import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from django.db import OperationalError, connection  # noqa: F401 - the mark looks at it

from events import queue

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif("connection.vendor == 'sqlite'", reason="a queue of files decides there"),
]


def a_turn(ident: Future, held: threading.Event, end: threading.Event, fail: bool) -> None:
    ident.set_result(threading.get_ident())
    with queue.turn_in_queue():
        held.set()
        end.wait()
        if fail:
            raise OperationalError("the database is away")


def waits(ident: int) -> bool:
    """Whether a thread stands in the queue."""
    return sys._current_frames()[ident].f_code is queue._process_queue.__wrapped__.__code__


@pytest.mark.parametrize("fails", [True, False])
def test_who_waited_behind_a_failure_shares_it_and_who_comes_later_tries_anew(fails):
    held, end, behind = threading.Event(), threading.Event(), Future()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(a_turn, Future(), held, end, fails)
        held.wait()
        second = pool.submit(a_turn, behind, threading.Event(), end, False)
        while not waits(behind.result()):
            pass
        end.set()
    for turn in (first, second):
        assert isinstance(turn.exception(), OperationalError) == fails
    with queue.turn_in_queue():
        pass
