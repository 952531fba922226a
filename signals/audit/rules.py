"""Helpers with which the audit checks an event or a row."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

Row = dict[str, Any]

# What code raises when it reads an event whose content was tampered with.
UNREADABLE = (KeyError, TypeError, ValueError, AttributeError)


class AuditMismatchError(Exception):
    """The event cannot follow the ones before it. The message says what is wrong."""


def require(holds: object, what: str) -> None:
    """Raises ``AuditMismatchError(what)`` if ``holds`` is false."""
    if not holds:
        raise AuditMismatchError(what)


def require_same(logged: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Raises ``AuditMismatchError`` with the names of the members that differ."""
    if differing := differences(logged, expected):
        raise AuditMismatchError(", ".join(differing))


def require_members(logged: Mapping[str, Any], names: Iterable[str]) -> None:
    """Raises ``AuditMismatchError`` if the members are not exactly ``names``."""
    require(set(logged) == set(names), "members")


def moment(text: str | None) -> datetime | None:
    """Parses a time of an event. Raises ``ValueError``."""
    return None if text is None else datetime.fromisoformat(text)


def differences(logged: Mapping[str, Any], stored: Mapping[str, Any]) -> list[str]:
    """Returns the names whose values differ, or that only one of the mappings has."""
    return [
        name
        for name in dict.fromkeys([*logged, *stored])
        if name not in logged or name not in stored or logged[name] != stored[name]
    ]
