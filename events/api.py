"""GET /api/v1/events: the feed, as pages and as a stream."""

import time
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Protocol, TypedDict, cast

from django.db import connection
from django.http import HttpResponseBase
from django.urls import path
from django.utils import timezone
from django.utils.cache import patch_vary_headers
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from rest_framework import serializers
from rest_framework.request import Request

from events import replica
from events.databases import reads_replica
from events.feed import (
    EVENTS_BETWEEN_PAUSES,
    EventRecord,
    Page,
    Query,
    Visibility,
    limit_to_times,
    read_head,
    read_page,
    serialize_event,
)
from events.http import rate_limits
from events.http.api_view import ApiResponse, ApiView
from events.http.parameters import (
    PageParameters,
    Rfc3339Field,
    StrictIntegerField,
    StrictSerializer,
    TextParameter,
    contradiction,
)
from events.http.refusals import (
    CursorLost,
    NotAcceptable,
    RateLimited,
    TokenInvalid,
    Unavailable,
)
from events.http.requests import json_weight, media_weights
from events.http.schemas import endpoint
from events.json_schema import Example
from events.kinds import Kind
from events.live.frames import MEDIA_TYPE, Version
from events.live.hub import hub
from events.live.opening import LAST_EVENT_ID, Start, is_live, open_stream, topics_at
from events.live.streams import Credential, ReaderSpec
from events.live.waiting_readers import Waiter
from events.models import Event, Head
from events.unavailable_reasons import give_way

PAGE_TIME = 30  # seconds, more than a request takes to make a page
MAX_WAIT = 25  # seconds


class FilterParameters(StrictSerializer):
    """The filters of the feed, of pages and of streams."""

    kind = serializers.ListField(
        child=serializers.ChoiceField(Kind.choices),
        required=False,
        default=list,
        help_text="Only events of this kind. Can be repeated.",
    )
    userId = TextParameter("Only what this desk sees, including the fan-outs that filled it.")
    signal = TextParameter("Only the event of this signal.")
    botId = TextParameter(
        "Only the events of this bot: its signals, refusals, elections and secrets."
    )


class FeedParameters(FilterParameters, PageParameters):
    """The query parameters of the feed (contract, section 4, events)."""

    since = Rfc3339Field(
        required=False, help_text="Only events at this time or later. A time of RFC 3339."
    )
    until = Rfc3339Field(
        required=False, help_text="Only events before this time. A time of RFC 3339."
    )
    order = serializers.ChoiceField(
        ["asc", "desc"], default="asc", help_text="asc: oldest first. desc: newest first."
    )
    wait = StrictIntegerField(
        min_value=0,
        max_value=MAX_WAIT,
        default=0,
        help_text="Seconds to wait for an event if there is none yet. Only with order=asc.",
    )

    def validate(self, data: dict[str, Any]) -> dict[str, Any]:
        if data["order"] == "desc" and data["wait"]:
            raise contradiction("wait", "Use wait with order=asc only.")
        if "since" in data and "until" in data and data["until"] <= data["since"]:
            raise contradiction("until", "Send a time after since.")
        return data


class StreamParameters(FilterParameters):
    """The query parameters of a stream (contract, section 4, streams)."""

    after = TextParameter()


# --- The answer ----------------------------------------------------------------------------------


class EventPage(TypedDict):
    """A page of the log."""

    events: list[EventRecord]
    next: Annotated[
        str,
        "Opaque. Send it as after to continue behind the last position that was examined.",
        Example("NGYxYzJhOTAuNw"),
    ]
    more: Annotated[bool, "Whether there are more events than fit on this page.", Example(False)]


# --- The view ------------------------------------------------------------------------------------


class Caller(Protocol):
    """What a view of events asks of ``request.auth``."""

    @property
    def public_id(self) -> str:
        """Of what one page of events is read at a time."""

    @property
    def reads_as(self) -> str:
        """Whose slots and streams are counted together."""

    @property
    def is_platform(self) -> bool:
        """Which version of an event it sees."""

    @property
    def credential(self) -> Credential:
        """What ends its stream."""

    def visibility_of(self, user_id: str | None, bot_id: str | None) -> Visibility:
        """The spans that it sees."""

    def is_active(self, now: datetime) -> bool:
        """Whether its token is still active after a wait."""


class EventsView(ApiView):
    """The events of the log that the caller may see."""

    tag = "Events"
    required_scopes = {"GET": "read", "HEAD": "read"}

    def initial(self, request: Request, *args: str, **kwargs: str) -> None:
        """Raises ``NotAcceptable`` before any query if the live server is asked for a list.

        Its few threads let readers in, and its event loop writes to them all.
        """
        self._is_stream = _prefers_stream(request.headers.get("Accept", ""))
        if is_live(request._request) and not self._is_stream:
            raise NotAcceptable
        # Before the token is read. The hub may have read another replica, which was ahead.
        self._known = read_head() if reads_replica() else hub.head
        super().initial(request, *args, **kwargs)

    @endpoint(
        "listEvents",
        answer=EventPage,
        parameters=[
            FeedParameters,
            OpenApiParameter(
                LAST_EVENT_ID,
                str,
                OpenApiParameter.HEADER,
                description="Streams only: the `id` of the last frame. It wins over `after`.",
            ),
        ],
        forms={
            MEDIA_TYPE: OpenApiResponse(str, "The stream. Its `data` are events, as in the list.")
        },
        refusals=[NotAcceptable, CursorLost],
    )
    def get(self, request: Request) -> HttpResponseBase:
        """Follow the log.

        The ordered log of all events that the caller may see. A platform token sees all of it. A
        desk token sees events addressed to its desk, to all desks, and to a card while the desk's
        election on it was standing. A reader that sends `next` as `after` sees every visible event
        exactly once. Start at the tail with `order=desc&limit=1` and no filter. An unknown id in a
        filter returns an empty list. If no place to wait is free, `wait` has no effect: pause
        before you send the next request. If the token ends during the wait, the response is 401.

        With `Accept: text/event-stream` the response is a stream: each new event as it happens, as
        a server-sent event. It takes `after`, `kind`, `userId`, `botId` and `signal`, and goes on
        from `Last-Event-ID`. A server of streams answers nothing else: 406.
        """
        response = _stream(request, self._known) if self._is_stream else _page(request)
        patch_vary_headers(response, ["Accept"])
        return response


def _prefers_stream(accept: str) -> bool:
    """Whether the client names the media type of streams, and wants JSON no more than that."""
    weights = media_weights(accept)
    return weights.get(MEDIA_TYPE, 0.0) > 0 and weights[MEDIA_TYPE] >= json_weight(weights)


def _page(request: Request) -> ApiResponse[EventPage]:
    parameters = FeedParameters.read(request.query_params)
    caller = cast(Caller, request.auth)
    feed = _Feed(parameters, caller)
    platform = caller.is_platform
    with _turn_to_read(caller):
        page = feed.read(feed.query)
        if not parameters["wait"] or not feed.awaits_more(page):
            return _page_response(page, feed.next, platform)
    page = _wait_for_page(feed, page, caller, parameters["wait"])
    return _page_response(page, feed.next, platform)


def _turn_to_read(caller: Caller) -> AbstractContextManager[None]:
    """Admits one request of a desk token: a page of a thousand events takes 30 ms of a core."""
    if caller.is_platform:
        return nullcontext()
    return rate_limits.one_at_a_time("events", caller.public_id, PAGE_TIME)


def _page_response(page: Page, cursor: str, platform: bool) -> ApiResponse[EventPage]:
    return ApiResponse(
        {
            "events": [
                serialize_event(event, platform=platform)
                for event in give_way(page.events, EVENTS_BETWEEN_PAUSES)
            ],
            "next": cursor,
            "more": page.more,
        }
    )


def _stream(request: Request, known: Head | None) -> HttpResponseBase:
    """A stream. ``known`` is the head of the log as the hub knew it before the token was read."""
    parameters = StreamParameters.read(request.query_params)
    start = Start.of(request.headers, parameters.get("after"))
    query = _query(parameters)
    caller = cast(Caller, request.auth)
    visibility = caller.visibility_of(parameters.get("userId"), parameters.get("botId"))
    spec = replace(_spec(caller, query), since=known)
    return open_stream(request._request, spec, query, visibility, start)


class _Feed:
    """What a request asks for, and the part of the log that its caller sees of it."""

    def __init__(self, parameters: dict[str, Any], caller: Caller) -> None:
        user_id, bot_id = parameters.get("userId"), parameters.get("botId")
        after = parameters.get("after")
        head, position = (None, None) if after is None else replica.find(after)
        self.epoch = head.epoch if head else None  # of the log; None: not known yet
        self.query = replace(
            _query(parameters),
            after=position,
            limit=parameters["limit"],
            descending=parameters["order"] == "desc",
        )
        self.visibility: Visibility = caller.visibility_of(user_id, bot_id)
        self._since, self._until = parameters.get("since"), parameters.get("until")
        self.next = ""

    def read(self, query: Query) -> Page:
        """A page between the times that were asked for, as far as the log has come.

        ``next`` is its cursor then, made while the connection to the database is the page's own.

        Raises ``CursorLost`` if another log has taken the place of the one that was read before.
        Up to the position where the page begins, that log can have events that nobody was shown.
        """
        page = read_page(limit_to_times(query, self._since, self._until), self.visibility)
        if self.epoch not in (None, page.head.epoch):
            raise CursorLost
        self.epoch, self.next = page.head.epoch, page.next
        return page

    def awaits_more(self, page: Page) -> bool:
        """Whether the page is empty and a later event can still be in the feed."""
        is_over = self._until is not None and page.head.at >= self._until
        return not (page.events or page.more or is_over)


def _query(parameters: dict[str, Any]) -> Query:
    """The filters of a page or a stream."""
    return Query(
        having={"bot_id": parameters["botId"]} if "botId" in parameters else {},
        kinds=tuple(dict.fromkeys(parameters["kind"])),
        signal=parameters.get("signal"),
    )


def _spec(caller: Caller, query: Query) -> ReaderSpec:
    """The caller as a reader of the hub, with the filters of its query."""

    def matches(event: Event) -> bool:
        return (
            (not query.kinds or event.kind in query.kinds)
            and query.signal in (None, event.signal_id)
            and query.having.get("bot_id") in (None, event.bot_id)
        )

    return ReaderSpec(
        credential=caller.credential,
        owner=caller.reads_as,
        is_platform=caller.is_platform,
        version=Version.PLATFORM if caller.is_platform else Version.DESK,
        matches=matches if query.kinds or query.signal or query.having else None,
    )


def _wait_for_page(feed: _Feed, page: Page, caller: Caller, seconds: int) -> Page:
    """Waits up to ``seconds`` for a page that is not empty; returns the last page that was read.

    Raises ``TokenInvalid`` if the caller's token is no longer active. The check runs after the
    page is read, so that no page shows an event from after the token's end.
    """
    with suppress(RateLimited, Unavailable):  # no slot is free, or the server stops
        waiter = Waiter(_spec(caller, feed.query))
        try:
            if hub.admit(waiter) == feed.epoch:
                page = _wait(feed, page, waiter, seconds)
        finally:
            hub.dismiss(waiter)
            waiter.close()
    now = max([timezone.now(), *(event.at for event in page.events)])  # this server's clock can lag
    if not caller.is_active(now):
        raise TokenInvalid
    return page


def _wait(feed: _Feed, page: Page, waiter: Waiter, seconds: int) -> Page:
    """Waits for a page as long as the hub knows the reader, and its log is not replaced."""
    deadline = time.monotonic() + seconds
    while feed.awaits_more(page) and hub.knows(waiter):
        if waiter.position is None:
            hub.attach(waiter, page.examined, topics_at(feed.visibility, page.examined))
        connection.close()
        left = deadline - time.monotonic()
        if left <= 0 or (waiter.position is not None and not waiter.wait(left)):
            break
        try:
            page = feed.read(replace(feed.query, after=page.examined))
        except CursorLost:  # the client is told when it comes back with the cursor of this page
            break
    return page


urlpatterns = [path("events", EventsView.as_view(), name="events")]
