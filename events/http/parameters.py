"""Base classes for the serializers of query parameters and bodies. Unknown fields are refused."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from django.http import QueryDict
from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail

from events.http.refusals import FieldCode, FieldError, Invalid
from events.times import RFC3339_DETAIL, parse_rfc3339

DEFAULT_PAGE_SIZE = 100
MAX_PAGE_SIZE = 1000
MAX_TEXT_LENGTH = 128

# A response must not repeat a credential that was sent by mistake. Credentials are longer than
# MAX_SHOWN_LENGTH. These details replace those of the framework, some of which quote the value.
MAX_SHOWN_LENGTH, SHOWN_PREFIX_LENGTH = 40, 8
UNKNOWN = "Leave this field out: it is not known here."
DETAILS = {
    "invalid_choice": "Send one of: {choices}.",
    "min_value": "Send at least {min_value}.",
    "max_value": "Send at most {max_value}.",
    "required": "Send this field.",
}
# Our code for each of the framework's. Our own serializers and validators use ours.
CODES = {
    "blank": FieldCode.REQUIRED,
    "empty": FieldCode.REQUIRED,
    "invalid": FieldCode.TYPE,
    "invalid_choice": FieldCode.CHOICE,
    "max_length": FieldCode.LENGTH,
    "max_string_length": FieldCode.RANGE,
    "max_value": FieldCode.RANGE,
    "min_length": FieldCode.LENGTH,
    "min_value": FieldCode.RANGE,
    "not_a_list": FieldCode.TYPE,
    "null": FieldCode.REQUIRED,
    "null_characters_not_allowed": FieldCode.CHARACTERS,
    "required": FieldCode.REQUIRED,
    "surrogate_characters_not_allowed": FieldCode.CHARACTERS,
}


class StrictSerializer(serializers.Serializer[Any]):
    """A serializer that refuses unknown and repeated fields, and raises ``Invalid``."""

    @classmethod
    def read(cls, data: Mapping[str, object]) -> dict[str, Any]:
        """The validated values. Raises ``Invalid`` with one error for each fault."""
        checked = cls(data=cls._plain(data))
        checked.is_valid()
        errors = [*_unknown(checked, data), *_repeated(checked, data), *_faults(checked)]
        if errors:
            raise Invalid(errors=errors)
        return dict(checked.validated_data)

    @classmethod
    def _plain(cls, data: Mapping[str, object]) -> Mapping[str, object]:
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

    def to_internal_value(self, data: object) -> int:
        if not (isinstance(data, str) and data.isascii() and data.isdigit()):
            self.fail("invalid")
        return super().to_internal_value(data)


class StrictTextField(serializers.CharField):
    """A JSON string. The framework also accepts numbers, and converts them to text."""

    def to_internal_value(self, data: object) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class TextParameter(serializers.CharField):
    """A text in a query, which may be left out."""

    def __init__(self, help_text: str = "") -> None:
        super().__init__(max_length=MAX_TEXT_LENGTH, required=False, help_text=help_text)


class Rfc3339Field(serializers.DateTimeField):
    """A time in RFC 3339 with ``Z`` or an offset, converted to UTC.

    The framework also accepts a date without a time, and a time without an offset.
    """

    default_error_messages = {FieldCode.FORM: RFC3339_DETAIL}

    def to_internal_value(self, value: object) -> datetime:
        if not isinstance(value, str):
            self.fail(FieldCode.FORM)
        try:
            return parse_rfc3339(value)
        except ValueError:
            self.fail(FieldCode.FORM)


class PageParameters(StrictSerializer):
    """The parameters of every list."""

    limit = StrictIntegerField(
        min_value=1,
        max_value=MAX_PAGE_SIZE,
        default=DEFAULT_PAGE_SIZE,
        help_text="The maximum number of items.",
    )
    after = TextParameter(
        "The value of next from an earlier response. The list continues after it."
    )


def contradiction(field: str, detail: str) -> serializers.ValidationError:
    """The error of a field that contradicts another one. For ``validate`` of a serializer."""
    return serializers.ValidationError({field: detail}, code=FieldCode.CONTRADICTION)


def _unknown(checked: StrictSerializer, data: Mapping[str, object]) -> Iterator[FieldError]:
    for name in data:
        if name not in checked.fields:
            shown = name if len(name) <= MAX_SHOWN_LENGTH else f"{name[:SHOWN_PREFIX_LENGTH]}…"
            yield FieldError(field=shown, code=FieldCode.UNKNOWN, detail=UNKNOWN)


def _repeated(checked: StrictSerializer, data: Mapping[str, object]) -> Iterator[FieldError]:
    if not isinstance(data, QueryDict):
        return
    for name, field in checked.fields.items():
        if len(data.getlist(name)) > 1 and not isinstance(field, serializers.ListField):
            detail = "Send this field once."
            yield FieldError(field=name, code=FieldCode.REPEATED, detail=detail)


def _faults(checked: StrictSerializer) -> Iterator[FieldError]:
    """The framework's errors in our words. The items of a list are one field, as in a query."""
    for name, errors in checked.errors.items():
        for error in dict.fromkeys(_leaves(errors)):
            code, detail = error.code or "invalid", str(error)
            if not isinstance(code, FieldCode):
                detail = _detail(checked.fields.get(name), code) or detail
                code = CODES[code]
            yield FieldError(field=name, code=code, detail=detail)


def _leaves(errors: Any) -> Iterator[ErrorDetail]:
    """The errors of a field: a list of them, or one such list for each wrong item of a list."""
    for error in errors.values() if isinstance(errors, Mapping) else errors:
        if isinstance(error, ErrorDetail):
            yield error
        else:
            yield from _leaves(error)


def _detail(field: "serializers.Field[Any, Any, Any, Any] | None", code: str) -> str:
    """What to send in this field instead, empty if the framework's own words are to be shown."""
    if code not in DETAILS:
        return ""
    field = getattr(field, "child", field)
    return DETAILS[code].format(
        choices=", ".join(str(choice) for choice in getattr(field, "choices", ())),
        min_value=getattr(field, "min_value", None),
        max_value=getattr(field, "max_value", None),
    )
