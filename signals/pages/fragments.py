"""The list of events alone, for an open page that polls for new events."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from signals.reports.activity import Line


def is_fragment(request: HttpRequest) -> bool:
    """Returns whether the request asks only for the page's list of events."""
    return "fragment" in request.GET


def fragment(request: HttpRequest, shown: list[Line], *, compare: bool = False) -> HttpResponse:
    return render(request, "events/list.html", {"lines": shown, "compare": compare})
