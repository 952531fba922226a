"""Times as the contract writes them: RFC 3339, UTC, milliseconds, Z."""

from datetime import UTC, datetime


def to_millisecond(moment: datetime) -> datetime:
    """The moment cut to the precision that answers show, so that what is kept is what is shown."""
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def written(moment: datetime | None) -> str | None:
    """``2026-11-20T09:30:00.000Z``; null stays null."""
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
