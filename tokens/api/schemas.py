"""OpenAPI schemas of tokens and secrets, and descriptions of the token operations."""

from drf_spectacular.utils import OpenApiExample, PolymorphicProxySerializer
from rest_framework import serializers

from desks.api.schemas import EXAMPLE_TIME
from desks.ids import USER_ID, id_schema
from events.http import refusals
from events.http.json_schema import DATE_TIME, STRING, one_of, pattern
from events.http.names import MAX_NAME_LENGTH
from events.http.parameters import PageParameters, StrictSerializer
from events.http.schemas import JSON_BODY, Field, Schema, operation
from tokens.api.serializers import Revoking, RevokingBody
from tokens.choices import Scope
from tokens.crypto import formats
from tokens.models.token import READ, WRITE

TAG = "Tokens"
TOKEN_ID, SECRET_ID = id_schema("tok_"), id_schema("sec_")
SCOPES = {"type": "array", "items": one_of([READ, WRITE]), "minItems": 1}
NAME = {"type": "string", "minLength": 1, "maxLength": MAX_NAME_LENGTH, "pattern": r"\S"}
TAIL = f"[0-9A-Za-z]{{{formats.RANDOM_CHARACTERS + formats.CHECKSUM_CHARACTERS}}}"
VALUE = pattern(f"({formats.DESK_TOKEN}|{formats.PLATFORM_TOKEN}){TAIL}")

EXAMPLE_TOKEN_ID = "tok_5Gk0bWq8ZsM3hYr7DnVtJ4"  # noqa: S105 - an id


class TokenData(Schema):
    """A token's record in an event: without the time of last use."""

    id = Field(TOKEN_ID)
    scope = Field(one_of(Scope.values()), "Whose it is.")
    name = Field(STRING)
    scopes = Field(SCOPES, "What it may do.")
    hint = Field(STRING, "Its prefix and its last four characters: all that is shown of it later.")
    createdAt = Field(DATE_TIME)
    expiresAt = revokedAt = Field(DATE_TIME, allow_null=True)
    userId = Field(USER_ID, "The desk of a desk token.", allow_null=True)


class TokenRecord(TokenData):
    """A token's record. It never includes the value."""

    lastUsedAt = Field(DATE_TIME, "At most a minute late.", allow_null=True)


class MintedToken(TokenRecord):
    """The new token's record and its value."""

    token = Field(VALUE, "The value. It is shown only once and is never stored.")


class TokenPage(Schema):
    """A page of tokens."""

    tokens = TokenRecord(many=True)
    next = Field(STRING, "The after of the next page. Null on the last page.", allow_null=True)


class SecretData(Schema):
    """Data of ``secret.…`` events. It never includes the secret's text."""

    id = Field(SECRET_ID)
    owner = Field(STRING, "A botId, floor or nox.")
    hint = Field(STRING, "Its prefix and its last four characters.")
    createdAt = Field(DATE_TIME)
    endsAt = Field(DATE_TIME, allow_null=True)


class DeskMinting(StrictSerializer):
    """A new token for the user's own desk. It has the scope read and replaces the previous one."""

    scope = Field({"const": Scope.DESK.value})
    name = Field(NAME, required=False)


class PlatformMinting(StrictSerializer):
    """A new platform token. Only staff may mint one."""

    scope = Field({"const": Scope.PLATFORM.value})
    name = Field(NAME)
    scopes = Field(SCOPES, "The scope write does not include read.")
    expiresAt = serializers.DateTimeField(required=False, allow_null=True)


MINTING = PolymorphicProxySerializer(
    "Minting",
    {Scope.DESK.value: DeskMinting, Scope.PLATFORM.value: PlatformMinting},
    resource_type_field_name="scope",
)

# --- The operations ------------------------------------------------------------------------------

RECORD = {
    "id": EXAMPLE_TOKEN_ID,
    "scope": Scope.PLATFORM.value,
    "name": "Engine",
    "scopes": [READ, WRITE],
    "hint": f"{formats.PLATFORM_TOKEN}…7dQz",
    "createdAt": EXAMPLE_TIME,
    "lastUsedAt": None,
    "expiresAt": None,
    "revokedAt": None,
    "userId": None,
}

list_tokens = operation(
    "listTokens",
    "List tokens",
    "A desk token lists the tokens of its desk; a platform token lists itself. A session lists the "
    "user's own tokens, and all tokens for staff. A request with an `Authorization` header does "
    "not use the session.",
    tag=TAG,
    response=TokenPage,
    example={"tokens": [RECORD], "next": None},
    parameters=[PageParameters],
    refusals=[refusals.Invalid],
)

mint_token = operation(
    "mintToken",
    "Mint a token",
    "Requires a session. `scope` `desk` mints a token for the user's own desk and revokes the "
    "previous one. `scope` `platform` is for staff. The value is shown only once.",
    tag=TAG,
    response=MintedToken,
    status=201,
    body=MINTING,
    bodies=[
        OpenApiExample("Desk", {"scope": "desk", "name": "My laptop"}, request_only=True),
        OpenApiExample(
            "Platform",
            {"scope": "platform", "name": "Engine", "scopes": [READ, WRITE], "expiresAt": None},
            request_only=True,
        ),
    ],
    refusals=[
        *JSON_BODY,
        refusals.SignInRequired,
        refusals.TokenInvalid,
        refusals.NotAllowed,
        refusals.RateLimited,
        refusals.ExchangeSecret,
        refusals.Invalid,
    ],
)

revoke_token = operation(
    "revokeToken",
    "Revoke a token",
    "Send the `id` in the query or in the body. Without a body and a query, a Bearer token revokes "
    "itself. A desk token may revoke the tokens of its desk, a platform token only itself. A "
    "session may revoke the user's own tokens, and any token for staff. Revoking again returns the "
    "same response. The token is refused from the next request on.",
    tag=TAG,
    response=TokenRecord,
    example={**RECORD, "revokedAt": EXAMPLE_TIME},
    body=RevokingBody,
    bodies=[OpenApiExample("Another", {"id": EXAMPLE_TOKEN_ID}, request_only=True)],
    parameters=[Revoking],
    refusals=[*JSON_BODY, refusals.ExchangeSecret, refusals.Invalid, refusals.NotFound],
)
