"""The store of the rate limits in memory, which each process uses while the shared one is down."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import cast

import pytest
from limits.storage import MemoryStorage

from events.http import rate_limits

pytestmark = pytest.mark.once

THREADS, ROUNDS = 8, 300


@pytest.fixture
def fast_switching():
    """Threads take turns so often that what they can do at once, they do."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_threads_that_count_at_once_all_get_an_answer(fast_switching):
    memory = cast(MemoryStorage, rate_limits.store(rate_limits.IN_MEMORY))
    # When the last timer has ended, the next use starts another one.
    start = threading.Barrier(THREADS, action=lambda: memory.timer.join())  # noqa: PLW0108 - a new one

    def count(number: int) -> None:
        for _ in range(ROUNDS):
            start.wait(timeout=60)  # broken if another thread failed
            rate_limits.try_consume_in_process("refusals_suppressed", f"sender-{number}")

    rate_limits.try_consume_in_process("refusals_suppressed", "anybody")
    with ThreadPoolExecutor(THREADS) as pool:
        for done in [pool.submit(count, number) for number in range(THREADS)]:
            done.result()
