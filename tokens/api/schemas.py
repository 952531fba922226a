"""The shapes of tokens and secrets, and how minting, listing and revoking describe themselves."""

from drf_spectacular.utils import OpenApiExample, PolymorphicProxySerializer
from rest_framework import serializers

from desks.api.schemas import EXAMPLE_TIME, USER_ID, public_id
from events.api.parameters import PageParameters, Strict
from events.api.schemas import JSON_BODY, MOMENT, TEXT, Field, Shape, one_of, operation, pattern
from events.refusals import (
    ExchangeSecret,
    Invalid,
    NotAllowed,
    NotFound,
    RateLimited,
    SignInRequired,
    TokenInvalid,
)
from tokens import formats
from tokens.api.serializers import Revoking
from tokens.models import Scope
from tokens.models.token import LONGEST_NAME, READ, WRITE

TAG = "Tokens"
TOKEN_ID = public_id("tok_")
SCOPES = {"type": "array", "items": one_of([READ, WRITE]), "minItems": 1}
NAME = {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME, "pattern": r"\S"}
TAIL = f"[0-9A-Za-z]{{{formats.RANDOM_CHARACTERS + formats.CHECKSUM_CHARACTERS}}}"
VALUE = pattern(f"({formats.DESK_TOKEN}|{formats.PLATFORM_TOKEN}){TAIL}")

EXAMPLE_TOKEN_ID = "tok_5Gk0bWq8ZsM3hYr7DnVtJ4"  # noqa: S105 - an id


class TokenData(Shape):
    """A token's record as the log keeps it, without the time of its use."""

    id = Field(TOKEN_ID)
    scope = Field(one_of(Scope.values), "Whose it is.")
    name = Field(TEXT)
    scopes = Field(SCOPES, "What it may do.")
    hint = Field(TEXT, "Its prefix and its last four characters: all that is shown of it later.")
    createdAt = Field(MOMENT)
    expiresAt = Field(MOMENT, allow_null=True)
    revokedAt = Field(MOMENT, allow_null=True)
    userId = Field(USER_ID, "The desk of a desk token.", allow_null=True)


class TokenRecord(TokenData):
    """A token's record; never its value."""

    lastUsedAt = Field(MOMENT, "At most a minute late.", allow_null=True)


class MintedToken(TokenRecord):
    """The new token's record, and its value."""

    token = Field(VALUE, "The value. It is shown this once, and kept nowhere.")


class TokenPage(Shape):
    """A page of tokens."""

    tokens = TokenRecord(many=True)
    next = Field(TEXT, "The after of the next page, null at the end.", allow_null=True)


class SecretData(Shape):
    """Of ``secret.…``: whose it is, and when it ends."""

    owner = Field(TEXT, "A botId, floor or nox.")
    endsAt = Field(MOMENT, allow_null=True)


class DeskMinting(Strict):
    """One's own desk token: it reads, and replaces the one before it."""

    scope = Field({"const": Scope.DESK.value})
    name = Field(NAME, required=False)


class PlatformMinting(Strict):
    """A token for a named platform, by staff."""

    scope = Field({"const": Scope.PLATFORM.value})
    name = Field(NAME)
    scopes = Field(SCOPES, "write does not imply read.")
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
    "A desk token lists its desk's tokens, a platform token itself. Signed in: one's own, and for "
    "staff all. A session does not count where `Authorization` is present.",
    tag=TAG,
    answer=TokenPage,
    example={"tokens": [RECORD], "next": None},
    parameters=[PageParameters],
    refusals=[Invalid],
)

mint_token = operation(
    "mintToken",
    "Mint a token",
    "Signed in only: `scope` `desk` mints one's own desk token, which replaces the one before it; "
    "`scope` `platform` is for staff. The value is shown this once.",
    tag=TAG,
    answer=MintedToken,
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
        SignInRequired,
        TokenInvalid,
        NotAllowed,
        RateLimited,
        ExchangeSecret,
        Invalid,
    ],
)

revoke_token = operation(
    "revokeToken",
    "Revoke a token",
    "`id` in the query or in the body; by Bearer without either, the token that calls. A desk "
    "token may revoke its own desk's, a platform token only itself; signed in: one's own, and for "
    "staff any. Revoked again, it answers the same. It holds from the next request on.",
    tag=TAG,
    answer=TokenRecord,
    example={**RECORD, "revokedAt": EXAMPLE_TIME},
    body=Revoking,
    bodies=[OpenApiExample("Another", {"id": EXAMPLE_TOKEN_ID}, request_only=True)],
    parameters=[Revoking],
    refusals=[*JSON_BODY, ExchangeSecret, Invalid, NotFound],
)
