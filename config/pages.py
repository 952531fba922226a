"""Public pages: the home page, and one page for each refusal."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from config.problems import problem
from desks.models import Card
from events.http.pages import page
from events.http.refusals import NotFound, RateLimited, Refused
from signals.intake.api import PUBLIC
from signals.law.rules import LAW

# Seconds. The Retry-After of too many sign-ins, sign-ups or password resets.
PAUSE = 60


@page("GET")
def home(request: HttpRequest) -> HttpResponse:
    """The home page: the product, the published card and the first steps."""
    context = {
        "card": Card.objects.published().first(),
        "law": LAW,
        "hook": settings.BASE_URL + reverse("hook"),
    }
    return render(request, "home.html", context)


@page("GET")
def problems(request: HttpRequest) -> HttpResponse:
    """Lists every refusal of the contract."""
    refusals = [_shown(refusal) for refusal in Refused.registry()]
    return _public(request, "problems/index.html", {"refusals": refusals})


@page("GET")
def one_problem(request: HttpRequest, code: str) -> HttpResponse:
    """Explains one refusal. The ``type`` of every problem links here."""
    for refusal in Refused.registry():
        if refusal.code == code:
            return _public(request, "problems/one.html", {"refusal": _shown(refusal)})
    raise NotFound


def too_many(request: HttpRequest) -> HttpResponse:
    """The response of the account pages to too many attempts."""
    return problem(request, RateLimited(PAUSE))


def _shown(refusal: type[Refused]) -> dict[str, object]:
    """Returns a refusal as a dictionary, because templates call classes."""
    return {name: getattr(refusal, name) for name in ("code", "status", "title", "detail")}


def _public(request: HttpRequest, template: str, context: dict[str, object]) -> HttpResponse:
    """Renders a page that is the same for everyone, so caches may store it."""
    response = render(request, template, context)
    response["Cache-Control"] = PUBLIC["Cache-Control"]
    return response
