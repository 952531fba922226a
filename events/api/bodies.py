"""A request's body: measured before it is read, and read once, strictly."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.http.request import UnreadablePostError
from rest_framework.request import Request

from events.api import strict_json
from events.refusals import BodyTooLarge, LengthRequired, Malformed, UnsupportedMediaType


def check_length(request: HttpRequest) -> None:
    """Refuses a body whose length is not said or is too large, before a byte of it is read."""
    if request.headers.get("Transfer-Encoding"):
        raise LengthRequired
    if int(request.META.get("CONTENT_LENGTH") or 0) > settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
        raise BodyTooLarge


def raw_body(request: Request) -> bytes:
    """The bytes as they were sent."""
    try:
        return bytes(request._request.body)
    except UnreadablePostError:
        raise Malformed from None


def json_body(request: Request, *, any_type: bool = False) -> dict[str, Any]:
    """The JSON object that the body is, read once a request.

    Raises ``UnsupportedMediaType`` unless ``any_type``, and ``Malformed``.
    """
    if not any_type and request._request.content_type != "application/json":
        raise UnsupportedMediaType
    known: dict[str, Any] | None = getattr(request._request, "strict_json", None)
    if known is None:
        known = strict_json.read(raw_body(request))
        request._request.strict_json = known  # type: ignore[attr-defined]
    return known
