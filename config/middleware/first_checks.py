"""The first checks of every request: path, method, length and size (contract, section 5).

They run before any view, CSRF check or form parser, so that no byte of a refused body is
read. ``config.middleware.requests`` checks the Host earlier.
"""

import functools
from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponsePermanentRedirect
from django.urls import Resolver404, ResolverMatch, resolve
from whitenoise.middleware import WhiteNoiseMiddleware

from config.problems import API, problem
from events.http.api_view import ApiView
from events.http.bodies import check_length
from events.http.refusals import MethodNotAllowed, Refused

Handler = Callable[[HttpRequest], HttpResponse]

STATIC_FILE = ("GET", "HEAD", "OPTIONS")
# The methods that a view may offer. Django's form views would also accept PUT and DELETE as POST.
OF_API = ("GET", "POST", "PATCH", "DELETE")
OF_PAGE = ("GET", "POST")
IN_ORDER = ("GET", "HEAD", "POST", "PATCH", "DELETE", "OPTIONS")


def check_requests(get_response: Handler) -> Handler:
    """Resolves the route, and answers requests that must not reach a view.

    An unknown path continues to the 404 view, which reads no body.
    """

    def middleware(request: HttpRequest) -> HttpResponse:
        match = _resolved(request.path_info)
        if not _leads_to_view(match) and _has_page_with_slash(request):
            return HttpResponsePermanentRedirect(request.get_full_path(force_append_slash=True))
        if match is None:
            return get_response(request)
        request.resolver_match = match
        return _answer_before(request, methods_of(match.func)) or get_response(request)

    return middleware


class StaticFiles(WhiteNoiseMiddleware):  # type: ignore[misc]
    """WhiteNoise's static files, with the same first checks."""

    @staticmethod
    def serve(static_file: Any, request: HttpRequest) -> HttpResponse:
        early = _answer_before(request, STATIC_FILE)
        return early or WhiteNoiseMiddleware.serve(static_file, request)


@functools.cache
def methods_of(view: Any) -> tuple[str, ...]:
    """Returns the methods of a view. HEAD is included with GET, OPTIONS always."""
    offered = {*_offered(view), "OPTIONS"}
    if "GET" in offered:
        offered.add("HEAD")
    return tuple(name for name in IN_ORDER if name in offered)


def _offered(view: Any) -> tuple[str, ...]:
    """Returns the methods that a page declares, a view set maps to actions, or a class defines.

    All other views of the control area and the account pages are forms: GET and POST.
    """
    declared = getattr(view, "methods", None)  # by events.http.pages.page
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
        check_length(request)
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


def _has_page_with_slash(request: HttpRequest) -> bool:
    """Returns whether a page exists at this path with a trailing slash."""
    path = request.path_info
    if request.method not in ("GET", "HEAD") or path.endswith("/") or path.startswith(API):
        return False
    return _leads_to_view(_resolved(f"{path}/"))
