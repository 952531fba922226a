"""The activity page: a desk's events, newest first, filtered and paginated."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from desks.feed.visibility import desk_visibility
from desks.models import Desk
from events.feed.head import read_head
from events.feed.reading import read_page
from events.http.cursors import log_position
from signals.reports.activity import bot_names, cursors, lines, newest_first
from signals.site.activity.filters import query_of, read_filter
from signals.web.access import customer_page

PAGE_SIZE = 50


@customer_page("GET")
def activity(request: HttpRequest, desk: Desk) -> HttpResponse:
    """One page of events older than the cursor ``after``, or newer than it with ``newer``.

    With ``fragment`` only the list, for an open page that asks for new events. Raises ``Invalid``
    or ``CursorLost``.
    """
    form = read_filter(request, desk)
    query = query_of(
        form, after=_after(request), limit=PAGE_SIZE, descending="newer" not in request.GET
    )
    page = read_page(query, desk_visibility(desk))
    shown = lines(newest_first(query, page), bot_names(desk))
    if "fragment" in request.GET:
        return render(request, "events/list.html", {"lines": shown})
    context = {
        "form": form,
        "lines": shown,
        "is_latest": query.after is None,
        **cursors(query, page),
    }
    return render(request, "pages/activity.html", context)


def _after(request: HttpRequest) -> int | None:
    """The position in the cursor. Raises ``Invalid`` or ``CursorLost``."""
    after = request.GET.get("after", "")
    if not after:
        return None
    head = read_head()
    return log_position(after, head.epoch, head.position)
