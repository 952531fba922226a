"""Turns every error into a problem body, or into a page outside the API (contract, section 5).

Each refusal of the contract has a public page, to which the ``type`` of every problem leads.
"""

import logging
import sys
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.exceptions import (
    BadRequest,
    PermissionDenied,
    RequestDataTooBig,
    SuspiciousOperation,
)
from django.db import DatabaseError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils import timezone
from redis.exceptions import RedisError

from config import monitoring
from events.http import refusals
from events.http.requests import state_of
from events.http.web_pages import page
from events.unavailable_reasons import Wait, wait_of
from events.writer_queue import DATABASE_ERRORS
from signals.intake.api import PUBLIC

logger = logging.getLogger(__name__)

API = "/api/"
MEDIA_TYPE = "application/problem+json"
PAUSE = 60  # seconds: the Retry-After of too many sign-ins, sign-ups or password resets

# Of the database; or of the cache, which counts sign-ins.
UNAVAILABLE_ERRORS = (*DATABASE_ERRORS, RedisError)


def usual_members(
    refusal: refusals.Refused | type[refusals.Refused], request_id: str | None
) -> dict[str, Any]:
    """Returns the members that every problem has."""
    return {
        "type": f"{settings.BASE_URL}/problems/{refusal.code}",
        "title": refusal.title,
        "status": refusal.status,
        "detail": refusal.detail,
        "code": refusal.code,
        "requestId": request_id,
    }


def problem(request: HttpRequest, refusal: refusals.Refused) -> HttpResponse:
    """Returns the response for a refusal: RFC 9457 under /api/, a page elsewhere."""
    body = {**usual_members(refusal, state_of(request).id), **refusal.members}
    state_of(request).outcome = refusal.code
    monitoring.REFUSALS.labels(refusal.code).inc()
    if isinstance(refusal, refusals.Unavailable):
        monitoring.UNAVAILABLE.labels(refusal.wait).inc()
    response: HttpResponse
    if request.path.startswith(API):
        response = JsonResponse(body, status=refusal.status, content_type=MEDIA_TYPE)
    else:
        is_halted = getattr(refusal, "wait", None) is Wait.NEW_EPOCH  # no time ends it
        wait = None if is_halted else refusal.headers.get("Retry-After")
        context = {
            "problem": body,
            "sentence": refusal.sentence,
            "again": timezone.now() + timedelta(seconds=int(wait)) if wait else None,
        }
        response = render(request, "problem.html", context, status=refusal.status)
    for name, value in refusal.headers.items():
        response[name] = value
    return response


def to_refusal(exc: BaseException | None) -> refusals.Refused:
    """Returns the refusal for an exception; ``Internal`` for an unexpected one."""
    match exc:
        case refusals.Refused():
            return exc
        case Http404():
            return refusals.NotFound()
        case RequestDataTooBig():
            return refusals.BodyTooLarge()
        case PermissionDenied():
            return refusals.NotAllowed()
        case SuspiciousOperation() | BadRequest():
            return refusals.Malformed("The request is not one that a browser sends.")
    if isinstance(exc, DatabaseError):
        monitoring.SCHEMA.doubt()
    if isinstance(exc, UNAVAILABLE_ERRORS):
        wait = Wait.CACHE if isinstance(exc, RedisError) else wait_of(exc)
        logger.warning("A request waited in vain for: %s (%s).", wait, type(exc).__name__)
        return refusals.Unavailable(wait)
    logger.error("A request failed.", exc_info=exc)
    return refusals.Internal()


def error(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's handler of bad requests, denied permissions and unknown paths."""
    return problem(request, to_refusal(exception))


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    return problem(request, refusals.CsrfFailed())


def server_error(request: HttpRequest) -> HttpResponse:
    return problem(request, to_refusal(sys.exc_info()[1]))


@page("GET")
def problems(request: HttpRequest) -> HttpResponse:
    """Lists every refusal of the contract."""
    return _public(request, "problems/index.html", {"refusals": refusals.Refused.registry()})


@page("GET")
def one_problem(request: HttpRequest, code: str) -> HttpResponse:
    """Explains one refusal. The ``type`` of every problem links here."""
    refusal = refusals.Refused.of(code)
    if refusal is None:
        raise refusals.NotFound
    return _public(request, "problems/one.html", {"refusal": refusal})


def too_many(request: HttpRequest) -> HttpResponse:
    """The response of the account pages to too many attempts."""
    return problem(request, refusals.RateLimited(PAUSE))


def _public(request: HttpRequest, template: str, context: dict[str, object]) -> HttpResponse:
    """Renders a page that is the same for everyone, so caches may store it."""
    response = render(request, template, context)
    response["Cache-Control"] = PUBLIC["Cache-Control"]
    return response
