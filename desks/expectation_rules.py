"""When a bot that is expected to send signals is late. Pure: the caller passes times and zone.

A bot is expected every so often, or on every trading day: Monday to Friday in its owner's time
zone. It is late once its time and a grace have passed without an accepted signal. Lengths of time
are whole seconds.
"""

from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Annotated, TypedDict

from events.json_schema import Example, JsonSchema
from events.times import zone_named

MINUTE, HOUR, DAY = 60, 60 * 60, 24 * 60 * 60
MIN_EVERY, MAX_EVERY = 15 * MINUTE, 31 * DAY
MAX_GRACE = DAY
MAX_AGE = DAY  # the longest maximum age of a signal
NEXT_DAY = timedelta(days=1)
SATURDAY = 5  # the first day of the week without trading, as ``weekday()`` counts

MaxAge = Annotated[
    Annotated[int, JsonSchema(minimum=1, maximum=MAX_AGE)] | None,
    "Seconds. A signal with an older sentAt is refused. Null if the age does not matter.",
]


class ExpectationRecord(TypedDict):
    """How often the bot is expected to send: every so often, or on each trading day."""

    every: Annotated[
        Annotated[int, JsonSchema(minimum=MIN_EVERY, maximum=MAX_EVERY)] | None,
        "Seconds. Null for each trading day.",
        Example(3600),
    ]
    tradingDays: Annotated[
        bool, "On each day from Monday to Friday, in the owner's time zone.", Example(False)
    ]
    grace: Annotated[
        int,
        JsonSchema(minimum=0, maximum=MAX_GRACE),
        "Seconds by which a signal may be late.",
        Example(300),
    ]


@dataclass(frozen=True, slots=True)
class Expectation:
    """How often a bot is expected to send. ``every`` is None for every trading day."""

    every: int | None
    grace: int

    def to_dict(self) -> ExpectationRecord:
        """The expectation as the API shows it."""
        return {"every": self.every, "tradingDays": self.every is None, "grace": self.grace}

    def deadline(self, heard: datetime, zone: str) -> datetime:
        """When a bot that was last heard at ``heard`` is late. ``zone`` is its owner's time zone.

        A trading day ends at midnight. The first one that counts is the one after the day of
        ``heard``.
        """
        grace = timedelta(seconds=self.grace)
        if self.every is not None:
            return heard + timedelta(seconds=self.every) + grace
        local = zone_named(zone)
        day = heard.astimezone(local).date() + NEXT_DAY
        while day.weekday() >= SATURDAY:
            day += NEXT_DAY
        midnight = datetime.combine(day + NEXT_DAY, time.min, local)
        return midnight.astimezone(heard.tzinfo) + grace
