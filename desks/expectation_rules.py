"""When a bot that is expected to send signals is late. Pure: the caller passes times and zone.

A bot is expected every so often, or on every trading day: Monday to Friday in its owner's time
zone. It is late once its time and a grace have passed without an accepted signal.
"""

from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

MIN_EVERY, MAX_EVERY = timedelta(minutes=15), timedelta(days=31)
MAX_GRACE = timedelta(days=1)
MAX_AGE = timedelta(days=1)  # the longest maximum age of a signal
SECOND, DAY = timedelta(seconds=1), timedelta(days=1)
SATURDAY = 5  # the first day of the week without trading, as ``weekday()`` counts


@dataclass(frozen=True, slots=True)
class Expectation:
    """How often a bot is expected to send. ``every`` is None for every trading day."""

    every: timedelta | None
    grace: timedelta

    def to_dict(self) -> dict[str, Any]:
        """The expectation as the API shows it. Lengths are in seconds."""
        return {
            "every": None if self.every is None else self.every // SECOND,
            "tradingDays": self.every is None,
            "grace": self.grace // SECOND,
        }

    def deadline(self, heard: datetime, zone: str) -> datetime:
        """When a bot that was last heard at ``heard`` is late. ``zone`` is its owner's time zone.

        A trading day ends at midnight. The first one that counts is the one after the day of
        ``heard``.
        """
        if self.every is not None:
            return heard + self.every + self.grace
        local = ZoneInfo(zone)
        day = heard.astimezone(local).date() + DAY
        while day.weekday() >= SATURDAY:
            day += DAY
        return datetime.combine(day + DAY, time.min, local).astimezone(heard.tzinfo) + self.grace
