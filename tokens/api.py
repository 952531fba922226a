"""The API's token endpoints: list, mint and revoke at /api/v1/tokens."""

from collections.abc import Callable
from typing import Annotated, TypedDict

from django.core.validators import RegexValidator
from django.urls import path
from drf_spectacular.utils import PolymorphicProxySerializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.viewsets import ViewSetMixin

from desks.models import Desk
from events.actors import Actor
from events.http.api_view import ApiResponse, ApiView
from events.http.bodies import json_body, raw_body
from events.http.cursors import list_page
from events.http.name_rules import MAX_NAME_LENGTH, validate_name
from events.http.parameters import (
    MAX_TEXT_LENGTH,
    PageParameters,
    Rfc3339Field,
    StrictSerializer,
    StrictTextField,
)
from events.http.refusals import (
    ExchangeSecret,
    FieldCode,
    Invalid,
    NotAllowed,
    NotFound,
    RateLimited,
    SignInRequired,
    TokenInvalid,
)
from events.http.schemas import JSON_BODY, NextPage, endpoint
from events.json_schema import JsonObject, pattern
from tokens import actions
from tokens.actions import DESK_TOKEN_NAME
from tokens.callers.authentication import SessionOrBearerAuthentication
from tokens.callers.staff import is_staff, require_staff
from tokens.callers.throttling import count_change, count_failure, count_made
from tokens.choices import Scope
from tokens.crypto import formats
from tokens.crypto.exchange_secrets import contains_secret
from tokens.models import Token
from tokens.models.token import EXAMPLE_TOKEN_ID, READ, WRITE, TokenQuerySet, TokenRecord

LIST, LIMIT = "tokens", "minting"

# --- What is sent --------------------------------------------------------------------------------


NAME_RULES: list[Callable[[str], None]] = [RegexValidator(r"\S"), validate_name]


class DeskMinting(StrictSerializer):
    """A new token for the user's own desk. It has the scope read and replaces the previous one."""

    scope = serializers.ChoiceField([Scope.DESK.value])
    name = StrictTextField(
        max_length=MAX_NAME_LENGTH, default=DESK_TOKEN_NAME, validators=NAME_RULES
    )


class PlatformMinting(StrictSerializer):
    """A new platform token. Only staff may mint one."""

    scope = serializers.ChoiceField([Scope.PLATFORM.value])
    name = StrictTextField(max_length=MAX_NAME_LENGTH, validators=NAME_RULES)
    scopes = serializers.ListField(
        child=serializers.ChoiceField([READ, WRITE]),
        allow_empty=False,
        min_length=1,
        help_text="The scope write does not include read.",
    )
    expiresAt = Rfc3339Field(default=None, allow_null=True)


FORMS: dict[str, type[StrictSerializer]] = {
    Scope.DESK.value: DeskMinting,
    Scope.PLATFORM.value: PlatformMinting,
}
MINTING = PolymorphicProxySerializer("Minting", {**FORMS}, resource_type_field_name="scope")


class Revoking(StrictSerializer):
    """The token to revoke, in the query."""

    id = StrictTextField(
        max_length=MAX_TEXT_LENGTH, required=False, help_text="The id of the token: tok_…"
    )


class RevokingBody(StrictSerializer):
    """The token to revoke, in the body. A body must name it."""

    id = StrictTextField(max_length=MAX_TEXT_LENGTH, help_text="The id of the token: tok_…")


# --- The answers ---------------------------------------------------------------------------------

TAIL = f"[0-9A-Za-z]{{{formats.RANDOM_CHARACTERS + formats.CHECKSUM_CHARACTERS}}}"


class MintedToken(TokenRecord):
    """The new token's record and its value."""

    token: Annotated[
        str,
        pattern(f"({formats.DESK_TOKEN}|{formats.PLATFORM_TOKEN}){TAIL}"),
        "The value. It is shown only once and is never stored.",
    ]


class TokenPage(TypedDict):
    """A page of tokens."""

    tokens: list[TokenRecord]
    next: NextPage


DESK_BODY = {"scope": Scope.DESK.value, "name": "My laptop"}
PLATFORM_BODY = {
    "scope": Scope.PLATFORM.value,
    "name": "Engine",
    "scopes": [READ, WRITE],
    "expiresAt": None,
}

# --- The views -----------------------------------------------------------------------------------


class TokenViewSet(ViewSetMixin, ApiView):
    """Lists, mints and revokes tokens.

    A session reaches the user's own tokens, and all tokens for staff. A desk token reaches the
    tokens of its desk, a platform token only itself.
    """

    tag = "Tokens"
    authentication_classes = [SessionOrBearerAuthentication]
    # No scope is required: _reachable decides which tokens a caller may see.
    permission_classes = ()

    @endpoint("listTokens", parameters=[PageParameters])
    def list(self, request: Request) -> ApiResponse[TokenPage]:
        """List tokens.

        A desk token lists the tokens of its desk; a platform token lists itself. A session lists
        the user's own tokens, and all tokens for staff. A request with an `Authorization` header
        does not use the session.
        """
        params = PageParameters.read(request.query_params)
        page, next_cursor = list_page(_reachable(request, to_change=False), params, LIST)
        return ApiResponse({"tokens": [token.to_dict() for token in page], "next": next_cursor})

    @endpoint(
        "mintToken",
        example=False,
        status=201,
        body=MINTING,
        bodies={"Desk": DESK_BODY, "Platform": PLATFORM_BODY},
        refusals=[
            *JSON_BODY,
            SignInRequired,
            TokenInvalid,
            NotAllowed,
            RateLimited,
            ExchangeSecret,
        ],
    )
    def create(self, request: Request) -> ApiResponse[MintedToken]:
        """Mint a token.

        Requires a session. `scope` `desk` mints a token for the user's own desk and revokes the
        previous one. `scope` `platform` is for staff. The value is shown only once.
        """
        desk = Desk.objects.filter(user=request.user.pk).first()
        count_change(request, LIMIT, desk)
        value, token = _mint(request, desk, _clean_body(request))
        count_made(request, LIMIT)
        return ApiResponse({**token.to_dict(), "token": value}, status=201)

    @endpoint(
        "revokeToken",
        body=RevokingBody,
        bodies={"Another": {"id": EXAMPLE_TOKEN_ID}},
        parameters=[Revoking],
        refusals=[*JSON_BODY, ExchangeSecret, NotFound],
    )
    def revoke(self, request: Request) -> ApiResponse[TokenRecord]:
        """Revoke a token.

        Send the `id` in the query or in the body. Without a body and a query, a Bearer token
        revokes itself. A desk token may revoke the tokens of its desk, a platform token only
        itself. A session may revoke the user's own tokens, and any token for staff. Revoking again
        returns the same response. The token is refused from the next request on.
        """
        reachable = _reachable(request, to_change=True)
        public_id = _chosen(request)
        if public_id is None and request.auth is None:
            raise Invalid.field("id", FieldCode.REQUIRED, "Name the token.")
        chosen = public_id or request.auth.public_id
        token = reachable.filter(public_id=chosen).first()
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


def _mint(request: Request, desk: Desk | None, body: JsonObject) -> tuple[str, Token]:
    scope = body.get("scope")
    if scope not in list(FORMS):
        raise Invalid.field("scope", FieldCode.CHOICE, f"Send one of: {', '.join(FORMS)}.")
    data = FORMS[scope].read(body)
    if scope == Scope.PLATFORM:
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


def _clean_body(request: Request) -> JsonObject:
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
        detail = "The query and the body name different tokens."
        raise Invalid.field("id", FieldCode.CONTRADICTION, detail)
    return in_body


urlpatterns = [
    path(
        "tokens",
        TokenViewSet.as_view({"get": "list", "post": "create", "delete": "revoke"}),
        name="tokens",
    )
]
