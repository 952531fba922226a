"""Which middleware a request passes through, and what each does.

``MIDDLEWARE`` of the settings serves pages, and the few paths under /api/ that accept a session.
Its first entry is ``serve_api``, which serves the rest of the API with ``API_CHAIN``: the API has
no sessions, forms or cookies, so what handles those would only cost time.
"""

import functools
import gzip
import logging
import re
import secrets
import time
from collections.abc import Callable
from typing import cast

from django.conf import settings
from django.core.exceptions import BadRequest, DisallowedHost
from django.core.handlers.exception import convert_exception_to_response
from django.http import HttpRequest, HttpResponse, HttpResponsePermanentRedirect, QueryDict
from django.http.multipartparser import MultiPartParserError
from django.http.request import UnreadablePostError
from django.middleware.security import SecurityMiddleware
from django.urls import Resolver404, ResolverMatch, resolve
from django.utils.cache import get_conditional_response, patch_vary_headers, set_response_etag
from structlog.contextvars import bind_contextvars, reset_contextvars
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.responders import StaticFile

from config import security_headers
from config.monitoring import REQUESTS
from config.problems import API, problem, to_refusal
from events import confirmation, tracing
from events.http.api_view import ApiView
from events.http.bodies import check_declared
from events.http.refusals import (
    ExchangeSecret,
    HostInvalid,
    HttpsRequired,
    Malformed,
    MethodNotAllowed,
    NotFound,
    Refused,
)
from events.http.requests import media_weights, state_of
from events.http.web_pages import View
from events.writer_queue import DATABASE_ERRORS
from tokens.crypto import formats
from tokens.crypto.exchange_secrets import field_contains_secret
from tokens.forms import FIELD as ONE_TIME_KEY

logger = logging.getLogger(__name__)

Handler = Callable[[HttpRequest], HttpResponse]

# The API's paths that accept sessions, with those below them, and the page under /api/.
WITH_SESSION = ("/api/v1/tokens", "/api/v1/subscriptions", "/api/docs")
BELOW = tuple(f"{path}/" for path in WITH_SESSION)

REQUEST_ID_HEADER = "X-Request-Id"
REQUEST_ID = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
NO_ROUTE = "none"  # a static file or an unknown path
WITHOUT_CONTENT = (204, 304)  # statuses whose responses have no content, and so no length
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

# Bytes. A smaller response fits into one packet anyway.
SMALLEST = 1400
# The fastest level: it shrinks a page of 1,000 desks to a seventeenth in 1 ms. The best level takes
# 5 ms and saves little more.
LEVEL = 1

PRECONDITIONS = ("HTTP_IF_MATCH", "HTTP_IF_UNMODIFIED_SINCE")
NUL = "\x00"
STATIC_FILE = ("GET", "HEAD", "OPTIONS")
# The methods that a view may offer. Django's form views would also accept PUT and DELETE as POST.
OF_API = ("GET", "POST", "PATCH", "DELETE")
OF_PAGE = ("GET", "POST")
IN_ORDER = ("GET", "HEAD", "POST", "PATCH", "DELETE", "OPTIONS")

# Fields that are not searched for secrets. Users type their passwords and codes into some. Others
# hold random text of the service or of an authenticator: 1 of 4,000 one-time keys looks like one.
NOT_SEARCHED = re.compile(rf"password|^(code|credential|csrfmiddlewaretoken|{ONE_TIME_KEY})$")

# --- The two chains ------------------------------------------------------------------------------


def serve_api(get_response: Handler) -> Handler:
    """Serves API requests with ``API_CHAIN``. All others continue through ``MIDDLEWARE``."""
    chain = api_chain(call_view)

    def middleware(request: HttpRequest) -> HttpResponse:
        path = request.path
        if path.startswith(API) and path not in WITH_SESSION and not path.startswith(BELOW):
            return chain(request)
        return get_response(request)

    return middleware


def api_chain(view: Handler) -> Handler:
    """``API_CHAIN`` around a view."""
    for middleware in reversed(API_CHAIN):
        view = middleware(cast(Handler, convert_exception_to_response(view)))
    return view


def call_view(request: HttpRequest) -> HttpResponse:
    """Calls the view that the first checks resolved. The end of the API's chain."""
    match = request.resolver_match
    if match is None:
        return problem(request, NotFound())
    try:
        response: HttpResponse = match.func(request, *match.args, **match.kwargs)
    except Exception as error:
        return problem(request, to_refusal(error))
    return response


# --- Every request and response ------------------------------------------------------------------


# structlog makes a variable when it is first bound. Two first requests at once would make two of
# one name, and one of them would end in a 500.
reset_contextvars(**bind_contextvars(request="", trace_id=""))


def log_requests(get_response: Handler) -> Handler:
    """Gives each request an id, counts it, and logs it in one line. It is a span of its trace.

    The id is the client's own if it is valid, and is sent back. Every line that is logged meanwhile
    has it, and the id of the trace if there is one. The line has the route, because a path may hold
    a secret. ``who`` is the id of a token, a signing secret or a user. ``outcome`` is the code of a
    refusal, the outcome of a signal, or None.
    """

    def middleware(request: HttpRequest) -> HttpResponse:
        began = time.perf_counter()
        given = request.META.get("HTTP_X_REQUEST_ID", "")
        request_id = state_of(request).id = given if _is_fit_id(given) else secrets.token_hex(16)
        parent = tracing.parse(request.META.get("HTTP_TRACEPARENT", ""))
        with tracing.span("request", parent=parent) as span:
            ids = {"trace_id": span.context.trace_id} if span.context else {}
            bound = bind_contextvars(request=request_id, **ids)
            try:
                response = get_response(request)
                route = getattr(request.resolver_match, "route", NO_ROUTE)
                REQUESTS.labels(route, response.status_code).inc()
                method = request.method if request.method in METHODS else "another"
                outcome = state_of(request).outcome
                said = {
                    "method": method,
                    "route": route,
                    "status": response.status_code,
                    "who": _who(request),
                    "outcome": outcome,
                    "ms": round((time.perf_counter() - began) * 1000, 1),
                }
                logger.info("request", extra=said)
                span.note(
                    {
                        "http.request.method": method,
                        "http.route": route,
                        "http.response.status_code": response.status_code,
                        "signals.outcome": outcome,
                    },
                    name=f"{method} {route}",
                    is_error=response.status_code >= 500,
                )
            finally:
                reset_contextvars(**bound)
        response[REQUEST_ID_HEADER] = request_id
        return response

    return middleware


def _is_fit_id(given: str) -> bool:
    """Returns whether an id is well formed and contains none of our credentials."""
    return bool(REQUEST_ID.fullmatch(given)) and not formats.contains_credential(given)


def _who(request: HttpRequest) -> str | None:
    """Returns the id of the credential, or of the user if the session was read."""
    credential = getattr(request, "auth", None)  # Django REST framework sets it
    if credential is not None:
        return str(credential.public_id)
    user_pk = state_of(request).user_pk
    return f"user:{user_pk}" if user_pk else None


def finish_responses(get_response: Handler) -> Handler:
    """Adds the security headers, those of the rate limit that counted the request, and the length.

    Every response gets them, including those of middleware. Without a length gunicorn would send
    chunks. Removes the body of responses to HEAD: gunicorn would log a warning for each.
    """
    over_https = SecurityMiddleware(get_response)

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        budget = state_of(request).budget
        added = {**security_headers.HEADERS, **(budget.headers() if budget else {})}
        for name, value in added.items():
            response.headers.setdefault(name, value)
        if request.is_secure():
            over_https.process_response(request, response)
        if not response.streaming:
            if response.status_code not in WITHOUT_CONTENT:
                response.headers.setdefault("Content-Length", str(len(response.content)))
            if request.method == "HEAD":
                response.content = b""
        return response

    return middleware


def compress(get_response: Handler) -> Handler:
    """Compresses large API responses with gzip, the only encoding that every client supports.

    It stands in ``API_CHAIN`` only: no response that depends on a cookie is compressed. A
    browser could be made to request such a response repeatedly, to learn a secret from its length
    (BREACH). Only responses to GET and HEAD are compressed: credentials appear in responses to
    POST. The ETag is weak, because both encodings of a response share it.

    Django's own would compress responses to POST and streams too, for ``gzip;q=0`` as well, at a
    level that takes five times as long.
    """

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if request.method not in ("GET", "HEAD") or response.streaming:
            return response
        patch_vary_headers(response, ["Accept-Encoding"])
        if response.get("ETag", "").startswith('"'):
            response["ETag"] = f"W/{response['ETag']}"
        encodings = media_weights(request.headers.get("Accept-Encoding", ""))
        if len(response.content) >= SMALLEST and encodings.get("gzip", encodings.get("*")):
            response.content = gzip.compress(response.content, LEVEL, mtime=0)
            response["Content-Encoding"] = "gzip"
        return response

    return middleware


def set_caching(get_response: Handler) -> Handler:
    """Forbids caches to store a response, unless the view allows it.

    A response that may be stored gets an ``ETag``, and ``If-None-Match`` is honoured, for GET and
    HEAD. Django's own middleware does not support HEAD.
    """

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        response.setdefault("Cache-Control", "no-store")
        if request.method not in ("GET", "HEAD") or "no-store" in response["Cache-Control"]:
            return response
        if not response.has_header("ETag"):
            set_response_etag(response)
        etag = response.get("ETag")
        return get_conditional_response(request, etag=etag, response=response) or response

    return middleware


def check_host(get_response: Handler) -> Handler:
    """Refuses an unknown Host, plain HTTP on the API, and a path with a NUL, which is a 404.

    Pages are redirected to HTTPS. Preconditions are ignored: the service supports none.
    """

    def middleware(request: HttpRequest) -> HttpResponse:
        try:
            request.get_host()
        except DisallowedHost:
            return problem(request, HostInvalid())
        if settings.REQUIRE_HTTPS and not request.is_secure() and request.path.startswith(API):
            return problem(request, HttpsRequired())
        if NUL in request.path_info:
            return problem(request, NotFound())
        for name in PRECONDITIONS:
            request.META.pop(name, None)
        return get_response(request)

    return middleware


# --- The first checks: path, method, length, size and encoding (contract, section 5) -------------
# They run before any view, CSRF check or form parser, so that no byte of a refused body is read.


def check_requests(get_response: Handler) -> Handler:
    """Resolves the route, and answers requests that must not reach a view.

    An unknown path continues to the 404 view, which reads no body.
    """

    def middleware(request: HttpRequest) -> HttpResponse:
        match = _resolved(request.path_info)
        if not _leads_to_view(match) and (page := _page_with_other_slash(request)):
            request.path = page
            return HttpResponsePermanentRedirect(request.get_full_path())
        if match is None:
            return get_response(request)
        request.resolver_match = match
        return _answer_before(request, methods_of(match.func)) or get_response(request)

    return middleware


class StaticFiles(WhiteNoiseMiddleware):  # type: ignore[misc]
    """WhiteNoise's static files, with the same first checks."""

    @staticmethod
    def serve(static_file: StaticFile, request: HttpRequest) -> HttpResponse:
        early = _answer_before(request, STATIC_FILE)
        return early or WhiteNoiseMiddleware.serve(static_file, request)


@functools.cache
def methods_of(view: View) -> tuple[str, ...]:
    """Returns the methods of a view. HEAD is included with GET, OPTIONS always."""
    offered = {*_offered(view), "OPTIONS"}
    if "GET" in offered:
        offered.add("HEAD")
    return tuple(name for name in IN_ORDER if name in offered)


def _offered(view: View) -> tuple[str, ...]:
    """Returns the methods that a page declares, a view set maps to actions, or a class defines.

    All other views of the control area and the account pages are forms: GET and POST.
    """
    declared = getattr(view, "methods", None)  # by events.http.web_pages.page
    if declared:
        return tuple(declared)
    actions = getattr(view, "actions", None)
    if actions:
        return tuple(name.upper() for name in actions)
    cls = getattr(view, "view_class", None)
    if cls is None:
        return OF_PAGE
    known = OF_API if issubclass(cls, ApiView) else OF_PAGE
    return tuple(name for name in known if hasattr(cls, name.lower()))


def _answer_before(request: HttpRequest, methods: tuple[str, ...]) -> HttpResponse | None:
    """Returns the response to OPTIONS or the refusal; None if the request may continue."""
    try:
        if request.method not in methods:
            raise MethodNotAllowed(methods)
        check_declared(request)
    except Refused as refusal:
        return problem(request, refusal)
    if request.method == "OPTIONS":
        answer = HttpResponse(status=204, headers={"Allow": ", ".join(methods)})
        del answer["Content-Type"]
        return answer
    return None


def _resolved(path: str) -> ResolverMatch | None:
    try:
        return resolve(path)
    except Resolver404:
        return None


def _leads_to_view(match: ResolverMatch | None) -> bool:
    """Returns False for no route, and for the control area's catch-all route to the 404."""
    return match is not None and getattr(match.func, "should_append_slash", True)


def _page_with_other_slash(request: HttpRequest) -> str | None:
    """Returns the path of the page from which this path differs only in its last slash."""
    path = request.path_info
    if request.method not in ("GET", "HEAD") or path.startswith(API):
        return None
    other = path[:-1] if path.endswith("/") else f"{path}/"
    return other if _leads_to_view(_resolved(other)) else None


# From the outside in. ``compress`` is outside ``set_caching``, whose ETag is of the uncompressed
# body, and inside ``finish_responses``, which adds the length.
API_CHAIN = (log_requests, finish_responses, compress, set_caching, check_host, check_requests)

# --- Pages only ----------------------------------------------------------------------------------


class HandleErrors:
    """Turns a refusal or an unavailable database into a response, wherever it was raised."""

    def __init__(self, get_response: Handler) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exc: Exception) -> HttpResponse:
        return problem(request, to_refusal(exc))


class ValidateForms:
    """Refuses forms with an exchange secret or a NUL, and drops cookies with a NUL.

    No database accepts a NUL. Every form is refused while commits wait in vain: a page also writes
    with statements outside of a transaction, and each would hold a thread and a connection.
    """

    def __init__(self, get_response: Handler) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request.COOKIES = {
            name: value for name, value in request.COOKIES.items() if NUL not in value
        }
        return self.get_response(request)

    def process_view(
        self, request: HttpRequest, view: View, args: tuple[str, ...], kwargs: dict[str, str]
    ) -> HttpResponse | None:
        if request.path.startswith(API):
            return None
        try:
            _check_fields(request)
            if request.method == "POST":
                confirmation.require()
        except (Refused, *DATABASE_ERRORS) as error:
            return problem(request, to_refusal(error))
        return None


def _check_fields(request: HttpRequest) -> None:
    for form in (request.GET, _form(request)):
        for name, values in form.lists():
            if any(NUL in str(text) for text in values):
                raise Malformed("A field holds a NUL. Take it out.")
            if NOT_SEARCHED.search(name):
                continue
            if any(field_contains_secret(name, str(text)) for text in values):
                raise ExchangeSecret


def _form(request: HttpRequest) -> QueryDict:
    """Returns the form in the body. Raises ``Malformed`` if it cannot be parsed."""
    try:
        return request.POST
    except (BadRequest, MultiPartParserError, UnreadablePostError, LookupError, ValueError):
        raise Malformed("The form cannot be read. Send it as a browser does.") from None
