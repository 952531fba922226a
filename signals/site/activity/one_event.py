"""The page of one event: what was sent, what was elected, what decided it, what to do now."""

import re

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from desks.models import Desk
from events.http.refusals import NotFound
from signals.reports.activity import bot_names, lines
from signals.reports.one_event import story_of, visible_event
from signals.web.access import customer_page

EVENT_ID = re.compile(r"evt_([1-9][0-9]{0,17})", re.ASCII)


@customer_page("GET")
def one_event(request: HttpRequest, desk: Desk, event_id: str) -> HttpResponse:
    """One event that the desk sees. Raises ``NotFound`` for any other."""
    match = EVENT_ID.fullmatch(event_id)
    event = visible_event(desk, int(match[1])) if match else None
    if event is None:
        raise NotFound("The event does not exist, or you have no access to it.")
    (line,) = lines([event], bot_names(desk))
    return render(request, "pages/event.html", {"story": story_of(event, line, desk), "line": line})
