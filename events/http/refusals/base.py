"""The base of every refusal."""

from collections.abc import Iterator
from typing import Any, ClassVar, TypedDict


class FieldError(TypedDict):
    """One error of one field: the field's name, a short code, and a sentence."""

    field: str
    code: str
    detail: str


class Refused(Exception):
    """The service refuses the request. Except for ``Unavailable``, it has not changed anything.

    ``detail`` replaces the class's sentence if more is known. ``members`` are the other members of
    the problem body: ``errors``, ``sent``, ``elected``, ``first``, ``serverTime`` …
    """

    code: ClassVar[str]
    status: ClassVar[int]
    title: ClassVar[str]
    detail: str

    def __init__(self, detail: str | None = None, **members: Any) -> None:
        self.detail = detail or type(self).detail
        self.members = members
        self.headers: dict[str, str] = {}
        super().__init__(f"{self.code}: {self.detail}")

    @classmethod
    def registry(cls) -> Iterator[type["Refused"]]:
        """Yields every refusal that has a code, in the order of definition."""
        for refusal in cls.__subclasses__():
            if "code" in vars(refusal):
                yield refusal
            yield from refusal.registry()
