"""Real processes on the test's database that start their work at the same time.

Each process connects to the test database and waits at a barrier until all processes have reached
it. They are forks of one process without connections, which has imported ``tests.imported``: that
takes longer than most races.
"""

import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.synchronize import Barrier
from typing import Any

from django.db import connection

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.imported"])
_barrier: Barrier | None = None


def run_together(function: Callable[..., Any], each: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Runs the function once per tuple of arguments, each in its own process."""
    with started_together(function, each) as futures:
        return [future.result() for future in futures]


class started_together:  # noqa: N801 - used like a function
    """Like ``run_together``, as a context manager that gives the futures and does not wait."""

    def __init__(self, function: Callable[..., Any], each: Sequence[tuple[Any, ...]]) -> None:
        self._function, self._each = function, each
        self._pool = ProcessPoolExecutor(
            len(each),
            mp_context=_context,
            initializer=_initialize,
            initargs=(_context.Barrier(len(each)), str(connection.settings_dict["NAME"])),
        )

    def __enter__(self) -> list[Any]:
        return [self._pool.submit(_run_at_barrier, self._function, each) for each in self._each]

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=True)


def _initialize(barrier: Barrier, database: str) -> None:
    """Sets up Django, the test database and the barrier in a new process."""
    global _barrier  # noqa: PLW0603 - a pool can pass objects to its processes only this way
    _barrier = barrier
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    import django  # noqa: PLC0415 - the settings module must be set first

    django.setup()
    connection.settings_dict["NAME"] = database


def meet() -> None:
    """Waits until every process of the group has called this."""
    assert _barrier is not None
    _barrier.wait()


def _run_at_barrier(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    try:
        meet()
        return function(*arguments)
    except BaseException:
        assert _barrier is not None
        _barrier.abort()  # so that the other processes do not wait for this one
        raise
