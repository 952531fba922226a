"""Middleware that refuses forms with an exchange secret or a NUL."""

import re
from typing import Any

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.multipartparser import MultiPartParserError
from django.http.request import UnreadablePostError

from config.middleware.requests import NUL, Handler
from config.problems import API, problem
from events.http.refusals import ExchangeSecret, Malformed, Refused
from tokens.crypto.exchange_secrets import is_secret, text_contains_secret

# Form fields into which users type their own secrets.
_SECRET_FIELDS = re.compile(r"password|^code$|^csrfmiddlewaretoken$")
# The address of a webhook or a chat often holds a key of its own service. It is stored encrypted.
_ADDRESS_FIELD = "url"


class ValidateForms:
    """Refuses forms that contain an exchange secret or a NUL."""

    def __init__(self, get_response: Handler) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(
        self, request: HttpRequest, view: Any, args: Any, kwargs: Any
    ) -> HttpResponse | None:
        if request.path.startswith(API):
            return None
        try:
            _check_fields(request)
        except Refused as refusal:
            return problem(request, refusal)
        return None


def _check_fields(request: HttpRequest) -> None:
    for form in (request.GET, _form(request)):
        for name, values in form.lists():
            if any(NUL in str(text) for text in values):
                raise Malformed("A field holds a NUL. Take it out.")
            search = is_secret if name == _ADDRESS_FIELD else text_contains_secret
            if not _SECRET_FIELDS.search(name) and any(search(str(text)) for text in values):
                raise ExchangeSecret


def _form(request: HttpRequest) -> QueryDict:
    """Returns the form in the body. Raises ``Malformed`` if it cannot be parsed."""
    try:
        return request.POST
    except (BadRequest, MultiPartParserError, UnreadablePostError, LookupError, ValueError):
        raise Malformed("The form cannot be read. Send it as a browser does.") from None
