"""Base classes for the serializers of query parameters and bodies. Unknown fields are refused."""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from django.http import QueryDict
from rest_framework import serializers

from events.http.refusals import FieldError, Invalid

DEFAULT_PAGE_SIZE = 100
MAX_PAGE_SIZE = 1000
MAX_TEXT_LENGTH = 128

RFC_3339 = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:[0-5]\d)",
    re.ASCII | re.IGNORECASE,
)

# A response must not repeat a credential that was sent by mistake. Credentials are longer than
# MAX_SHOWN_LENGTH, and these details replace those of the framework that quote the value.
MAX_SHOWN_LENGTH, SHOWN_PREFIX_LENGTH = 40, 8
SAFE_DETAILS = {"invalid_choice": "Send one of the values that this field takes."}


class StrictSerializer(serializers.Serializer[Any]):
    """A serializer that refuses unknown and repeated fields, and raises ``Invalid``."""

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> dict[str, Any]:
        """The validated values. Raises ``Invalid`` with one error for each fault."""
        checked = cls(data=cls._plain(data))
        checked.is_valid()
        errors = [*_unknown(checked, data), *_repeated(checked, data), *_flatten(checked.errors)]
        if errors:
            raise Invalid(errors=errors)
        return dict(checked.validated_data)

    @classmethod
    def _plain(cls, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """A query as a plain mapping. From a QueryDict, the framework ignores empty fields."""
        if not isinstance(data, QueryDict):
            return data
        lists = {
            name
            for name, field in cls._declared_fields.items()
            if isinstance(field, serializers.ListField)
        }
        return {name: data.getlist(name) if name in lists else data[name] for name in data}


class StrictIntegerField(serializers.IntegerField):
    """An integer in plain digits. The framework also accepts ``1_0``, ``+1`` and ``1.0``."""

    def to_internal_value(self, data: Any) -> int:
        if not (isinstance(data, str) and data.isascii() and data.isdigit()):
            self.fail("invalid")
        return super().to_internal_value(data)


class StrictTextField(serializers.CharField):
    """A JSON string. The framework also accepts numbers, and converts them to text."""

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class Rfc3339Field(serializers.DateTimeField):
    """A time in RFC 3339 with ``Z`` or an offset, converted to UTC.

    The framework also accepts a date without a time, and a time without an offset.
    """

    default_error_messages = {"invalid": "Send a time of RFC 3339, such as 2027-01-31T00:00:00Z."}

    def to_internal_value(self, value: Any) -> datetime:
        if not (isinstance(value, str) and RFC_3339.fullmatch(value)):
            self.fail("invalid")
        try:
            return datetime.fromisoformat(value.upper()).astimezone(UTC)
        except (ValueError, OverflowError):  # no such day, or a year beyond 9999
            self.fail("invalid")


class PageParameters(StrictSerializer):
    """The parameters of every list."""

    limit = StrictIntegerField(
        min_value=1,
        max_value=MAX_PAGE_SIZE,
        default=DEFAULT_PAGE_SIZE,
        help_text="The maximum number of items.",
    )
    after = serializers.CharField(
        max_length=MAX_TEXT_LENGTH,
        required=False,
        help_text="The value of next from an earlier response. The list continues after it.",
    )


def _unknown(checked: StrictSerializer, data: Mapping[str, Any]) -> Iterator[FieldError]:
    for name in data:
        if name not in checked.fields:
            shown = name if len(name) <= MAX_SHOWN_LENGTH else f"{name[:SHOWN_PREFIX_LENGTH]}…"
            yield FieldError(field=shown, code="unknown", detail="There is no such field.")


def _repeated(checked: StrictSerializer, data: Mapping[str, Any]) -> Iterator[FieldError]:
    if not isinstance(data, QueryDict):
        return
    for name, field in checked.fields.items():
        if len(data.getlist(name)) > 1 and not isinstance(field, serializers.ListField):
            yield FieldError(field=name, code="repeated", detail="Send this field once.")


def _flatten(errors: Any, path: Iterable[str] = ()) -> Iterator[FieldError]:
    """The framework's nested errors as a flat list. Each error names the path of its field."""
    if isinstance(errors, Mapping):
        for name, inner in errors.items():
            yield from _flatten(inner, [*path, str(name)])
    else:
        for error in errors:
            if isinstance(error, Mapping):
                yield from _flatten(error, path)
            else:
                code = getattr(error, "code", "invalid")
                detail = SAFE_DETAILS.get(code, str(error))
                yield FieldError(field=".".join(path), code=code, detail=detail)
