"""Real processes on the test's own database, started together.

Each one sets Django up for itself, points it at the database of the test, and waits at a gate until
all are there: what they do then, they do at once.
"""

import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.synchronize import Barrier
from typing import Any

from django.db import connection

_context = multiprocessing.get_context("spawn")
_gate: Barrier | None = None


def run_together(function: Callable[..., Any], each: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Runs the function once for each tuple of arguments, in a process each; their results."""
    with started_together(function, each) as futures:
        return [future.result() for future in futures]


class started_together:  # noqa: N801 - reads as what it does
    """The same, while the caller does something beside them; gives their futures."""

    def __init__(self, function: Callable[..., Any], each: Sequence[tuple[Any, ...]]) -> None:
        self._function, self._each = function, each
        self._pool = ProcessPoolExecutor(
            len(each),
            mp_context=_context,
            initializer=_enter,
            initargs=(_context.Barrier(len(each)), str(connection.settings_dict["NAME"])),
        )

    def __enter__(self) -> list[Any]:
        return [self._pool.submit(_at_the_gate, self._function, each) for each in self._each]

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=True)


def _enter(gate: Barrier, database: str) -> None:
    """Makes this process one of the test's: its settings, its database, its gate."""
    global _gate  # noqa: PLW0603 - the pool's one way to hand something to its processes
    _gate = gate
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    import django  # noqa: PLC0415 - not before the settings are named

    django.setup()
    connection.settings_dict["NAME"] = database


def meet() -> None:
    """Waits until every process of the group has come here."""
    assert _gate is not None
    _gate.wait()


def _at_the_gate(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    meet()
    return function(*arguments)
