"""The folder in memory through which the workers of one gunicorn add up their metrics.

Each master process has a folder of its own, and removes it when it ends. systemd removes that of a
master that was killed (``RuntimeDirectory``), and a container's memory ends with it.
"""

import functools
import os
import shutil
import tempfile

from gunicorn.workers.base import Worker

VARIABLE = "PROMETHEUS_MULTIPROC_DIR"  # which prometheus_client reads when it is imported
PREFIX = "signals-metrics-"


@functools.cache
def prepare(parent: str) -> None:
    """Makes this master's folder in ``parent``, once: each reload reads the settings."""
    os.environ[VARIABLE] = tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=parent)


def remove() -> None:
    """Removes this master's folder."""
    shutil.rmtree(os.environ[VARIABLE], ignore_errors=True)


def end_of(worker: Worker) -> None:
    """Removes the gauges of a worker that ended. Its counters stay."""
    # prometheus_client reads the variable when it is imported.
    from prometheus_client.multiprocess import mark_process_dead  # noqa: PLC0415

    mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]
