"""The activity page: a desk's events, newest first, paginated."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from desks.models import Desk
from events.feed.reading import Query, read_page
from events.http.cursors import log_position
from events.http.refusals import Invalid
from events.kinds import Kind
from events.models import Head
from signals.pages.access import customer_page
from signals.pages.fragments import fragment, is_fragment
from signals.reports.activity import bot_names, cursors, lines, newest_first
from tokens.models.token import desk_visibility

PAGE_SIZE = 50


# The labels of the event kinds in the filter.
KIND_LABELS = {kind.value: kind.label.capitalize() for kind in Kind}


@customer_page("GET")
def activity(request: HttpRequest, desk: Desk) -> HttpResponse:
    """One page of events older than the cursor ``after``, or newer than it with ``newer``."""
    query = _query(request)
    page = read_page(query, desk_visibility(desk))
    shown = lines(newest_first(query, page), bot_names(desk))
    if is_fragment(request):
        return fragment(request, shown)
    context = {
        "kind": next(iter(query.kinds), ""),
        "kinds": KIND_LABELS,
        "lines": shown,
        "is_latest": query.after is None,
        **cursors(query, page),
    }
    return render(request, "pages/activity.html", context)


def _query(request: HttpRequest) -> Query:
    """Reads the query string. Raises ``Invalid`` or ``CursorLost``."""
    kind, after = request.GET.get("kind", ""), request.GET.get("after", "")
    if kind and kind not in Kind.values:
        raise Invalid.field("kind", "unknown", "Choose a kind from the list.")
    head = Head.objects.get()
    return Query(
        after=log_position(after, head.epoch, head.position) if after else None,
        limit=PAGE_SIZE,
        kinds=(kind,) if kind else (),
        descending="newer" not in request.GET,
    )
