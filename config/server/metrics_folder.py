"""The folder in memory through which the workers of one gunicorn add up their metrics.

Each master process has a folder, and holds a lock on a file in it. The kernel releases the lock
when the master and its workers have ended, however they ended: a folder whose lock is free belongs
to nobody. The next master to start removes it.
"""

import fcntl
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from gunicorn.workers.base import Worker

VARIABLE = "PROMETHEUS_MULTIPROC_DIR"  # which prometheus_client reads when it is imported
PREFIX = "signals-metrics-"
LOCK = "lock"

_lock: int | None = None  # this master's; held until the process and its workers have ended


def prepare(parent: Path) -> None:
    """Removes what killed masters left in ``parent``, and makes a folder for this one, once.

    gunicorn reads its settings again for each reload.
    """
    global _lock
    if _lock is None:
        remove_abandoned(parent)
        folder, _lock = _locked_folder(parent)
        os.environ[VARIABLE] = str(folder)


def remove_abandoned(parent: Path) -> None:
    """Removes the folders of this user whose lock nobody holds.

    Every user may write to ``parent``. A link and another user's folder are left alone. So is a
    folder without a lock: somebody is about to make one.
    """
    for folder in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):  # it is in use, or another master removes it as well
            if _is_ours(folder.lstat()):
                lock = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW)
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder)
                finally:
                    os.close(lock)


def remove() -> None:
    """Removes this master's folder."""
    shutil.rmtree(os.environ[VARIABLE], ignore_errors=True)


def end_of(worker: Worker) -> None:
    """Removes the gauges of a worker that ended. Its counters stay."""
    # prometheus_client reads the variable when it is imported.
    from prometheus_client.multiprocess import mark_process_dead  # noqa: PLC0415

    mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]


def _is_ours(found: os.stat_result) -> bool:
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _locked_folder(parent: Path) -> tuple[Path, int]:
    """A new folder, and its lock. Another master that starts may have removed the first one."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=parent))
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(lock).st_nlink:
                return folder, lock
        os.close(lock)
