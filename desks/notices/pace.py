"""A pace that all processes keep together. A bookmark stores up to when it is used. Pure."""

from datetime import datetime, timedelta

SAVED_UP = timedelta(seconds=1)


def allowed(
    paced_to: datetime | None, now: datetime, interval: timedelta, most: int
) -> tuple[int, datetime]:
    """How many may be sent now, at most ``most``, and the time up to which the pace is used before.

    ``interval`` is the time between two of them; zero for no pace. ``paced_to`` is the stored time.
    What was not used in the last second is saved up, and no more.
    """
    if not interval:
        return most, now
    saved_up = now - max(interval, SAVED_UP)
    paced_to = max(paced_to or saved_up, saved_up)
    return min(most, max(0, (now - paced_to) // interval)), paced_to
