"""Rate limits (contract, section 7).

All workers share the counters in the store at ``LIMITS_URL``. Without a store, each process counts
for itself. If the store is down, each process also counts for itself and logs a warning. It retries
the store after ``COOLDOWN`` seconds, because each attempt can block a request for ``TIMEOUT``.
"""

import functools
import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar, cast

from django.conf import settings
from limits import RateLimitItem, parse
from limits.errors import StorageError
from limits.storage import MemoryStorage, Storage, storage_from_string
from limits.strategies import FixedWindowRateLimiter, MovingWindowRateLimiter, RateLimiter

from events.http.refusals import RateLimited

logger = logging.getLogger(__name__)

Result = TypeVar("Result")
LimitKey = tuple[str, str]  # the name of a limit, and the id of the client that it counts

IN_MEMORY = "memory://"
OFF = "off"
# Limits with fixed windows, which store one number each. A moving window stores the time of every
# request: 50,000 requests of a desk take 1 MB of Redis.
FIXED_WINDOWS = ("desk_day", "refusals", "refusals_suppressed")
CHANGES = "changes"
# They count what was made. A request to make it counts as a change (contract, section 7).
OF_MADE = ("minting", "destinations")
TIMEOUT = 0.5  # seconds
COOLDOWN = 2  # seconds until a store that failed is used again
FORGET_INTERVAL = 60  # seconds between two looks for what has expired in memory

# The store in memory is used by one thread at a time. Of two that count at once for a new client,
# one would drop what the other has counted.
_memory = threading.Lock()

retry_times: dict[str, float] = {}  # URL of a store that failed: monotonic time of the next attempt


@dataclass(frozen=True, slots=True)
class Budget:
    """The state of a limit: ``remaining`` of ``quota`` requests per ``window``.

    ``window`` and ``resets_in`` are whole seconds.
    """

    name: str
    quota: int
    window: int
    remaining: int
    resets_in: int

    def headers(self) -> dict[str, str]:
        """The response headers of draft-ietf-httpapi-ratelimit-headers."""
        return {
            "RateLimit-Policy": f'"{self.name}";q={self.quota};w={self.window}',
            "RateLimit": f'"{self.name}";r={self.remaining};t={self.resets_in}',
        }


class StoreInMemory(MemoryStorage):
    """The library's store in memory, which drops what has expired itself.

    The library starts a thread on use, which looks at every client there ever was. It forgets none
    that a moving window counted. What has expired counts for nothing: to drop it frees memory.
    """

    def __init__(self) -> None:
        super().__init__()
        self.timer.cancel()
        self.timer.join()
        self.timer = _NoTimer()
        self._forgot_at = 0.0

    def forget_now_and_then(self) -> None:
        """Drops what has expired, if it has not done so for ``FORGET_INTERVAL``.

        It does so at once if the clock was set back.
        """
        now = time.time()
        if abs(now - self._forgot_at) >= FORGET_INTERVAL:
            self.forget(now)

    def forget(self, now: float) -> None:
        """Drops what has expired at this time."""
        self._forgot_at = now
        for key, entries in list(self.events.items()):  # of moving windows
            while entries and entries[-1].expiry < now:  # the last one is the oldest
                entries.pop()
            if not entries:
                self.clear(key)
        for key, expiry in list(self.expirations.items()):  # of fixed windows and holds
            if expiry < now:
                self.clear(key)


class _NoTimer(threading.Timer):
    """Is never started. The library starts no timer while the one before is alive."""

    def __init__(self) -> None:
        super().__init__(0, lambda: None)

    def is_alive(self) -> bool:
        return True


def desk_limits(user_id: str) -> list[LimitKey]:
    """The limits on all writes by a desk's owner and its bots."""
    return [("desk", user_id), ("desk_day", user_id)]


def consume(name: str, client_id: str) -> Budget | None:
    """Counts one request against a limit. Raises ``RateLimited`` if the limit is reached."""
    return consume_all([(name, client_id)])


def consume_all(keys: list[LimitKey], *, with_room: Iterable[LimitKey] = ()) -> Budget | None:
    """Counts one request against several limits; returns the most restrictive, None if all are off.

    Raises ``RateLimited`` if one of them, or of the limits ``with_room``, is reached, and counts
    nothing then. Exception: a request that loses a race for the last place is still counted by the
    limits checked before.
    """
    before = [budget(name, client_id) for name, client_id in keys]
    others = [budget(name, client_id) for name, client_id in with_room]
    tightest = most_restrictive([*before, *others])
    if tightest is not None and not tightest.remaining:
        raise _rate_limited(tightest)
    for name, client_id in keys:
        if not try_consume(name, client_id):
            raise _rate_limited(budget(name, client_id))
    after = [replace(each, remaining=each.remaining - 1) for each in before if each]
    return most_restrictive([*after, *others])


def consume_change(name: str, user_id: str, others: Iterable[LimitKey] = ()) -> Budget | None:
    """Counts a user's request to change something against the limit ``name`` and others.

    A request to make something counts as a change, and needs room in the limit of what is made. If
    it succeeds, call ``count_made``.
    """
    if name in OF_MADE:
        return consume_all([(CHANGES, user_id), *others], with_room=[(name, user_id)])
    return consume_all([(name, user_id), *others])


def count_made(name: str, user_id: str) -> Budget | None:
    """Counts what a request made, if the limit ``name`` counts that. Returns what is left of it.

    Requests that run at once may exceed the limit: what is made is not taken back.
    """
    if name not in OF_MADE:
        return None
    try_consume(name, user_id)
    return budget(name, user_id)


def try_consume(name: str, client_id: str) -> bool:
    """Counts one request against a limit. Returns False if the limit is reached."""
    return _on_store(lambda store: _hit(store, name, client_id))


def try_consume_in_process(name: str, client_id: str) -> bool:
    """The same, counted in this process only: asks no store, so it may run under the log's lock."""
    return _in_memory(lambda store: _hit(store, name, client_id))


@contextmanager
def one_at_a_time(name: str, client_id: str, seconds: int) -> Iterator[None]:
    """Admits one request of a client to the block, among those that the store counts.

    Raises ``RateLimited`` for the others meanwhile. After ``seconds`` the next one is admitted, as
    this one may have died. If it goes on nevertheless, its end does not release the next one's.
    """
    began = time.monotonic()
    key = f"one-at-a-time:{name}:{client_id}"
    count, admitted_by = _on_store(lambda store: (store.incr(key, seconds), store))
    if count > 1:
        raise RateLimited(1)
    try:
        yield
    finally:
        if time.monotonic() < began + seconds:
            _release(admitted_by, key)


def budget(name: str, client_id: str) -> Budget | None:
    """The state of a limit for a client. None if the limit is off."""
    limit = _limit(name)
    if limit is None:
        return None
    stats = _on_store(lambda store: _limiter(store, name).get_window_stats(limit, name, client_id))
    window = limit.get_expiry()
    untouched = stats.remaining == limit.amount
    resets_in = window if untouched else max(1, math.ceil(stats.reset_time - time.time()))
    return Budget(name, limit.amount, window, max(0, stats.remaining), resets_in)


def most_restrictive(budgets: Iterable[Budget | None]) -> Budget | None:
    """The budget with the least remaining; among equals, the one that takes longest to reset."""
    limited = [budget for budget in budgets if budget]
    return min(limited, key=lambda budget: (budget.remaining, -budget.resets_in), default=None)


def _rate_limited(budget: Budget | None) -> RateLimited:
    return RateLimited(budget.resets_in, budget.headers()) if budget else RateLimited(1)


_parse = functools.cache(parse)


def _limit(name: str) -> RateLimitItem | None:
    text = settings.LIMITS[name]
    return None if text == OFF else _parse(text)


@functools.cache
def store(url: str) -> Storage:
    """The store at this URL."""
    if url == IN_MEMORY:
        return StoreInMemory()
    timeouts = {"socket_timeout": TIMEOUT, "socket_connect_timeout": TIMEOUT}
    return cast(Storage, storage_from_string(url, wrap_exceptions=True, **timeouts))


def _hit(store: Storage, name: str, client_id: str) -> bool:
    limit = _limit(name)
    return limit is None or _limiter(store, name).hit(limit, name, client_id)


def _limiter(store: Storage, name: str) -> RateLimiter:
    strategy = FixedWindowRateLimiter if name in FIXED_WINDOWS else MovingWindowRateLimiter
    return strategy(store)


def _on_store(operation: Callable[[Storage], Result]) -> Result:
    """Runs the operation on the shared store, or on this process's own if that is down."""
    url = settings.LIMITS_URL or IN_MEMORY
    if url == IN_MEMORY or time.monotonic() < retry_times.get(url, 0):
        return _in_memory(operation)
    try:
        return operation(store(url))
    except StorageError:
        _note_failure(url)
        return _in_memory(operation)


def _release(admitted_by: Storage, key: str) -> None:
    """Ends a hold in the store that admitted it, also if another request found it down meanwhile.

    If that fails, the hold ends by its time.
    """
    if isinstance(admitted_by, StoreInMemory):
        _in_memory(lambda memory: memory.clear(key))
        return
    try:
        admitted_by.clear(key)
    except StorageError:
        _note_failure(settings.LIMITS_URL)


def _note_failure(url: str) -> None:
    retry_times[url] = time.monotonic() + COOLDOWN
    logger.warning("The store of the rate limits is down: this process counts for itself.")


def _in_memory(operation: Callable[[Storage], Result]) -> Result:
    with _memory:
        memory = cast(StoreInMemory, store(IN_MEMORY))
        memory.forget_now_and_then()
        return operation(memory)
