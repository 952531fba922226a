"""Request bodies: the headers are checked before reading, and the JSON is parsed strictly, once."""

from django.conf import settings
from django.http import HttpRequest
from django.http.request import RawPostDataException, UnreadablePostError
from rest_framework.request import Request

from events.http import strict_json
from events.http.refusals import (
    BodyTooLarge,
    EncodedBody,
    LengthRequired,
    Malformed,
    UnsupportedMediaType,
)
from events.http.requests import state_of
from events.json_schema import JsonObject


def check_declared(request: HttpRequest) -> None:
    """Checks what the headers say of the body, before any of it is read.

    Raises ``LengthRequired`` for a chunked body, ``BodyTooLarge``, and ``EncodedBody``.
    """
    if request.META.get("HTTP_TRANSFER_ENCODING"):
        raise LengthRequired
    length = int(request.META.get("CONTENT_LENGTH") or 0)
    if length > settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
        raise BodyTooLarge
    encoding = request.headers.get("Content-Encoding", "")
    if length and encoding.lower() not in ("", "identity"):
        raise EncodedBody


def raw_body(request: Request) -> bytes:
    """The bytes of the body. Raises ``Malformed`` if the client stops sending, each time."""
    try:
        return bytes(request._request.body)
    except (UnreadablePostError, RawPostDataException):  # the second one, if it is asked again
        raise Malformed from None


def json_body(request: Request, *, any_type: bool = False) -> JsonObject:
    """The JSON object in the body, parsed once per request.

    Raises ``Malformed``, and ``UnsupportedMediaType`` unless ``any_type`` is true.
    """
    if not any_type and request._request.content_type != "application/json":
        raise UnsupportedMediaType
    state = state_of(request._request)
    if state.json_body is None:
        state.json_body = strict_json.parse(raw_body(request))
    return state.json_body
