"""What every request passes on its way in, and every answer on its way out."""

import re
import secrets
import time
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.core.exceptions import BadRequest, DisallowedHost
from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.multipartparser import MultiPartParserError
from django.http.request import UnreadablePostError
from django.middleware.security import SecurityMiddleware
from structlog.contextvars import bind_contextvars, reset_contextvars

from config import browsers
from config.logs import requests_logger
from config.metrics import REQUESTS
from config.problems import API, as_refusal, problem
from events.api.bodies import check_length
from events.refusals import (
    ExchangeSecret,
    HostInvalid,
    HttpsRequired,
    Malformed,
    NotFound,
    Refused,
)
from tokens.exchange_secrets import is_secret

Handler = Callable[[HttpRequest], HttpResponse]

REQUEST_ID_HEADER = "X-Request-Id"
PRECONDITIONS = ("HTTP_IF_MATCH", "HTTP_IF_UNMODIFIED_SINCE")
NUL = "\x00"
NO_ROUTE = "none"  # a static file, or nothing that is there
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_REQUEST_ID = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
# Where a person types a secret of their own on purpose.
_SECRET_FIELDS = re.compile(r"password|^code$|^csrfmiddlewaretoken$")


def request_id(get_response: Handler) -> Handler:
    """Gives the request its id, the caller's where it has a fit one, and says it in the answer."""

    def middleware(request: HttpRequest) -> HttpResponse:
        given = request.headers.get(REQUEST_ID_HEADER, "")
        request.id = given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(16)  # type: ignore[attr-defined]
        response = get_response(request)
        response[REQUEST_ID_HEADER] = request.id  # type: ignore[attr-defined]
        return response

    return middleware


def told(get_response: Handler) -> Handler:
    """Counts each request, and says it in one line: by its route, since a path may hold a secret.

    Who called is an id, of a token, a signing secret or a user; what became of it is a refusal's
    code, a signal's outcome, or nothing to speak of.
    """
    log = requests_logger(settings.LOG_LEVEL)

    def middleware(request: HttpRequest) -> HttpResponse:
        began = time.perf_counter()
        bound = bind_contextvars(request=request.id)  # type: ignore[attr-defined]
        try:
            response = get_response(request)
            route = getattr(request.resolver_match, "route", NO_ROUTE)
            REQUESTS.labels(route, response.status_code).inc()
            log.info(
                "request",
                method=request.method if request.method in METHODS else "another",
                route=route,
                status=response.status_code,
                who=_who(request),
                outcome=getattr(request, "outcome", None),
                ms=round((time.perf_counter() - began) * 1000, 1),
            )
        finally:
            reset_contextvars(**bound)
        return response

    return middleware


def _who(request: HttpRequest) -> str | None:
    """The id of the credential, or of the user if anything asked who that is."""
    credential = getattr(request, "auth", None)
    if credential is not None:
        return str(credential.public_id)
    user = getattr(request, "_cached_user", None)
    return f"user:{user.pk}" if user is not None and user.pk else None


def browser_headers(get_response: Handler) -> Handler:
    """Keeps a browser in check, whichever layer answers: the first one refuses a Host already."""
    over_https = SecurityMiddleware(get_response)

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        for name, value in browsers.HEADERS.items():
            response.setdefault(name, value)
        over_https.process_response(request, response)
        return response

    return middleware


def head_without_body(get_response: Handler) -> Handler:
    """Answers HEAD as GET, but for the body: the server would complain of each one in its log."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if request.method == "HEAD" and not response.streaming:
            response.content = b""
        return response

    return middleware


def known_host(get_response: Handler) -> Handler:
    """Refuses a Host that is not ours, and plain HTTP to the API (pages are redirected)."""

    def middleware(request: HttpRequest) -> HttpResponse:
        try:
            request.get_host()
        except DisallowedHost:
            return problem(request, HostInvalid())
        if settings.REQUIRE_HTTPS and not request.is_secure() and request.path.startswith(API):
            return problem(request, HttpsRequired())
        return get_response(request)

    return middleware


def plain_request(get_response: Handler) -> Handler:
    """Hears of a request only what this service answers to.

    No answer depends on a precondition; a NUL, which no database looks up, stands in no path and in
    no cookie of ours.
    """

    def middleware(request: HttpRequest) -> HttpResponse:
        for name in PRECONDITIONS:
            request.META.pop(name, None)
        request.COOKIES = {
            name: value for name, value in request.COOKIES.items() if NUL not in value
        }
        if NUL in request.path_info:
            return problem(request, NotFound())
        return get_response(request)

    return middleware


class answer_faults:  # noqa: N801 - named as the functions beside it
    """Turns a refusal, or a database that is away, into its answer wherever it was raised."""

    def __init__(self, get_response: Handler) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exc: Exception) -> HttpResponse:
        return problem(request, as_refusal(exc))


def private_by_default(get_response: Handler) -> Handler:
    """Nothing is stored by a cache unless its view says otherwise."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        response.setdefault("Cache-Control", "no-store")
        return response

    return middleware


class page_form:  # noqa: N801 - named as the functions beside it
    """What no form of a page may carry: too much, or a secret of an exchange in a free text."""

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
            check_length(request)
            _refuse_unlawful(request)
        except Refused as refusal:
            return problem(request, refusal)
        return None


def _refuse_unlawful(request: HttpRequest) -> None:
    for form in (request.GET, _form(request)):
        for name, values in form.lists():
            if any(NUL in str(text) for text in values):
                raise Malformed("A field holds a NUL. Take it out.")
            if not _SECRET_FIELDS.search(name) and any(is_secret(str(text)) for text in values):
                raise ExchangeSecret


def _form(request: HttpRequest) -> QueryDict:
    """The form that the body is; raises ``Malformed`` where it cannot be read as one."""
    try:
        return request.POST
    except (BadRequest, MultiPartParserError, UnreadablePostError, LookupError, ValueError):
        raise Malformed("The form cannot be read. Send it as a browser does.") from None
