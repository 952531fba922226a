"""The framework's words for what is wrong with a field, and ours."""

from collections.abc import Iterator

import pytest
from django.urls import get_resolver
from rest_framework import serializers

from events.http.parameters import CODES, StrictSerializer
from events.http.refusals import FieldCode

pytestmark = pytest.mark.once

# What the field of a time would say if ours did not read it.
NEVER_SAID = {"date", "make_aware", "overflow"}


def every_serializer(cls: type = StrictSerializer) -> Iterator[type[StrictSerializer]]:
    for each in cls.__subclasses__():
        yield each
        yield from every_serializer(each)


def every_field() -> Iterator["serializers.Field[object, object, object, object]"]:
    assert get_resolver().url_patterns  # every API is imported
    for serializer in every_serializer():
        for field in serializer().fields.values():
            yield field
            if isinstance(field, serializers.ListField):
                yield field.child


def test_every_word_of_the_framework_has_one_of_ours():
    words = [
        code
        for field in every_field()
        for code in [
            *field.error_messages,
            *(getattr(validator, "code", None) or "invalid" for validator in field.validators),
        ]
    ]
    theirs = {code for code in words if not isinstance(code, FieldCode)}
    assert "required" in theirs
    assert theirs <= CODES.keys() | NEVER_SAID
