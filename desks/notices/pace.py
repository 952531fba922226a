"""A pace that all processes keep together. A bookmark stores up to when it is used. Pure."""

from datetime import datetime, timedelta

from limits import parse

from events.http.limits import OFF

SAVED_UP = timedelta(seconds=1)


def interval(rate: str) -> timedelta:
    """The time between two of a rate such as ``10/second``; zero for ``off``."""
    if rate == OFF:
        return timedelta(0)
    parsed = parse(rate)
    return timedelta(seconds=parsed.get_expiry()) / parsed.amount


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
