"""The queue of waiting threads and its leader, with work that the test controls."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import pytest
from django.db import OperationalError

from events.unavailable_reasons import Wait
from events.writer_queue import WaitEnded
from signals.intake import group_commit
from signals.intake.group_commit import MAX_BATCH, GroupCommit, Job

pytestmark = pytest.mark.once
Jobs = Sequence[Job[int, int]]


class Batches:
    """A queue whose first batch waits for ``release``. Each job's result is its work, doubled."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.works: list[int] = []
        self.started, self.release = threading.Event(), threading.Event()
        self.fail: Callable[[Jobs], None] = lambda jobs: None
        self.get_ready: Callable[[], None] = lambda: None
        self.queue: GroupCommit[int, int] = GroupCommit(self.process)

    def process(self, take: Callable[[], Jobs]) -> None:
        self.get_ready()
        jobs = take()
        self.sizes.append(len(jobs))
        self.works += [job.work for job in jobs]
        self.started.set()
        assert self.release.wait(60)
        self.fail(jobs)
        for job in jobs:
            if not job.done():
                job.set_result(2 * job.work)

    def wait_for(self, number: int) -> None:
        """Waits until so many threads wait for the leader."""
        while len(self.queue._waiting) != number:
            pass


@pytest.fixture
def batches() -> Batches:
    return Batches()


class Threads:
    """Calls functions in threads of their own. One that hangs keeps no process from its end."""

    def submit(self, function: Callable[[int], int], work: int) -> Future[int]:
        result: Future[int] = Future()

        def call() -> None:
            try:
                result.set_result(function(work))
            except BaseException as error:
                result.set_exception(error)

        threading.Thread(target=call, daemon=True).start()
        return result


@pytest.fixture
def threads() -> Threads:
    return Threads()


def submit_one_by_one(batches: Batches, pool: Threads, number: int) -> list[Future[int]]:
    """The first leads and is held. The others wait, in this order."""
    submitted = []
    for work in range(number):
        submitted.append(pool.submit(batches.queue.submit, work))
        if work == 0:
            assert batches.started.wait(60)
        else:
            batches.wait_for(work)
    return submitted


def test_a_lone_thread_is_a_batch_of_one(batches):
    batches.release.set()
    assert [batches.queue.submit(work) for work in (1, 2)] == [2, 4]
    assert batches.sizes == [1, 1]


@pytest.mark.parametrize("fails", [False, True])
def test_who_comes_while_the_leader_gets_ready_shares_its_batch_or_its_failure(
    batches, threads, fails
):
    getting_ready, goes_on = threading.Event(), threading.Event()
    leaders: list[str] = []

    def get_ready() -> None:
        leaders.append(threading.current_thread().name)
        getting_ready.set()
        assert goes_on.wait(60)
        if fails:
            raise OperationalError("no connection")

    batches.get_ready = get_ready
    submitted = [threads.submit(batches.queue.submit, 0)]
    assert getting_ready.wait(60)
    submitted += [threads.submit(batches.queue.submit, work) for work in range(1, 5)]
    batches.wait_for(5)
    batches.release.set()
    goes_on.set()
    if fails:
        errors = [each.exception(60) for each in submitted]
        assert [type(error) for error in errors] == [OperationalError] * 5
        assert len(leaders) == 1  # nobody waited for a connection again
        batches.get_ready = lambda: None
    else:
        assert [each.result(60) for each in submitted] == [0, 2, 4, 6, 8]
    assert batches.sizes == ([] if fails else [5])
    assert threads.submit(batches.queue.submit, 7).result(60) == 14


@pytest.mark.parametrize("error", [WaitEnded(Wait.PROCESS), ZeroDivisionError(), SystemExit()])
def test_those_who_wait_go_on_if_only_their_leader_failed_before_it_took_them(
    batches, threads, error
):
    getting_ready, goes_on = threading.Event(), threading.Event()

    def get_ready() -> None:
        batches.get_ready = lambda: None
        getting_ready.set()
        assert goes_on.wait(60)
        raise error

    batches.get_ready = get_ready
    submitted = [threads.submit(batches.queue.submit, 0)]
    assert getting_ready.wait(60)
    for work in range(1, 4):
        submitted.append(threads.submit(batches.queue.submit, work))
        batches.wait_for(work + 1)
    batches.release.set()
    goes_on.set()
    assert error in (failure := submitted[0].exception(60), getattr(failure, "__cause__", None))
    assert [each.result(60) for each in submitted[1:]] == [2, 4, 6]
    assert batches.works == [1, 2, 3]


def test_a_thread_that_is_to_lead_before_it_sleeps_leads(batches, threads):
    first = threads.submit(batches.queue.submit, 0)
    assert batches.started.wait(60)
    lock, passed = batches.queue._lock, threading.Event()

    class Slow:
        """A lock after which the second thread stands still until the lead was passed to it."""

        def __enter__(self) -> None:
            lock.acquire()

        def __exit__(self, *_: object) -> None:
            batches.queue._lock = lock
            lock.release()
            assert passed.wait(60)

    batches.queue._lock = Slow()  # type: ignore[assignment]
    second = threads.submit(batches.queue.submit, 1)
    while batches.queue._lock is not lock:
        pass
    batches.release.set()
    assert first.result(60) == 0
    passed.set()
    assert second.result(60) == 2


def test_a_batch_has_at_most_64_jobs_in_order_and_the_next_leader_takes_the_rest(batches, threads):
    submitted = submit_one_by_one(batches, threads, MAX_BATCH + 6)
    batches.release.set()
    assert [each.result() for each in submitted] == [2 * work for work in range(MAX_BATCH + 6)]
    assert (batches.sizes, batches.works) == ([1, MAX_BATCH, 5], list(range(MAX_BATCH + 6)))


def test_each_job_gets_its_own_error(batches, threads):
    def fail(jobs: Jobs) -> None:
        for job in jobs[1::2]:
            job.set_exception(ValueError(job.work))

    submitted = submit_one_by_one(batches, threads, 5)
    batches.fail = fail
    batches.release.set()
    errors = [each.exception() for each in submitted]
    assert [getattr(error, "args", None) for error in errors] == [None, None, (2,), None, (4,)]


def test_a_database_that_is_down_fails_the_batch_and_all_who_wait_and_the_next_one_tries_again(
    batches, threads
):
    def fail(jobs: Jobs) -> None:
        raise OperationalError("down")

    submitted = submit_one_by_one(batches, threads, 4)
    batches.fail = fail
    batches.release.set()
    errors = [each.exception() for each in submitted]
    assert [type(error) for error in errors] == [OperationalError] * 4
    assert len({id(error) for error in errors}) == 4
    assert batches.sizes == [1]
    batches.fail = lambda jobs: None
    assert batches.queue.submit(7) == 14


@pytest.mark.parametrize("wait", [Wait.LOCK, Wait.QUEUE, Wait.CONNECTION, Wait.PROCESS])
def test_those_behind_a_batch_go_on_if_only_its_leader_stood_still(batches, threads, wait):
    def fail(jobs: Jobs) -> None:
        if jobs[0].work == 0:
            raise WaitEnded(wait)

    submitted = submit_one_by_one(batches, threads, 4)
    batches.fail = fail
    batches.release.set()
    causes = [getattr(each.exception(), "__cause__", None) for each in submitted]
    others = [None] * 3 if wait is Wait.PROCESS else [wait] * 3
    assert [getattr(cause, "wait", None) for cause in causes] == [wait, *others]


def test_jobs_that_were_finished_before_the_database_went_away_keep_their_results(batches, threads):
    def fail(jobs: Jobs) -> None:
        if len(jobs) > 1:
            jobs[0].set_result(100)
            raise OperationalError("down")

    submitted = submit_one_by_one(batches, threads, 3)
    batches.fail = fail
    batches.release.set()
    assert (submitted[0].result(), submitted[1].result()) == (0, 100)
    assert isinstance(submitted[2].exception(), OperationalError)


@pytest.mark.parametrize("error", [ZeroDivisionError, SystemExit, KeyboardInterrupt])
def test_the_lead_passes_on_whatever_ends_the_leader(batches, threads, error):
    def fail(jobs: Jobs) -> None:
        if jobs[0].work == 0:
            raise error

    submitted = submit_one_by_one(batches, threads, 3)
    batches.fail = fail
    batches.release.set()
    assert isinstance(submitted[0].exception(), error)
    assert [each.result() for each in submitted[1:]] == [2, 4]


def test_a_thread_gives_up_while_no_leader_has_taken_its_work(batches, threads, monkeypatch):
    monkeypatch.setattr(group_commit, "TIMEOUT", 0.01)
    first = threads.submit(batches.queue.submit, 0)
    assert batches.started.wait(60)
    with pytest.raises(WaitEnded, match="queue"):
        batches.queue.submit(1)
    batches.release.set()
    assert first.result() == 0
    assert batches.works == [0]


def test_a_thread_does_not_give_up_once_a_leader_has_taken_its_work(batches, threads, monkeypatch):
    second_started, end = threading.Event(), threading.Event()

    def hold_second(jobs: Jobs) -> None:
        if jobs[0].work:
            second_started.set()
            assert end.wait(60)

    batches.fail = hold_second
    submitted = submit_one_by_one(batches, threads, 3)
    slept: list[Any] = []
    monkeypatch.setattr(group_commit, "TIMEOUT", 0)
    sleep = Job.sleep
    monkeypatch.setattr(Job, "sleep", lambda job, *more: slept.append(more) or sleep(job, *more))
    batches.release.set()
    assert second_started.wait(60)
    late = [threads.submit(batches.queue.submit, 9)]
    assert isinstance(late[0].exception(), OperationalError)
    end.set()
    assert [each.result() for each in submitted] == [0, 2, 4]
