"""Parameters and bodies checked by a serializer, with everything unknown refused."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django.http import QueryDict
from rest_framework import serializers

from events.refusals import FieldError, Invalid

PAGE = 100
LARGEST_PAGE = 1000
LONGEST_TEXT = 128

# No answer repeats a credential: they are longer than any name that is shown whole, and the
# framework's sentence would quote the value.
LONGEST_SHOWN, LETTERS_SHOWN = 40, 8
WITHOUT_WHAT_WAS_SENT = {"invalid_choice": "Send one of the values that this field takes."}


class Strict(serializers.Serializer[Any]):
    """A serializer that refuses what it does not know, and says ``Invalid`` instead of a 400."""

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """The checked values; raises ``Invalid`` with one error for each fault."""
        checked = cls(data=cls._plain(given))
        checked.is_valid()
        errors = [*_unknown(checked, given), *_repeated(checked, given), *_faults(checked.errors)]
        if errors:
            raise Invalid(errors=errors)
        return dict(checked.validated_data)

    @classmethod
    def _plain(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """A query as it is: in a form, the framework would take an empty field as a missing one."""
        if not isinstance(given, QueryDict):
            return given
        lists = {
            name
            for name, field in cls._declared_fields.items()
            if isinstance(field, serializers.ListField)
        }
        return {name: given.getlist(name) if name in lists else given[name] for name in given}


class WholeNumber(serializers.IntegerField):
    """Plain digits: not ``1_0``, ``+1`` or ``1.0``, which the framework takes as well."""

    def to_internal_value(self, data: Any) -> int:
        if not (isinstance(data, str) and data.isascii() and data.isdigit()):
            self.fail("invalid")
        return super().to_internal_value(data)


class Text(serializers.CharField):
    """Text as it is in JSON: not a number, which the framework would write out."""

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class PageParameters(Strict):
    """What every list takes."""

    limit = WholeNumber(
        min_value=1,
        max_value=LARGEST_PAGE,
        default=PAGE,
        help_text="How many at most.",
    )
    after = serializers.CharField(
        max_length=LONGEST_TEXT,
        required=False,
        help_text="The next of an earlier answer: go on behind it.",
    )


def _unknown(checked: Strict, given: Mapping[str, Any]) -> Iterator[FieldError]:
    for name in given:
        if name not in checked.fields:
            shown = name if len(name) <= LONGEST_SHOWN else f"{name[:LETTERS_SHOWN]}…"
            yield FieldError(field=shown, code="unknown", detail="There is no such field here.")


def _repeated(checked: Strict, given: Mapping[str, Any]) -> Iterator[FieldError]:
    if not isinstance(given, QueryDict):
        return
    for name, field in checked.fields.items():
        if len(given.getlist(name)) > 1 and not isinstance(field, serializers.ListField):
            yield FieldError(field=name, code="repeated", detail="Give this once.")


def _faults(errors: Any, path: Iterable[str] = ()) -> Iterator[FieldError]:
    """The framework's nested errors as a flat list, each with the path of its field."""
    if isinstance(errors, Mapping):
        for name, inner in errors.items():
            yield from _faults(inner, [*path, str(name)])
    else:
        for error in errors:
            if isinstance(error, Mapping):
                yield from _faults(error, path)
            else:
                code = getattr(error, "code", "invalid")
                detail = WITHOUT_WHAT_WAS_SENT.get(code, str(error))
                yield FieldError(field=".".join(path), code=code, detail=detail)
