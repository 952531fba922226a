"""The store of the rate limits in memory, which each process uses while the shared one is down."""

import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import cast

import pytest
import time_machine
from django.utils import timezone
from limits import parse

from events.http import rate_limits
from events.http.rate_limits import FORGET_INTERVAL, StoreInMemory
from events.http.refusals import RateLimited

pytestmark = pytest.mark.once

THREADS, ROUNDS = 8, 300
MOVING, FIXED = "changes", "desk_day"  # limits with such windows


@pytest.fixture
def memory(settings) -> StoreInMemory:
    """The store in memory. No other one counts."""
    settings.LIMITS_URL = ""
    return cast(StoreInMemory, rate_limits.store(rate_limits.IN_MEMORY))


@pytest.fixture
def clock(memory) -> Iterator[time_machine.Traveller]:
    """The time, which stands still until the test shifts it. The store has just looked."""
    with time_machine.travel(timezone.now(), tick=False) as clock:
        memory.forget(time.time())
        yield clock


@pytest.fixture
def fast_switching():
    """Threads take turns so often that what they can do at once, they do."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def names_in(memory: StoreInMemory) -> set[str]:
    """The names of everything that the store keeps."""
    return {*memory.events, *memory.storage, *memory.expirations, *memory.locks}


def test_of_threads_that_count_a_new_client_at_once_each_is_counted(
    fast_switching, memory, settings
):
    settings.LIMITS = {**settings.LIMITS, FIXED: f"{THREADS}/day"}
    start = threading.Barrier(THREADS)

    def count() -> None:
        for number in range(ROUNDS):
            start.wait(timeout=60)  # broken if another thread failed
            rate_limits.try_consume_in_process(FIXED, f"desk-{number}")

    with ThreadPoolExecutor(THREADS) as pool:
        for done in [pool.submit(count) for _ in range(THREADS)]:
            done.result()
    left = [rate_limits.budget(FIXED, f"desk-{number}").remaining for number in range(ROUNDS)]
    assert left == [0] * ROUNDS


def test_clients_whose_windows_have_ended_are_forgotten(memory, clock, settings):
    settings.LIMITS = {**settings.LIMITS, MOVING: "1/second", FIXED: "1/second"}
    for number in range(100):
        rate_limits.consume(MOVING, f"client-{number}")
        rate_limits.consume(FIXED, f"client-{number}")
    assert len(names_in(memory)) == 200
    clock.shift(FORGET_INTERVAL)
    rate_limits.consume(MOVING, "another")
    assert names_in(memory) == {parse("1/second").key_for(MOVING, "another")}


def test_of_a_client_that_goes_on_the_requests_before_its_window_are_forgotten(
    memory, clock, settings
):
    settings.LIMITS = {**settings.LIMITS, MOVING: "1/second"}
    for _ in range(3 * FORGET_INTERVAL):
        rate_limits.consume(MOVING, "client")
        clock.shift(1.5)
    [entries] = memory.events.values()
    assert len(entries) <= FORGET_INTERVAL


def test_clients_are_forgotten_also_after_the_clock_was_set_back(memory, clock, settings):
    settings.LIMITS = {**settings.LIMITS, FIXED: "1/second"}
    rate_limits.consume(FIXED, "before")
    clock.shift(-24 * 3600)
    for name in ("one", "other"):
        rate_limits.consume(FIXED, name)
        clock.shift(FORGET_INTERVAL)
    rate_limits.consume(FIXED, "another")
    keys = {parse("1/second").key_for(FIXED, name) for name in ("before", "another")}
    assert names_in(memory) == keys


# The places of two that are free an hour after the first of two requests.
@pytest.mark.parametrize(("name", "free"), [(MOVING, 1), (FIXED, 2)])
def test_what_is_in_its_window_counts_after_each_look_for_what_has_expired(
    memory, clock, settings, name, free
):
    settings.LIMITS = {**settings.LIMITS, name: "2/hour"}
    rate_limits.consume(name, "client")
    clock.shift(FORGET_INTERVAL)  # so the next use looks, after each shift
    rate_limits.consume(name, "client")
    clock.shift(FORGET_INTERVAL)
    with pytest.raises(RateLimited):
        rate_limits.consume(name, "client")
    clock.shift(3600 - 2 * FORGET_INTERVAL + 1)
    assert [rate_limits.try_consume(name, "client") for _ in range(3)].count(True) == free


def test_a_hold_lasts_until_its_time_and_is_forgotten_then(memory, clock):
    long, short, again = (
        rate_limits.one_at_a_time("events", client, seconds)
        for client, seconds in [("one", 2 * FORGET_INTERVAL), ("other", 1), ("one", 1)]
    )
    with long, short:
        clock.shift(FORGET_INTERVAL)
        with pytest.raises(RateLimited), again:
            pass
        assert len(names_in(memory)) == 1


def test_a_use_starts_no_thread(memory):
    with rate_limits.one_at_a_time("events", "client", 30):
        pass
    assert memory.timer.ident is None  # it was never started
