"""When a message that failed is tried again, and when the service gives up. Pure."""

import random

# Seconds after the first failure, the second, and so on; the last for all that follow.
PAUSES = (5, 30, 2 * 60, 10 * 60, 30 * 60, 3600, 3 * 3600)
JITTER = 0.2
LONGEST_PAUSE = 24 * 3600  # for an endpoint that asks for more
GIVE_UP_AFTER = 75 * 3600  # seconds of failures only
GONE = 410


def pause_after(failures: int, retry_after: float | None) -> float:
    """Seconds until the next attempt after this many failures in a row, at least one.

    An endpoint can ask for a longer pause (``Retry-After``), not for a shorter one.
    """
    usual = PAUSES[min(failures, len(PAUSES)) - 1]
    spread = random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - no secret  # nosec B311
    return max(usual * spread, min(retry_after or 0, LONGEST_PAUSE))
