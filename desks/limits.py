"""How often somebody may do something: moving windows (contract, section 7).

Counted exactly across all workers in the store that ``LIMITS_URL`` names, or in each process
without one. While that store is away each process counts for itself, and says so in the log; one
that hangs is asked only now and then, since whoever asks it waits.
"""

import functools
import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from django.conf import settings
from limits import RateLimitItem, parse
from limits.errors import StorageError
from limits.storage import storage_from_string
from limits.strategies import MovingWindowRateLimiter

from events.refusals import RateLimited

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")

IN_MEMORY = "memory://"
OFF = "off"
PATIENCE = 0.5  # seconds
# For so long a store that was away is not asked again: seconds.
REST = 2

rests_until: dict[str, float] = {}


@dataclass(frozen=True, slots=True)
class Budget:
    """What is left of a limit: so many of ``quota`` in each ``window``, more after ``resets_in``.

    The last two are whole seconds.
    """

    name: str
    quota: int
    window: int
    left: int
    resets_in: int

    def headers(self) -> dict[str, str]:
        """As draft-ietf-httpapi-ratelimit-headers writes it."""
        return {
            "RateLimit-Policy": f'"{self.name}";q={self.quota};w={self.window}',
            "RateLimit": f'"{self.name}";r={self.left};t={self.resets_in}',
        }


def spend(name: str, who: str) -> None:
    """Counts one more; raises ``RateLimited`` and counts nothing when none is left."""
    if not has_room(name, who):
        left = budget(name, who)
        raise RateLimited(left.resets_in if left else 1, left.headers() if left else {})


def has_room(name: str, who: str) -> bool:
    """Counts one more and says whether there was room for it."""
    limit = _limit(name)
    return limit is None or _ask(lambda limiter: limiter.hit(limit, name, who))


def budget(name: str, who: str) -> Budget | None:
    """What somebody has left of a limit; null where it is off."""
    limit = _limit(name)
    if limit is None:
        return None
    window = _ask(lambda limiter: limiter.get_window_stats(limit, name, who))
    resets_in = max(1, math.ceil(window.reset_time - time.time()))
    return Budget(name, limit.amount, limit.get_expiry(), window.remaining, resets_in)


@functools.cache
def _parsed(text: str) -> RateLimitItem:
    return parse(text)


def _limit(name: str) -> RateLimitItem | None:
    text = settings.LIMITS[name]
    return None if text == OFF else _parsed(text)


@functools.cache
def limiter(url: str) -> MovingWindowRateLimiter:
    """What counts in the store at ``url``."""
    patience = {"socket_timeout": PATIENCE, "socket_connect_timeout": PATIENCE}
    options = {} if url == IN_MEMORY else patience
    return MovingWindowRateLimiter(storage_from_string(url, wrap_exceptions=True, **options))


def _ask(question: Callable[[MovingWindowRateLimiter], Answer]) -> Answer:
    """The answer of the shared store, or while it is away of this process's own."""
    url = settings.LIMITS_URL or IN_MEMORY
    if time.monotonic() < rests_until.get(url, 0):
        return question(limiter(IN_MEMORY))
    try:
        return question(limiter(url))
    except StorageError:
        rests_until[url] = time.monotonic() + REST
        logger.warning("The limits' store is away: this process counts for itself.")
        return question(limiter(IN_MEMORY))
