"""Reads times of RFC 3339. Without Django, for the pure modules of ``signals.law``."""

import re
from datetime import UTC, datetime

EXAMPLE = "2027-01-31T00:00:00Z"
DETAIL = f"Send a time of RFC 3339, such as {EXAMPLE}."
FORM = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:[0-5]\d)",
    re.ASCII | re.IGNORECASE,
)


def parse_rfc3339(text: str) -> datetime:
    """Reads a time with ``Z`` or an offset, and converts it to UTC. Raises ``ValueError``."""
    if not FORM.fullmatch(text):
        raise ValueError(DETAIL)
    try:
        return datetime.fromisoformat(text.upper()).astimezone(UTC)
    except OverflowError as error:  # a year beyond 9999
        raise ValueError(DETAIL) from error
