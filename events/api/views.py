"""GET /api/v1/events: the feed."""

import time
from dataclasses import replace
from typing import Any

from rest_framework.request import Request
from rest_framework.viewsets import ViewSetMixin

from events.api import schemas
from events.api.base import Answer, ApiView
from events.api.serializers import FeedParameters, event_as_json
from events.cursors import log_cursor, log_position
from events.feed import Page, Query, View, read_page
from events.models import Head
from events.waiting import Waiter, room


class EventViewSet(ViewSetMixin, ApiView):
    """The log, as far as the caller sees it.

    The caller (``request.auth``) says what that is: ``view_of(userId)`` gives its spans,
    ``is_platform`` which version of each event it is shown, ``public_id`` under what it waits.
    """

    required_scopes = {"GET": "read", "HEAD": "read"}

    @schemas.list_events
    def list(self, request: Request) -> Answer:
        given = FeedParameters.read(request.query_params)
        query, view = _query(given), request.auth.view_of(given.get("userId"))
        page = _wait_for_page(query, view, request.auth.public_id, given["wait"])
        platform = request.auth.is_platform
        return Answer(
            {
                "events": [event_as_json(event, platform=platform) for event in page.events],
                "next": log_cursor(page.head.epoch, page.examined),
                "more": page.more,
            }
        )


def _query(given: dict[str, Any]) -> Query:
    after = given.get("after")
    return Query(
        after=None if after is None else _position(after),
        limit=given["limit"],
        kinds=tuple(dict.fromkeys(given["kind"])),
        signal=given.get("signal"),
        descending=given["order"] == "desc",
    )


def _position(cursor: str) -> int:
    head = Head.objects.get()
    return log_position(cursor, head.epoch, head.position)


def _wait_for_page(query: Query, view: View, reader: str, seconds: int) -> Page:
    """The page, or after so many seconds an empty one."""
    deadline = time.monotonic() + seconds
    page = read_page(query, view)
    if page.events or page.more or not seconds:
        return page
    with room.seat(reader) as taken:
        while taken and not page.events and not page.more:
            left = deadline - time.monotonic()
            waiter = Waiter.of(view, query.kinds, page.head.position)
            if left <= 0 or not room.wait(waiter, left):
                break
            page = read_page(replace(query, after=page.examined), view)
    return page
