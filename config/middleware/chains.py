"""Which middleware a request passes through.

``MIDDLEWARE`` serves pages, and the few paths under /api/ that accept a session. Its first entry is
``serve_api``, which serves the rest of the API with ``API_MIDDLEWARE``: the API has no sessions,
forms or cookies, so what handles those would only cost time.
"""

from collections.abc import Callable

from django.conf import settings
from django.core.handlers.exception import convert_exception_to_response
from django.http import HttpRequest, HttpResponse
from django.utils.module_loading import import_string

from config.problems import API, problem, to_refusal
from events.http.refusals import NotFound

Handler = Callable[[HttpRequest], HttpResponse]

# The API's paths that accept sessions, with those below them, and the page under /api/.
WITH_SESSION = ("/api/v1/tokens", "/api/v1/subscriptions", "/api/docs")
BELOW = tuple(f"{path}/" for path in WITH_SESSION)


def serve_api(get_response: Handler) -> Handler:
    """Serves API requests with ``API_MIDDLEWARE``. All others continue through ``MIDDLEWARE``."""
    chain = api_chain(call_view)

    def middleware(request: HttpRequest) -> HttpResponse:
        path = request.path
        if path.startswith(API) and path not in WITH_SESSION and not path.startswith(BELOW):
            return chain(request)
        return get_response(request)

    return middleware


def api_chain(view: Handler) -> Handler:
    """``API_MIDDLEWARE`` around a view."""
    for name in reversed(settings.API_MIDDLEWARE):
        view = import_string(name)(convert_exception_to_response(view))
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
