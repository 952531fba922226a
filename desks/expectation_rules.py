"""When a bot that is expected to send signals is late. Pure: the caller passes times and zone.

A bot is expected every so often, or on every trading day: Monday to Friday in its owner's time
zone. It is late once its time and a grace have passed without an accepted signal.
"""

from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Annotated, TypedDict
from zoneinfo import ZoneInfo

from events.json_schema import Example, JsonSchema

MIN_EVERY, MAX_EVERY = timedelta(minutes=15), timedelta(days=31)
MAX_GRACE = timedelta(days=1)
MAX_AGE = timedelta(days=1)  # the longest maximum age of a signal
SECOND, DAY = timedelta(seconds=1), timedelta(days=1)
SATURDAY = 5  # the first day of the week without trading, as ``weekday()`` counts


def seconds(least: timedelta, most: timedelta) -> JsonSchema:
    """The JSON schema of a length of time in seconds."""
    return JsonSchema(minimum=least // SECOND, maximum=most // SECOND)


MaxAge = Annotated[
    Annotated[int, seconds(SECOND, MAX_AGE)] | None,
    "Seconds. A signal with an older sentAt is refused. Null if the age does not matter.",
]


class ExpectationRecord(TypedDict):
    """How often the bot is expected to send: every so often, or on each trading day."""

    every: Annotated[
        Annotated[int, seconds(MIN_EVERY, MAX_EVERY)] | None,
        "Seconds. Null for each trading day.",
        Example(3600),
    ]
    tradingDays: Annotated[
        bool, "On each day from Monday to Friday, in the owner's time zone.", Example(False)
    ]
    grace: Annotated[
        int,
        seconds(timedelta(0), MAX_GRACE),
        "Seconds by which a signal may be late.",
        Example(300),
    ]


@dataclass(frozen=True, slots=True)
class Expectation:
    """How often a bot is expected to send. ``every`` is None for every trading day."""

    every: timedelta | None
    grace: timedelta

    def to_dict(self) -> ExpectationRecord:
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
