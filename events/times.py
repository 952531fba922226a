"""Times: read and written as RFC 3339 (UTC, milliseconds, Z), and in words. Without Django."""

import re
from datetime import UTC, datetime, timedelta
from typing import overload
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

UNITS = {
    "year": timedelta(days=365),
    "month": timedelta(days=30),
    "day": timedelta(days=1),
    "hour": timedelta(hours=1),
    "minute": timedelta(minutes=1),
}


def relative(at: datetime, now: datetime) -> str:
    """Formats a time as ``3 hours ago`` or ``in 2 days``. ``static/js/times.js`` does the same."""
    distance = abs(now - at)
    if distance < UNITS["minute"]:
        return "in less than a minute" if at > now else "just now"
    return f"in {span(distance)}" if at > now else f"{span(distance)} ago"


def span(length: timedelta) -> str:
    """Formats a length of time in its largest unit, such as ``3 hours``."""
    unit = next((name for name, one in UNITS.items() if length >= one), None)
    if unit is None:
        return "less than a minute"
    count = length // UNITS[unit]
    return f"{count} {unit}{'' if count == 1 else 's'}"


def exact_span(length: timedelta) -> str:
    """Formats whole seconds in the largest unit that needs no fraction, such as ``90 minutes``."""
    units = {name: UNITS[name] for name in ("day", "hour", "minute")}
    name = next((name for name, one in units.items() if length and not length % one), "second")
    count = length // units.get(name, timedelta(seconds=1))
    return f"{count} {name}{'' if count == 1 else 's'}"


def zone_named(name: str) -> ZoneInfo:
    """The time zone of this name. UTC if the name is empty, or this machine does not know it.

    A stored name may come from a machine with newer zone files.
    """
    try:
        return ZoneInfo(name or "UTC")
    except ZoneInfoNotFoundError:
        return ZoneInfo("UTC")


def in_zone(at: datetime, zone: str) -> str:
    """Formats a time as ``23 November 2026, 10:11 CET``, in the zone of this name."""
    return at.astimezone(zone_named(zone)).strftime("%-d %B %Y, %H:%M %Z")


def truncate_to_milliseconds(time: datetime) -> datetime:
    """The time in the precision of the API, so that the stored time equals the shown one."""
    return time.replace(microsecond=time.microsecond // 1000 * 1000)


@overload
def to_rfc3339(time: datetime) -> str: ...
@overload
def to_rfc3339(time: datetime | None) -> str | None: ...
def to_rfc3339(time: datetime | None) -> str | None:
    """Formats a time as ``2026-11-20T09:30:00.000Z``; None stays None."""
    if time is None:
        return None
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


RFC3339_DETAIL = "Send a time of RFC 3339, such as 2027-01-31T00:00:00Z."
_RFC3339 = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:[0-5]\d)",
    re.ASCII | re.IGNORECASE,
)


def parse_rfc3339(text: str) -> datetime:
    """Reads a time with ``Z`` or an offset, and converts it to UTC. Raises ``ValueError``.

    A leap second, which is the last one of a month, is read as the second after it: Unix time gives
    both the same number.
    """
    if not _RFC3339.fullmatch(text):
        raise ValueError(RFC3339_DETAIL)
    to_minute, second, rest = text[:17], text[17:19], text[19:]
    is_leap = second == "60"
    try:
        read = datetime.fromisoformat(f"{to_minute}{'59' if is_leap else second}{rest}".upper())
        time = read.astimezone(UTC) + timedelta(seconds=is_leap)
    except OverflowError as error:  # a year beyond 9999
        raise ValueError(RFC3339_DETAIL) from error
    if is_leap and (time.day, time.hour, time.minute, time.second) != (1, 0, 0, 0):
        raise ValueError(RFC3339_DETAIL)
    return time
