"""Pages for everybody: the home page, and one for each way in which the service says no."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from config.problems import problem
from desks.models import Card
from desks.pages import page
from events.refusals import NotFound, RateLimited, Refused
from signals.api.views import PUBLIC
from signals.law import LAW

# How long a browser is asked to wait when it signs in, signs up or resets too often: seconds.
PAUSE = 60


@page("GET")
def home(request: HttpRequest) -> HttpResponse:
    """What this is, the published card, and how one begins."""
    context = {
        "card": Card.objects.published().first(),
        "law": LAW,
        "hook": settings.BASE_URL + reverse("hook"),
    }
    return render(request, "home.html", context)


@page("GET")
def problems(request: HttpRequest) -> HttpResponse:
    """Every refusal of the contract."""
    refusals = [_shown(refusal) for refusal in Refused.registry()]
    return _public(request, "problems/index.html", {"refusals": refusals})


@page("GET")
def one_problem(request: HttpRequest, code: str) -> HttpResponse:
    """One refusal: what it means and what to do. The ``type`` of every problem leads here."""
    for refusal in Refused.registry():
        if refusal.code == code:
            return _public(request, "problems/one.html", {"refusal": _shown(refusal)})
    raise NotFound


def too_many(request: HttpRequest) -> HttpResponse:
    """What the account pages answer to somebody who tries too often."""
    return problem(request, RateLimited(PAUSE))


def _shown(refusal: type[Refused]) -> dict[str, object]:
    """A refusal for a template, which would call a class instead of reading it."""
    return {name: getattr(refusal, name) for name in ("code", "status", "title", "detail")}


def _public(request: HttpRequest, template: str, context: dict[str, object]) -> HttpResponse:
    """A page that is the same for everybody, and so may be kept and asked about again."""
    response = render(request, template, context)
    response["Cache-Control"] = PUBLIC["Cache-Control"]
    return response
