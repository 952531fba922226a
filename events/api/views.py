"""GET /api/v1/events: the feed."""

import time
from dataclasses import replace
from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.viewsets import ViewSetMixin

from events.api import schemas
from events.api.serializers import FeedParameters, serialize_event
from events.feed.dates import limit_to_times
from events.feed.reading import Page, Query, Visibility, read_page
from events.feed.waiting import Reader, Waiter, waiting_room
from events.http.api_view import ApiResponse, ApiView
from events.http.cursors import log_cursor, log_position
from events.http.refusals import TokenInvalid
from events.models import Head


class EventViewSet(ViewSetMixin, ApiView):
    """The events of the log that the caller may see.

    The caller (``request.auth``) provides ``visibility_of(userId, botId)``: its visible spans;
    ``is_platform``: which version of an event it sees; ``public_id``: the owner of its waiting
    seats; and ``is_active(now)``: whether its token is still active after the wait.
    """

    required_scopes = {"GET": "read", "HEAD": "read"}

    @schemas.list_events
    def list(self, request: Request) -> ApiResponse:
        parameters = FeedParameters.read(request.query_params)
        feed = _Feed(parameters, request.auth)
        page = feed.read(feed.query)
        if parameters["wait"] and feed.awaits_more(page):
            page = _wait_for_page(feed, page, request.auth, parameters["wait"])
        platform = request.auth.is_platform
        return ApiResponse(
            {
                "events": [serialize_event(event, platform=platform) for event in page.events],
                "next": log_cursor(page.head.epoch, page.examined),
                "more": page.more,
            }
        )


class _Feed:
    """What a request asks for, and the part of the log that its caller sees of it."""

    def __init__(self, parameters: dict[str, Any], caller: Any) -> None:
        user_id, bot_id = parameters.get("userId"), parameters.get("botId")
        self.query = _query(parameters)
        self.visibility: Visibility = caller.visibility_of(user_id, bot_id)
        self._since, self._until = parameters.get("since"), parameters.get("until")

    def read(self, query: Query) -> Page:
        """A page between the times that were asked for, as far as the log has come."""
        return read_page(limit_to_times(query, self._since, self._until), self.visibility)

    def awaits_more(self, page: Page) -> bool:
        """Whether the page is empty and a later event can still be in the feed."""
        is_over = self._until is not None and page.head.at >= self._until
        return not (page.events or page.more or is_over)


def _query(parameters: dict[str, Any]) -> Query:
    after = parameters.get("after")
    return Query(
        having={"bot_id": parameters["botId"]} if "botId" in parameters else {},
        after=None if after is None else _position(after),
        limit=parameters["limit"],
        kinds=tuple(dict.fromkeys(parameters["kind"])),
        signal=parameters.get("signal"),
        descending=parameters["order"] == "desc",
    )


def _position(cursor: str) -> int:
    head = Head.objects.get()
    return log_position(cursor, head.epoch, head.position)


def _wait_for_page(feed: _Feed, page: Page, caller: Any, seconds: int) -> Page:
    """Waits up to ``seconds`` for a page that is not empty; returns the last page that was read.

    Raises ``TokenInvalid`` if the caller's token is no longer active. The check runs after the
    page is read, so that no page shows an event from after the token's end.
    """
    deadline = time.monotonic() + seconds
    with waiting_room.seat(Reader(caller.public_id, caller.is_platform)) as taken:
        while taken and feed.awaits_more(page):
            left = deadline - time.monotonic()
            waiter = Waiter.of(feed.visibility, feed.query.kinds, page.head.position)
            if left <= 0 or not waiting_room.wait(waiter, left):
                break
            page = feed.read(replace(feed.query, after=page.examined))
    now = max([timezone.now(), *(event.at for event in page.events)])  # this server's clock can lag
    if not caller.is_active(now):
        raise TokenInvalid
    return page
