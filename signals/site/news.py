"""The streams of the pages, which say that something new happened, but not what.

An open page then fetches what it shows. A session opens the stream, and ends it.
"""

from typing import cast

from django.http import HttpRequest, HttpResponseBase

from desks.feed.visibility import desk_visibility, topic_changes
from desks.models import Desk, User
from events.feed.head import read_head
from events.feed.reading import WHOLE_LOG, Query, Visibility
from events.live.frames import Version
from events.live.readers import View
from events.live.streams import open_stream
from signals.web.access import customer_page
from tokens.callers.sessions import session_credential


@customer_page("GET")
def desk_news(request: HttpRequest, desk: Desk) -> HttpResponseBase:
    """A hint for each new event of the desk."""
    return _news(request, desk_visibility(desk), is_platform=False)


def log_news(request: HttpRequest) -> HttpResponseBase:
    """A hint for each new event of the log, for staff."""
    return _news(request, lambda window: WHOLE_LOG, is_platform=True)


def _news(request: HttpRequest, visibility: Visibility, *, is_platform: bool) -> HttpResponseBase:
    user = cast(User, request.user)
    view = View(
        credential=session_credential(request, user),
        owner=f"user:{user.pk}",
        is_platform=is_platform,
        version=Version.HINT,
        rule=topic_changes,
    )
    return open_stream(request, view, Query(), visibility, read_head())
