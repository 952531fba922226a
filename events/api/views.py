"""GET /api/v1/events: the feed."""

import time
from dataclasses import replace
from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.viewsets import ViewSetMixin

from events.api import schemas
from events.api.serializers import FeedParameters, serialize_event
from events.feed.reading import Page, Query, Visibility, read_page
from events.feed.waiting import Reader, Waiter, waiting_room
from events.http.api_view import ApiResponse, ApiView
from events.http.cursors import log_cursor, log_position
from events.http.refusals import TokenInvalid
from events.models import Head


class EventViewSet(ViewSetMixin, ApiView):
    """The events of the log that the caller may see.

    The caller (``request.auth``) provides ``visibility_of(userId)``: its visible spans;
    ``is_platform``: which version of an event it sees; ``public_id``: the owner of its waiting
    seats; and ``is_active(now)``: whether its token is still active after the wait.
    """

    required_scopes = {"GET": "read", "HEAD": "read"}

    @schemas.list_events
    def list(self, request: Request) -> ApiResponse:
        parameters = FeedParameters.read(request.query_params)
        query, visibility = _query(parameters), request.auth.visibility_of(parameters.get("userId"))
        page = read_page(query, visibility)
        if parameters["wait"] and _is_empty(page):
            page = _wait_for_page(query, visibility, page, request.auth, parameters["wait"])
        platform = request.auth.is_platform
        return ApiResponse(
            {
                "events": [serialize_event(event, platform=platform) for event in page.events],
                "next": log_cursor(page.head.epoch, page.examined),
                "more": page.more,
            }
        )


def _query(parameters: dict[str, Any]) -> Query:
    after = parameters.get("after")
    return Query(
        after=None if after is None else _position(after),
        limit=parameters["limit"],
        kinds=tuple(dict.fromkeys(parameters["kind"])),
        signal=parameters.get("signal"),
        descending=parameters["order"] == "desc",
    )


def _position(cursor: str) -> int:
    head = Head.objects.get()
    return log_position(cursor, head.epoch, head.position)


def _is_empty(page: Page) -> bool:
    return not page.events and not page.more


def _wait_for_page(
    query: Query, visibility: Visibility, page: Page, caller: Any, seconds: int
) -> Page:
    """Waits up to ``seconds`` for a page that is not empty; returns the last page that was read.

    Raises ``TokenInvalid`` if the caller's token is no longer active. The check runs after the
    page is read, so that no page shows an event from after the token's end.
    """
    deadline = time.monotonic() + seconds
    with waiting_room.seat(Reader(caller.public_id, caller.is_platform)) as taken:
        while taken and _is_empty(page):
            left = deadline - time.monotonic()
            waiter = Waiter.of(visibility, query.kinds, page.head.position)
            if left <= 0 or not waiting_room.wait(waiter, left):
                break
            page = read_page(replace(query, after=page.examined), visibility)
    now = max([timezone.now(), *(event.at for event in page.events)])  # this server's clock can lag
    if not caller.is_active(now):
        raise TokenInvalid
    return page
