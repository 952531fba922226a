"""What minting and revoking take."""

from typing import Any

from rest_framework import serializers

from events.api.parameters import LONGEST_TEXT, Strict, Text
from tokens.actions import DESK_TOKEN_NAME
from tokens.models import Scope
from tokens.models.token import LONGEST_NAME, READ, WRITE


class Minting(Strict):
    """A desk token for oneself, or a platform token (contract, section 4)."""

    scope = serializers.ChoiceField(Scope.choices)
    name = Text(max_length=LONGEST_NAME, required=False)
    scopes = serializers.ListField(
        child=serializers.ChoiceField([READ, WRITE]), required=False, allow_empty=False
    )
    expiresAt = serializers.DateTimeField(required=False, allow_null=True)

    def validate(self, given: dict[str, Any]) -> dict[str, Any]:
        platform = given["scope"] == Scope.PLATFORM
        missing = [name for name in ("name", "scopes") if platform and name not in given]
        beyond = [name for name in ("scopes", "expiresAt") if not platform and name in given]
        if missing or beyond:
            raise serializers.ValidationError(
                dict.fromkeys(missing, "A platform token needs this.")
                | dict.fromkeys(beyond, "A desk token has no such choice.")
            )
        return {"name": DESK_TOKEN_NAME, "expiresAt": None, **given}


class Revoking(Strict):
    """Which token, where it is not the one that calls."""

    id = Text(max_length=LONGEST_TEXT, required=False, help_text="Which token: a tok_…")
