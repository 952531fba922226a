"""/api/v1/tokens: list, mint and revoke."""

from typing import Any

from rest_framework.request import Request
from rest_framework.viewsets import ViewSetMixin

from desks import limits
from desks.models import Desk
from events.api.base import Answer, ApiView
from events.api.bodies import json_body, raw_body
from events.api.parameters import PageParameters
from events.cursors import list_cursor, list_key
from events.refusals import ExchangeSecret, Invalid, NotAllowed, NotFound, SignInRequired
from tokens import actions
from tokens.api import schemas
from tokens.api.serializers import Minting, Revoking
from tokens.authentication import SessionOrBearerAuthentication
from tokens.exchange_secrets import holds_secret
from tokens.models import Scope, Token
from tokens.models.token import TokenQuerySet
from tokens.staff import is_staff, require_staff


class TokenViewSet(ViewSetMixin, ApiView):
    """Tokens: by session one's own (staff: all), by Bearer those of one's desk, or itself."""

    authentication_classes = [SessionOrBearerAuthentication]
    permission_classes = []  # no scope is asked; whom a caller reaches is decided by _reachable

    @schemas.list_tokens
    def list(self, request: Request) -> Answer:
        given = PageParameters.read(request.query_params)
        tokens = _reachable(request, to_change=False)
        if "after" in given:
            tokens = tokens.filter(pk__gt=list_key(given["after"]))
        found = list(tokens[: given["limit"] + 1])
        page = found[: given["limit"]]
        following = list_cursor(page[-1].pk) if len(found) > len(page) else None
        return Answer({"tokens": [token.as_json() for token in page], "next": following})

    @schemas.mint_token
    def create(self, request: Request) -> Answer:
        if request.auth is not None:
            raise SignInRequired
        limits.spend("minting", str(request.user.pk))
        given = Minting.read(_clean_body(request))
        value, token = _mint(request, given)
        return Answer({**token.as_json(), "token": value}, status=201)

    @schemas.revoke_token
    def revoke(self, request: Request) -> Answer:
        if request.auth is None:
            if is_staff(request._request):
                require_staff(request._request, recently=True)
            limits.spend("changes", str(request.user.pk))
        public_id = _chosen(request)
        if public_id is None and request.auth is None:
            raise Invalid.field("id", "required", "Say which token.")
        chosen = public_id or request.auth.public_id
        token = _reachable(request, to_change=True).filter(public_id=chosen).first()
        if token is None:
            raise NotFound
        return Answer(actions.revoke(token=token).as_json())


def _reachable(request: Request, *, to_change: bool) -> TokenQuerySet:
    """The tokens that the caller may see, or revoke."""
    tokens = Token.objects.select_related("desk")
    caller = request.auth
    if caller is not None and caller.is_platform:
        return tokens.filter(pk=caller.pk)
    if caller is not None:
        return tokens.filter(desk=caller.desk_id)
    if is_staff(request._request):
        require_staff(request._request, recently=to_change)
        return tokens
    return tokens.filter(desk__user=request.user.pk)


def _mint(request: Request, given: dict[str, Any]) -> tuple[str, Token]:
    if given["scope"] == Scope.PLATFORM:
        require_staff(request._request, recently=True)
        return actions.mint_platform_token(
            name=given["name"], scopes=given["scopes"], expires_at=given["expiresAt"]
        )
    desk = Desk.objects.filter(user=request.user.pk).first()
    if desk is None:
        raise NotAllowed("Staff, and users whose address is not verified, have no desk.")
    return actions.mint_desk_token(desk=desk, name=given["name"])


def _clean_body(request: Request) -> dict[str, Any]:
    """The body, in which no exchange secret stands; a token's name is kept and listed."""
    body = json_body(request)
    if holds_secret(body):
        raise ExchangeSecret
    return body


def _chosen(request: Request) -> str | None:
    """The id that the query or the body names; raises ``Invalid`` where they differ."""
    in_query = Revoking.read(request.query_params).get("id")
    in_body = Revoking.read(_clean_body(request)).get("id") if raw_body(request) else None
    if in_query and in_body and in_query != in_body:
        raise Invalid.field("id", "contradiction", "The query and the body name two tokens.")
    return in_query or in_body
