"""The desk pull: GET /api/v1/me, /api/v1/desks and /api/v1/desks/{userId}."""

from contextlib import nullcontext
from typing import Any

from rest_framework.request import Request
from rest_framework.viewsets import ViewSetMixin

from desks.api import schemas
from desks.api.serializers import NO, YES, DeskParameters, changes_as_json, desks_as_json
from desks.api.walks import Walk
from desks.models import Card, Desk
from desks.models.desk import DeskQuerySet
from events.http.api_view import ApiResponse, ApiView
from events.http.cursors import page_of
from events.http.refusals import NotFound
from events.kinds import Kind
from events.models import Event
from events.statements import planned_for_values


class MeView(ApiView):
    """The desk of the calling token."""

    required_scopes = {"GET": "read", "HEAD": "read"}
    for_platform = False

    @schemas.read_me
    def get(self, request: Request) -> ApiResponse:
        return ApiResponse(_one_desk(pk=request.auth.desk_id))


class DeskViewSet(ViewSetMixin, ApiView):
    """The desks, for the engine and other platforms."""

    required_scopes = {"GET": "read", "HEAD": "read"}
    for_platform = True

    @schemas.list_desks
    def list(self, request: Request) -> ApiResponse:
        params = DeskParameters.read(request.query_params)
        walk = Walk(params)
        latest = Card.objects.first()
        card = latest if latest is not None and latest.closed is None else None
        rows = _page(params, walk, card)
        page, next_cursor = page_of(rows, params["limit"], lambda row: walk.cursor(row[1]))
        answer = {
            "paper": True,
            "liveWrites": False,
            "desks": [desk for desk, _ in page],
            "asOf": walk.as_of,
            "next": next_cursor,
        }
        if walk.since is not None:
            answer["cardChanged"] = latest is not None and latest.changed_since(walk.after)
        return ApiResponse(answer)

    @schemas.read_desk
    def retrieve(self, request: Request, user_id: str) -> ApiResponse:
        return ApiResponse(_one_desk(public_id=user_id))


def _one_desk(**which: Any) -> dict[str, Any]:
    """The record of one desk. Raises ``NotFound``."""
    card = Card.objects.published().first()
    desks = Desk.objects.active().with_standing(card).in_order().filter(**which)
    for desk, _ in desks_as_json(desks, card):
        return desk
    raise NotFound


def _page(
    params: dict[str, Any], walk: Walk, card: Card | None
) -> list[tuple[dict[str, Any], int]]:
    """The records of the page and, if there is one, of the desk after it; each with its ``key``."""
    limit = params["limit"] + 1
    if walk.since is None:
        # Almost every desk may be not ready, or almost none: no one plan is good for both.
        with planned_for_values() if params.get("ready") == NO else nullcontext():
            return desks_as_json(_select(params, walk.after, card)[:limit], card)
    changed = Desk.objects.with_standing(card).changed_since(walk.after)
    return changes_as_json(changed[:limit], card)


def _select(params: dict[str, Any], after: int, card: Card | None) -> DeskQuerySet:
    """The desks after a key that match the parameters, ordered by ``key``."""
    desks = Desk.objects.with_standing(card, after=0 if "signal" in params else after)
    if "signal" not in params:
        desks = desks.active()
    if "ready" in params:
        desks = desks.ready(card, params["ready"] == YES)
    if "connected" in params:
        desks = desks.connected(params["connected"] == YES)
    return _in_order(desks, params).filter(key__gt=after)  # type: ignore[misc]


def _in_order(desks: DeskQuerySet, params: dict[str, Any]) -> DeskQuerySet:
    if "signal" not in params:
        return desks.in_order()
    fill = Event.objects.filter(signal_id=params["signal"], kind=Kind.SIGNAL_FILLED).first()
    return desks.filled_by(fill) if fill else desks.none().in_order()
