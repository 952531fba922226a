"""The JSON schemas of plain values. Without Django, for the pure modules of ``signals.law``."""

from collections.abc import Iterable
from typing import Any

DATE_TIME = {"type": "string", "format": "date-time", "pattern": r"\.[0-9]{3}Z$"}
POSITION = {"type": "integer", "format": "int64", "minimum": 1}
COUNT = {"type": "integer", "minimum": 0}
STRING = {"type": "string"}
BOOLEAN = {"type": "boolean"}
OBJECT = {"type": "object"}


def pattern(regex: str, **options: Any) -> dict[str, Any]:
    """The schema of a string that matches this pattern completely."""
    return {"type": "string", "pattern": f"^{regex}$", **options}


def one_of(choices: Iterable[str]) -> dict[str, Any]:
    """The schema of a string that is one of these."""
    return {"type": "string", "enum": [str(choice) for choice in choices]}
