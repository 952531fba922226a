"""Which media types a body of JSON may be declared as."""

import pytest
from django.test import RequestFactory
from rest_framework.request import Request

from events.http.bodies import json_body
from events.http.refusals import UnsupportedMediaType

pytestmark = pytest.mark.once


def read(content_type: str) -> object:
    """What is read of a body that is declared as this."""
    body = '{"name": "é"}'.encode()
    return json_body(Request(RequestFactory().generic("POST", "/", body, content_type)))


def test_a_body_is_declared_as_json_and_read_as_utf_8():
    for accepted in (
        *("application/json", "APPLICATION/JSON", "application/json;"),
        *("application/json; charset=latin-1", "application/json ; x=y"),
    ):
        assert read(accepted) == {"name": "é"}, accepted
    for refused in ("application/jsonp", "application/json+x", "text/json", "x", "/", ""):
        with pytest.raises(UnsupportedMediaType):
            read(refused)
