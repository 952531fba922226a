"""Every error → one problem body, or under the pages' paths one page (contract, section 5)."""

import logging
import sys
from typing import Any

from django.conf import settings
from django.core.exceptions import (
    BadRequest,
    PermissionDenied,
    RequestDataTooBig,
    SuspiciousOperation,
)
from django.db import InterfaceError, InternalError, OperationalError, connection
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from redis.exceptions import RedisError

from config.metrics import REFUSALS
from events.refusals import (
    BodyTooLarge,
    CsrfFailed,
    Internal,
    Malformed,
    NotAllowed,
    NotFound,
    Refused,
    Unavailable,
)

logger = logging.getLogger(__name__)

API = "/api/"
MEDIA_TYPE = "application/problem+json"

# What the drivers raise when the database is away, a lock was not had in time, or the database
# ended an idle transaction; or when the cache is away, in which sign-ins are counted.
AWAY = (OperationalError, InterfaceError, InternalError, RedisError)


def problem(request: HttpRequest, refusal: Refused) -> HttpResponse:
    """The answer that says why: RFC 9457 under /api/, a page elsewhere."""
    body = {
        "type": f"{settings.BASE_URL}/problems/{refusal.code}",
        "title": refusal.title,
        "status": refusal.status,
        "detail": refusal.detail,
        "code": refusal.code,
        "requestId": getattr(request, "id", None),
        **refusal.members,
    }
    request.outcome = refusal.code  # type: ignore[attr-defined]
    REFUSALS.labels(refusal.code).inc()
    response: HttpResponse
    if request.path.startswith(API):
        response = JsonResponse(body, status=refusal.status, content_type=MEDIA_TYPE)
    else:
        response = render(request, "problem.html", {"problem": body}, status=refusal.status)
    for name, value in refusal.headers.items():
        response[name] = value
    return response


def as_refusal(exc: BaseException | None) -> Refused:
    """The refusal that an exception amounts to; a fault of ours where it is none."""
    match exc:
        case Refused():
            return exc
        case Http404():
            return NotFound()
        case RequestDataTooBig():
            return BodyTooLarge()
        case PermissionDenied():
            return NotAllowed()
        case SuspiciousOperation() | BadRequest():
            return Malformed("The request is not one that a browser sends.")
    if isinstance(exc, AWAY):
        logger.warning("The database or the cache did not serve a request: %s", type(exc).__name__)
        if not isinstance(exc, RedisError):
            _throw_out_the_dead()
        return Unavailable()
    logger.error("A request failed.", exc_info=exc)
    return Internal()


def _throw_out_the_dead() -> None:
    """Takes away the connections that died with the one that failed.

    The pool by itself finds them one by one, and lets the requests that meet two wait a second.
    """
    pool = getattr(connection, "pool", None)  # of PostgreSQL, where one is set
    if pool is not None and not pool.closed:  # as it is until the first request that reads
        pool.check()


def answer(exc: Exception, context: dict[str, Any]) -> HttpResponse:
    """What the API's views answer to an exception (Django REST framework's hook)."""
    return problem(context["request"]._request, as_refusal(exc))


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return problem(request, as_refusal(exception))


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    return problem(request, NotAllowed())


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    return problem(request, CsrfFailed())


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return problem(request, NotFound())


def server_error(request: HttpRequest) -> HttpResponse:
    return problem(request, as_refusal(sys.exc_info()[1]))
