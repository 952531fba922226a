"""Group commit: the threads of a process that wait for the log share one turn.

A thread that finds no leader becomes the leader. It waits for the log's lock, and only then takes
the work of all who wait. It processes that as one batch, wakes them with their results, and passes
the lead to the first of those who came meanwhile. Each thread sleeps on a lock of its own and is
woken once.

A thread may give up only until a leader takes its work. After that it waits for the batch to end,
because its work may be committed. If the database is down or its lock is held, all who wait fail at
once, instead of each waiting for a timeout. If only the leader stood still, the others go on.

This module knows nothing of signals.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

from django.db import OperationalError

from events.unavailable_reasons import Wait
from events.writer_queue import DATABASE_ERRORS, TIMEOUT, WaitEnded, fails_all

MAX_BATCH = 64  # bounds how long one batch holds the log's lock

Work = TypeVar("Work")
Result = TypeVar("Result")


class Job(Future[Result], Generic[Work, Result]):
    """The work of one thread, and its result or error once that is certain.

    ``leads`` is whether the thread must lead the next batch, which includes its own work.
    """

    def __init__(self, work: Work) -> None:
        super().__init__()
        self.work, self.leads = work, False
        self._wake = threading.Lock()
        self._wake.acquire()

    def sleep(self, timeout: float = -1) -> bool:
        """Sleeps until ``wake``. Returns False after ``timeout`` seconds."""
        return self._wake.acquire(timeout=timeout)

    def wake(self) -> None:
        self._wake.release()


class GroupCommit(Generic[Work, Result]):
    """One queue of waiting threads, and its leader.

    ``process`` receives a function, and must call it once, when it holds the log's lock. That
    returns a batch of at most ``MAX_BATCH`` jobs, in the order of arrival. ``process`` sets the
    result or the error of each. If it raises an error, the jobs of the batch that have neither
    fail; if it has not taken the batch, the leader's job. If the error is one that ``fails_all``,
    all who wait fail.
    """

    def __init__(
        self, process: Callable[[Callable[[], Sequence[Job[Work, Result]]]], None]
    ) -> None:
        self._process = process
        self._lock = threading.Lock()
        self._waiting: deque[Job[Work, Result]] = deque()
        self._is_led = False

    def submit(self, work: Work) -> Result:
        """Processes the work, in a batch with the work of other threads, and returns its result.

        Raises the error of the work. Raises ``OperationalError`` if no leader takes the work within
        ``TIMEOUT`` seconds, or if the database is down.
        """
        job: Job[Work, Result] = Job(work)
        with self._lock:
            self._waiting.append(job)
            must_wait = self._is_led  # job.leads may change before this thread sleeps
            job.leads, self._is_led = not must_wait, True
        if must_wait:
            self._wait(job)
        if job.leads:
            self._lead()
        return job.result()

    def _wait(self, job: Job[Work, Result]) -> None:
        """Waits until the job is finished or has to lead."""
        if job.sleep(TIMEOUT):
            return
        with self._lock:
            gives_up = job in self._waiting and not job.leads
            if gives_up:
                self._waiting.remove(job)
        if gives_up:
            raise WaitEnded(Wait.QUEUE)
        job.sleep()

    def _lead(self) -> None:
        """Processes one batch and passes the lead on."""
        batch: list[Job[Work, Result]] = []
        failure: BaseException | None = None

        def take() -> Sequence[Job[Work, Result]]:
            with self._lock:
                batch.extend(
                    self._waiting.popleft() for _ in range(min(MAX_BATCH, len(self._waiting)))
                )
            return batch

        try:
            self._process(take)
        except DATABASE_ERRORS as error:
            failure = error
        except BaseException as error:
            failure = error
            raise
        finally:
            self._end(batch, failure)

    def _end(self, batch: list[Job[Work, Result]], failure: BaseException | None) -> None:
        """Passes the lead on first, so that the next batch starts early. Then wakes the batch."""
        with self._lock:
            if failure is not None and fails_all(failure):
                batch += self._waiting
                self._waiting.clear()
            elif failure is not None and not batch:
                batch.append(self._waiting.popleft())  # the leader's own job
            following = self._waiting[0] if self._waiting else None
            self._is_led = following is not None
            if following:
                following.leads = True
        if following:
            following.wake()
        for job in batch:
            if not job.done():
                job.set_exception(_unavailable(failure))
            job.wake()


def _unavailable(cause: BaseException | None) -> OperationalError:
    """An error of its own for each thread: two threads must not raise the same one."""
    error = OperationalError("The log is unavailable.")
    error.__cause__ = cause
    return error
