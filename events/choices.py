"""Base classes of enumerations that columns, forms and pure rules share. Without Django."""

from enum import StrEnum
from typing import Self


class TextEnum(StrEnum):
    """An enumeration of strings. ``choices()`` fits the argument of a Django field."""

    @classmethod
    def values(cls) -> list[str]:
        return [member.value for member in cls]

    @classmethod
    def choices(cls) -> list[tuple[str, str]]:
        """Each value with its label."""
        return [(member.value, member.value.capitalize()) for member in cls]


class ExplainedEnum(StrEnum):
    """An enumeration of codes, each with a sentence for people: its ``meaning``."""

    meaning: str

    def __new__(cls, code: str, meaning: str) -> Self:
        member = str.__new__(cls, code)
        member._value_, member.meaning = code, meaning
        return member
