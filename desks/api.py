"""The endpoints of desks: GET /api/v1/me, /api/v1/desks and /api/v1/desks/{userId}."""

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from django.urls import path
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.viewsets import ViewSetMixin

from desks.ids import UserId
from desks.models import Card, Desk
from desks.models.desk import TRADE_ONLY, DeskQuerySet
from desks.pair_and_direction import PairAndDirection
from events.columns import ToRfc3339
from events.feed import read_end, read_identity
from events.http.api_view import ApiResponse, ApiView
from events.http.cursors import log_cursor, log_position, page_of, scan_cursor, scan_place
from events.http.parameters import MAX_TEXT_LENGTH, PageParameters, TextParameter
from events.http.refusals import CursorLost, FieldCode, Invalid, NotFound
from events.http.schemas import NextPage, PaperOnly, endpoint
from events.json_schema import DateTime, Example, JsonSchema
from events.kinds import Kind
from events.models import Event, Identity
from events.statements import planned_for_values

TAG = "Desks"
Row = dict[str, Any]  # the columns of a desk that its record shows

YES, NO = "1", "0"
# The parameters that filter desks. None of them goes with changedSince.
FILTERS = ("ready", "connected", "signal")


class DeskParameters(PageParameters):
    """The parameters of the desk list (contract, section 4)."""

    ready = serializers.ChoiceField(
        [YES, NO],
        required=False,
        help_text="1 for ready desks, 0 for desks that are not ready.",
    )
    connected = serializers.ChoiceField(
        [YES, NO],
        required=False,
        help_text="1 for connected desks, 0 for desks that are not.",
    )
    signal = TextParameter("Only desks that this signal filled.")
    changedSince = TextParameter(
        "The asOf of an earlier response: only desks that changed after it. It takes no other "
        "filter."
    )

    def validate(self, data: dict[str, Any]) -> dict[str, Any]:
        filters = [name for name in FILTERS if name in data]
        if "changedSince" in data and filters:
            detail = "Send changedSince without other filters."
            raise serializers.ValidationError(
                dict.fromkeys(filters, detail), code=FieldCode.CONTRADICTION
            )
        return data


# --- The answers ---------------------------------------------------------------------------------


class ConnectionRecord(TypedDict):
    """The connection of a desk to a venue. The service never asks for a venue's keys."""

    venue: Annotated[str, Example("Kraken")]
    access: Annotated[str, JsonSchema(const=TRADE_ONLY), Example(TRADE_ONLY)]
    connectedAt: DateTime


class CardElection(PairAndDirection):
    """The desk's standing election on the published card."""

    card: Annotated[str, "The card's name.", Example("Morning trend")]
    electedAt: DateTime


class DeskRecord(PaperOnly):
    """A user's desk."""

    userId: UserId
    connected: Annotated[bool, "The desk has a venue and its owner confirmed trade-only access."]
    ready: Annotated[bool, "The desk has a standing election on the published card."]
    connection: ConnectionRecord | None
    election: CardElection | None
    createdAt: DateTime
    updatedAt: Annotated[
        DateTime, "When the desk itself last changed. Publishing a card changes none."
    ]


class RemovedDesk(TypedDict):
    """A desk that is no longer listed: its owner was deactivated or closed the account."""

    userId: UserId
    removed: Literal[True]


class DeskPage(PaperOnly):
    """A page of desks."""

    desks: list[DeskRecord | RemovedDesk]
    asOf: Annotated[
        str,
        "The position of the log before the first page: send it as changedSince later. It is also "
        "an after of the feed.",
        Example("ZXZlbnRzOjRmMWMyYTkwLjc"),
    ]
    next: NextPage
    cardChanged: NotRequired[
        Annotated[
            bool,
            "With changedSince only. True if the published card changed: then no desk is ready but "
            "those on this page and on the pages after it.",
        ]
    ]


# What is on a page, with its ``key``.
Listed = tuple[DeskRecord | RemovedDesk, int]


def _rows(desks: DeskQuerySet) -> Iterable[Row]:
    """What the records of desks show, in one query. Needs ``with_standing``."""
    rows: Iterable[Row] = desks.values(  # type: ignore[misc]  # key is annotated
        "public_id",
        "key",
        "deactivated",
        "linked__venue",
        "standing__pair",
        "standing__direction",
        created=ToRfc3339("created_at"),
        updated=ToRfc3339("updated_at"),
        connected_since=ToRfc3339("linked__connected_at"),
        elected=ToRfc3339("standing__elected_at"),
    )
    return rows


def _desk(row: Row, card: Card | None) -> DeskRecord:
    ready = card is not None and row["standing__pair"] is not None
    return {
        "userId": row["public_id"],
        "paper": True,
        "liveWrites": False,
        "connected": row["linked__venue"] is not None,
        "ready": ready,
        "connection": _connection(row),
        "election": _election(row, card) if card and ready else None,
        "createdAt": row["created"],
        "updatedAt": row["updated"],
    }


def _connection(row: Row) -> ConnectionRecord | None:
    if row["linked__venue"] is None:
        return None
    return {
        "venue": row["linked__venue"],
        "access": TRADE_ONLY,
        "connectedAt": row["connected_since"],
    }


def _election(row: Row, card: Card) -> CardElection:
    return {
        "card": card.name,
        "pair": row["standing__pair"],
        "direction": row["standing__direction"],
        "electedAt": row["elected"],
    }


# --- The list -------------------------------------------------------------------------------------


class Scan:
    """A page of the list of desks: where it begins, what is on it, what it is complete up to.

    ``since`` is the position after which a desk must have changed, or None for every desk.
    ``after`` is the key after which the page begins; in a list of changes, a position.
    Raises ``Invalid`` for a cursor of another list and ``CursorLost`` for one of another log.

    Make it before anything else is read. What is committed meanwhile is then behind ``as_of``,
    and the next list of changes includes it.
    """

    def __init__(self, params: dict[str, Any]) -> None:
        self._params = params
        self._head, last = read_end()
        self._known = {self._head.position: last}
        self.since = self._changed_since()
        self._name = self._list_name()
        self._start, self.after = self._head.position, self.since or 0
        if "after" in params:
            head = self._head
            self._start, self.after = scan_place(
                params["after"], self._name, head.epoch, head.position, self._event_at
            )

    def _changed_since(self) -> int | None:
        if "changedSince" not in self._params:
            return None
        try:
            head = self._head
            since = self._params["changedSince"]
            return log_position(since, head.epoch, head.position, self._event_at)
        except Invalid:
            detail = "Send the value of asOf from an earlier response, unchanged."
            raise Invalid.field("changedSince", FieldCode.CURSOR, detail) from None

    def _list_name(self) -> str:
        """Identifies the list in its cursors: a cursor is valid only with the same parameters."""
        filters = [f"{name}={self._params[name]}" for name in FILTERS if name in self._params]
        changes = [] if self.since is None else [f"changedSince={self.since}"]
        return "&".join(["desks", *filters, *changes])

    @property
    def as_of(self) -> str:
        """The cursor of the log's position before the first page. The same on every page."""
        return log_cursor(self._head.epoch, self._start, self._event_at(self._start))

    def _event_at(self, position: int) -> Identity | None:
        """What tells the event at this position from another one. None if there is no event."""
        if position not in self._known:
            self._known[position] = read_identity(position)
        return self._known[position]

    def page(self, card: Card | None) -> tuple[Sequence[Listed], str | None]:
        """What is on the page, and the cursor of the next one; None at the end of the list."""
        limit = self._params["limit"]
        return page_of(self._rows(card, limit + 1), limit, lambda row: self._cursor(row[1]))

    def _cursor(self, key: int) -> str:
        place = (self._name, self._head.epoch, self._start, key)
        cursor = scan_cursor(*place, self._event_at(self._start))
        # The name of a list with all filters leaves no room for a digest in a long log.
        return cursor if len(cursor) <= MAX_TEXT_LENGTH else scan_cursor(*place)

    def _rows(self, card: Card | None, limit: int) -> Sequence[Listed]:
        # Almost every desk may be not ready, or almost none: no one plan is good for both.
        with planned_for_values() if self._params.get("ready") == NO else nullcontext():
            rows = _rows(self._desks(card)[:limit])
            return [(self._listed(row, card), row["key"]) for row in rows]

    def _listed(self, row: Row, card: Card | None) -> DeskRecord | RemovedDesk:
        if row["deactivated"] and self.since is not None:
            return {"userId": row["public_id"], "removed": True}
        return _desk(row, card)

    def _desks(self, card: Card | None) -> DeskQuerySet:
        """The desks after a key that match the parameters, ordered by ``key``."""
        params = self._params
        if self.since is not None:
            return Desk.objects.with_standing(card).changed_since(self.after)
        if "signal" in params:
            fill = Event.objects.filter(signal_id=params["signal"], kind=Kind.SIGNAL_FILLED).first()
            desks = Desk.objects.with_standing(card)
            desks = desks.filled_by(fill) if fill else desks.none().in_order()
        else:
            desks = Desk.objects.with_standing(card, after=self.after).active().in_order()
        if "ready" in params:
            desks = desks.ready(card, params["ready"] == YES)
        if "connected" in params:
            desks = desks.connected(params["connected"] == YES)
        return desks.filter(key__gt=self.after)  # type: ignore[misc]


# --- The views -----------------------------------------------------------------------------------


class MeView(ApiView):
    """The desk of the calling token."""

    tag = TAG
    required_scopes = {"GET": "read", "HEAD": "read"}
    for_platform = False

    @endpoint("readMe")
    def get(self, request: Request) -> ApiResponse[DeskRecord]:
        """Read your own desk.

        Returns the desk of the calling desk token.
        """
        return ApiResponse(_one_desk(pk=request.auth.desk_id))


class DeskViewSet(ViewSetMixin, ApiView):
    """The desks, for the engine and other platforms."""

    tag = TAG
    required_scopes = {"GET": "read", "HEAD": "read"}
    for_platform = True

    @endpoint("listDesks", parameters=[DeskParameters], refusals=[CursorLost])
    def list(self, request: Request) -> ApiResponse[DeskPage]:
        """Pull desks.

        Lists desks in a stable order. A desk that exists throughout appears exactly once, and a
        deep page is as fast as the first. `ready=1` selects the desks that an engine may deploy to.
        `signal` selects the desks that a signal filled. Pass `next` as `after` to get the next
        page. To keep a copy up to date, send the `asOf` of the last list as `changedSince`: the
        response has the desks whose record changed since, and those that left with `removed`.
        """
        scan = Scan(DeskParameters.read(request.query_params))
        latest = Card.objects.first()
        card = latest if latest is not None and latest.closed is None else None
        page, next_cursor = scan.page(card)
        answer: DeskPage = {
            "paper": True,
            "liveWrites": False,
            "desks": [desk for desk, _ in page],
            "asOf": scan.as_of,
            "next": next_cursor,
        }
        if scan.since is not None:
            answer["cardChanged"] = latest is not None and latest.changed_since(scan.after)
        return ApiResponse(answer)

    @endpoint("readDesk")
    def retrieve(self, request: Request, user_id: str) -> ApiResponse[DeskRecord]:
        """Read one desk.

        Returns one desk. Requires a platform token with the scope read.
        """
        return ApiResponse(_one_desk(public_id=user_id))


def _one_desk(**which: object) -> DeskRecord:
    """The record of one desk. Raises ``NotFound``."""
    card = Card.objects.published().first()
    desks = Desk.objects.active().with_standing(card).in_order().filter(**which)
    for row in _rows(desks):
        return _desk(row, card)
    raise NotFound


urlpatterns = [
    path("me", MeView.as_view(), name="me"),
    path("desks", DeskViewSet.as_view({"get": "list"}), name="desks"),
    path("desks/<userId:user_id>", DeskViewSet.as_view({"get": "retrieve"}), name="desk-record"),
]
