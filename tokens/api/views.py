"""The API's token endpoints: list, mint and revoke at /api/v1/tokens."""

from typing import Any

from rest_framework.request import Request
from rest_framework.viewsets import ViewSetMixin

from desks.models import Desk
from events.actors import Actor
from events.http import limits
from events.http.api_view import ApiResponse, ApiView
from events.http.bodies import json_body, raw_body
from events.http.cursors import list_cursor, list_key, page_of
from events.http.parameters import PageParameters
from events.http.refusals import ExchangeSecret, Invalid, NotAllowed, NotFound, TokenInvalid
from tokens import actions
from tokens.api import schemas
from tokens.api.serializers import Minting, Revoking, RevokingBody
from tokens.callers.authentication import SessionOrBearerAuthentication
from tokens.callers.permissions import SignedInToMint
from tokens.callers.staff import is_staff, require_staff
from tokens.callers.throttles import count_failure
from tokens.choices import Scope
from tokens.crypto.exchange_secrets import contains_secret
from tokens.models import Token
from tokens.models.token import TokenQuerySet

LIST = "tokens"


class TokenViewSet(ViewSetMixin, ApiView):
    """Lists, mints and revokes tokens.

    A session reaches the user's own tokens, and all tokens for staff. A desk token reaches the
    tokens of its desk, a platform token only itself.
    """

    authentication_classes = [SessionOrBearerAuthentication]
    # No scope is required: _reachable decides which tokens a caller may see.
    permission_classes = [SignedInToMint]

    @schemas.list_tokens
    def list(self, request: Request) -> ApiResponse:
        params = PageParameters.read(request.query_params)
        tokens = _reachable(request, to_change=False)
        if "after" in params:
            tokens = tokens.filter(pk__gt=list_key(params["after"], LIST))
        rows = list(tokens[: params["limit"] + 1])
        page, next_cursor = page_of(
            rows, params["limit"], lambda token: list_cursor(LIST, token.pk)
        )
        return ApiResponse({"tokens": [token.to_dict() for token in page], "next": next_cursor})

    @schemas.mint_token
    def create(self, request: Request) -> ApiResponse:
        desk = Desk.objects.filter(user=request.user.pk).first()
        of_desk = limits.desk_limits(desk.public_id) if desk else []
        limits.consume_all([("minting", str(request.user.pk)), *of_desk])
        data = Minting.read(_clean_body(request))
        value, token = _mint(request, desk, data)
        return ApiResponse({**token.to_dict(), "token": value}, status=201)

    @schemas.revoke_token
    def revoke(self, request: Request) -> ApiResponse:
        if request.auth is None and is_staff(request._request):
            require_staff(request._request, recently=True)
        public_id = _chosen(request)
        if public_id is None and request.auth is None:
            raise Invalid.field("id", "required", "Name the token.")
        chosen = public_id or request.auth.public_id
        token = _reachable(request, to_change=True).filter(public_id=chosen).first()
        if token is None:
            raise NotFound
        try:
            revoked = actions.revoke(token=token, actor=_actor(request))
        except TokenInvalid as refusal:
            raise count_failure(request, refusal) from None  # the caller was revoked meanwhile
        return ApiResponse(revoked.to_dict())


def _reachable(request: Request, *, to_change: bool) -> TokenQuerySet:
    """The tokens that the caller may list or, with ``to_change``, revoke."""
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


def _mint(request: Request, desk: Desk | None, data: dict[str, Any]) -> tuple[str, Token]:
    if data["scope"] == Scope.PLATFORM:
        require_staff(request._request, recently=True)
        return actions.mint_platform_token(
            name=data["name"],
            scopes=data["scopes"],
            actor=_actor(request),
            expires_at=data["expiresAt"],
        )
    if desk is None:
        raise NotAllowed("Staff, and users whose address is not verified, have no desk.")
    return actions.mint_desk_token(desk=desk, actor=_actor(request), name=data["name"])


def _actor(request: Request) -> Actor:
    """The caller as the actor of an event."""
    actor: Actor = (request.auth or request.user).actor
    return actor


def _clean_body(request: Request) -> dict[str, Any]:
    """The parsed body. Raises ``ExchangeSecret``: a token's name is stored and listed."""
    body = json_body(request)
    if contains_secret(body):
        raise ExchangeSecret
    return body


def _chosen(request: Request) -> str | None:
    """The token id in the query or the body; None if there is no body and no id in the query.

    Raises ``Invalid`` if the two differ, or if a body names no token: a client that lost the id
    must not revoke its own token.
    """
    in_query = Revoking.read(request.query_params).get("id")
    if not raw_body(request):
        return in_query
    in_body: str = RevokingBody.read(_clean_body(request))["id"]
    if in_query and in_query != in_body:
        raise Invalid.field("id", "contradiction", "The query and the body name different tokens.")
    return in_body
