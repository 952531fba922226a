"""The parameters and bodies of minting and revoking."""

from typing import Any

from rest_framework import serializers

from events.http.names import MAX_NAME_LENGTH, validate_name
from events.http.parameters import MAX_TEXT_LENGTH, Rfc3339Field, StrictSerializer, StrictTextField
from tokens.actions import DESK_TOKEN_NAME
from tokens.choices import Scope
from tokens.models.token import READ, WRITE


class Minting(StrictSerializer):
    """A new desk token or platform token (contract, section 4)."""

    scope = serializers.ChoiceField(Scope.choices())
    name = StrictTextField(max_length=MAX_NAME_LENGTH, required=False, validators=[validate_name])
    scopes = serializers.ListField(
        child=serializers.ChoiceField([READ, WRITE]), required=False, allow_empty=False
    )
    expiresAt = Rfc3339Field(required=False, allow_null=True)

    def validate(self, data: dict[str, Any]) -> dict[str, Any]:
        platform = data["scope"] == Scope.PLATFORM
        missing = [name for name in ("name", "scopes") if platform and name not in data]
        not_allowed = [name for name in ("scopes", "expiresAt") if not platform and name in data]
        if missing or not_allowed:
            raise serializers.ValidationError(
                dict.fromkeys(missing, "A platform token needs this.")
                | dict.fromkeys(not_allowed, "A desk token does not take this.")
            )
        return {"name": DESK_TOKEN_NAME, "expiresAt": None, **data}


class Revoking(StrictSerializer):
    """The token to revoke, in the query."""

    id = StrictTextField(
        max_length=MAX_TEXT_LENGTH, required=False, help_text="The id of the token: tok_…"
    )


class RevokingBody(StrictSerializer):
    """The token to revoke, in the body. A body must name it."""

    id = StrictTextField(max_length=MAX_TEXT_LENGTH, help_text="The id of the token: tok_…")
