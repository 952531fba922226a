"""The base class of enumerations that columns, forms and pure rules share. Without Django."""

from enum import StrEnum


class TextEnum(StrEnum):
    """An enumeration of strings. ``choices()`` fits the argument of a Django field."""

    @classmethod
    def values(cls) -> list[str]:
        return [member.value for member in cls]

    @classmethod
    def choices(cls) -> list[tuple[str, str]]:
        """Each value with its label."""
        return [(member.value, member.value.capitalize()) for member in cls]
