"""GET /api/v1/me, /api/v1/desks and /api/v1/desks/{userId}: the desk pull."""

from typing import Any

from rest_framework.request import Request
from rest_framework.viewsets import ViewSetMixin

from desks.api import schemas
from desks.api.serializers import YES, DeskParameters, desks_as_json
from desks.models import Card, Desk
from desks.models.desk import DeskQuerySet
from events.api.base import Answer, ApiView
from events.cursors import list_cursor, list_key
from events.kinds import Kind
from events.models import Event
from events.refusals import NotFound


class MeView(ApiView):
    """The desk of the token that calls."""

    required_scopes = {"GET": "read", "HEAD": "read"}
    for_platform = False

    @schemas.read_me
    def get(self, request: Request) -> Answer:
        return Answer(_one_desk(pk=request.auth.desk_id))


class DeskViewSet(ViewSetMixin, ApiView):
    """The desks, as the engine pulls them."""

    required_scopes = {"GET": "read", "HEAD": "read"}
    for_platform = True

    @schemas.list_desks
    def list(self, request: Request) -> Answer:
        given = DeskParameters.read(request.query_params)
        card = Card.objects.published().first()
        desks, following = _page(_chosen(given, card), given, card)
        return Answer({"paper": True, "liveWrites": False, "desks": desks, "next": following})

    @schemas.read_desk
    def retrieve(self, request: Request, user_id: str) -> Answer:
        return Answer(_one_desk(public_id=user_id))


def _one_desk(**which: Any) -> dict[str, Any]:
    """One desk's record; raises ``NotFound``."""
    card = Card.objects.published().first()
    desks = Desk.objects.with_standing(card).in_order().filter(**which)
    for desk, _ in desks_as_json(desks, card):
        return desk
    raise NotFound


def _chosen(given: dict[str, Any], card: Card | None) -> DeskQuerySet:
    """The desks that the parameters ask for, in their order."""
    after = list_key(given["after"]) if "after" in given else 0
    desks = Desk.objects.with_standing(card, behind=0 if "signal" in given else after)
    if "ready" in given:
        desks = desks.ready(card, given["ready"] == YES)
    if "connected" in given:
        desks = desks.connected(given["connected"] == YES)
    return _in_order(desks, given).filter(key__gt=after)  # type: ignore[misc]


def _in_order(desks: DeskQuerySet, given: dict[str, Any]) -> DeskQuerySet:
    if "signal" not in given:
        return desks.in_order()
    fill = Event.objects.filter(signal_id=given["signal"], kind=Kind.SIGNAL_FILLED).first()
    return desks.filled_by(fill) if fill else desks.none().in_order()


def _page(
    desks: DeskQuerySet, given: dict[str, Any], card: Card | None
) -> tuple[list[dict[str, Any]], str | None]:
    """One page, and the cursor of the one after it, null at the end."""
    found = desks_as_json(desks[: given["limit"] + 1], card)
    page = found[: given["limit"]]
    following = list_cursor(page[-1][1]) if len(found) > len(page) else None
    return [desk for desk, _ in page], following
