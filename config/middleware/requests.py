"""Middleware for requests and responses, in the order of ``MIDDLEWARE``."""

import re
import secrets
import time
from collections.abc import Callable

from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse
from django.http.response import ResponseHeaders
from django.middleware.security import SecurityMiddleware
from django.utils.cache import get_conditional_response, set_response_etag
from structlog.contextvars import bind_contextvars, reset_contextvars

from config.logs import RequestLogger
from config.middleware import security_headers
from config.monitoring.metrics import REQUESTS
from config.problems import API, problem, to_refusal
from events.http.refusals import (
    HostInvalid,
    HttpsRequired,
    NotFound,
)
from events.http.requests import state_of
from tokens.crypto import formats

Handler = Callable[[HttpRequest], HttpResponse]

REQUEST_ID_HEADER = "X-Request-Id"
PRECONDITIONS = ("HTTP_IF_MATCH", "HTTP_IF_UNMODIFIED_SINCE")
NUL = "\x00"
NO_ROUTE = "none"  # a static file or an unknown path
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_REQUEST_ID = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


def request_id(get_response: Handler) -> Handler:
    """Sets the request's id, the client's own if it is valid, and adds it to the response."""

    def middleware(request: HttpRequest) -> HttpResponse:
        given = request.META.get("HTTP_X_REQUEST_ID", "")
        request_id = given if _is_fit_id(given) else secrets.token_hex(16)
        state_of(request).id = request_id
        response = get_response(request)
        response[REQUEST_ID_HEADER] = request_id
        return response

    return middleware


def _is_fit_id(given: str) -> bool:
    """Returns whether an id is well formed and contains none of our credentials."""
    return bool(_REQUEST_ID.fullmatch(given)) and not formats.contains_credential(given)


def log_requests(get_response: Handler) -> Handler:
    """Counts and logs each request, in one line. Logs the route, because a path may hold a secret.

    ``who`` is the id of a token, a signing secret or a user. ``outcome`` is the code of a refusal,
    the outcome of a signal, or None.
    """
    log = RequestLogger(settings.LOG_LEVEL)

    def middleware(request: HttpRequest) -> HttpResponse:
        began = time.perf_counter()
        bound = bind_contextvars(request=state_of(request).id)
        try:
            response = get_response(request)
            route = getattr(request.resolver_match, "route", NO_ROUTE)
            REQUESTS.labels(route, response.status_code).inc()
            log.info(
                "request",
                request=state_of(request).id,
                method=request.method if request.method in METHODS else "another",
                route=route,
                status=response.status_code,
                who=_who(request),
                outcome=state_of(request).outcome,
                ms=round((time.perf_counter() - began) * 1000, 1),
            )
        finally:
            reset_contextvars(**bound)
        return response

    return middleware


def _who(request: HttpRequest) -> str | None:
    """Returns the id of the credential, or of the user if the session was read."""
    credential = getattr(request, "auth", None)  # Django REST framework sets it
    if credential is not None:
        return str(credential.public_id)
    user_pk = state_of(request).user_pk
    return f"user:{user_pk}" if user_pk else None


def add_security_headers(get_response: Handler) -> Handler:
    """Adds the security headers to every response, including those of middleware.

    They are encoded once. Setting them one by one took a tenth of a request's time.
    """
    encoded = ResponseHeaders(security_headers.HEADERS)._store
    over_https = SecurityMiddleware(get_response)

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        response.headers._store = {**encoded, **response.headers._store}
        if request.is_secure():
            over_https.process_response(request, response)
        return response

    return middleware


def strip_head_bodies(get_response: Handler) -> Handler:
    """Removes the body of responses to HEAD. gunicorn would log a warning for each."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if request.method == "HEAD" and not response.streaming:
            response.content = b""
        return response

    return middleware


def conditional_get(get_response: Handler) -> Handler:
    """Adds an ``ETag`` to cacheable responses and handles ``If-None-Match``, for GET and HEAD.

    Django's own middleware does not support HEAD.
    """

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if request.method not in ("GET", "HEAD") or _is_never_stored(response):
            return response
        if not response.has_header("ETag"):
            set_response_etag(response)
        etag = response.get("ETag")
        return get_conditional_response(request, etag=etag, response=response) or response

    return middleware


def _is_never_stored(response: HttpResponse) -> bool:
    return "no-store" in response.get("Cache-Control", "")


def check_host(get_response: Handler) -> Handler:
    """Refuses an unknown Host, and plain HTTP on the API. Pages are redirected to HTTPS."""

    def middleware(request: HttpRequest) -> HttpResponse:
        try:
            request.get_host()
        except DisallowedHost:
            return problem(request, HostInvalid())
        if settings.REQUIRE_HTTPS and not request.is_secure() and request.path.startswith(API):
            return problem(request, HttpsRequired())
        return get_response(request)

    return middleware


def sanitize_requests(get_response: Handler) -> Handler:
    """Removes parts of a request that this service does not support.

    Preconditions are ignored. A path with a NUL is a 404: no database accepts a NUL.
    """

    def middleware(request: HttpRequest) -> HttpResponse:
        for name in PRECONDITIONS:
            request.META.pop(name, None)
        if NUL in request.path_info:
            return problem(request, NotFound())
        return get_response(request)

    return middleware


def sanitize_cookies(get_response: Handler) -> Handler:
    """Drops cookies with a NUL, which no database accepts."""

    def middleware(request: HttpRequest) -> HttpResponse:
        request.COOKIES = {
            name: value for name, value in request.COOKIES.items() if NUL not in value
        }
        return get_response(request)

    return middleware


class HandleErrors:
    """Turns a refusal or an unavailable database into a response, wherever it was raised."""

    def __init__(self, get_response: Handler) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exc: Exception) -> HttpResponse:
        return problem(request, to_refusal(exc))


def prevent_caching(get_response: Handler) -> Handler:
    """Forbids caches to store a response, unless the view allows it."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        response.setdefault("Cache-Control", "no-store")
        return response

    return middleware
