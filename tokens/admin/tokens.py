"""The control area's pages for tokens: list, mint a platform token, revoke."""

from datetime import UTC, datetime
from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import Q
from django.http import HttpResponse
from django.utils import timezone

from events.control.pages import ActionPage, ReadOnlyAdmin
from events.http.names import NameField
from tokens import actions
from tokens.admin.pages import CreateCredentialPage, OwnerFilter
from tokens.models import Token
from tokens.models.token import READ, WRITE


class UtcDateTimeField(forms.DateTimeField):
    """A time in UTC, whatever time zone the user chose for the pages."""

    def to_python(self, value: Any) -> datetime | None:
        with timezone.override(UTC):
            time: datetime | None = super().to_python(value)
        return time


class MintingForm(forms.Form):
    """A new platform token. The fields have the names of the API."""

    name = NameField("The system that uses the token.")
    scopes = forms.MultipleChoiceField(
        choices=[
            (READ, "read: pull desks, and read the whole log"),
            (WRITE, "write: deploy and push signals"),
        ],
        widget=forms.CheckboxSelectMultiple,
        help_text="The scope write does not include read.",
    )
    expiresAt = UtcDateTimeField(
        label="Expires at",
        required=False,
        widget=forms.DateTimeInput({"type": "datetime-local"}),
        help_text="In UTC. Leave it empty for a token that never expires.",
    )

    def clean_expiresAt(self) -> datetime | None:  # noqa: N802 - a field's name
        expires_at: datetime | None = self.cleaned_data["expiresAt"]
        try:
            return expires_at.astimezone(UTC) if expires_at else None
        except OverflowError:
            raise ValidationError("This time is out of range.") from None


class MintToken(CreateCredentialPage):
    """Mints a platform token."""

    label = "Mint a platform token"
    form_class = MintingForm

    def consequences(self) -> list[str]:
        return [
            "A platform token is for one system, such as the engine. It reaches every desk.",
            "Its value is shown once, on the next page. It cannot be shown again.",
        ]

    def create(self, form: MintingForm) -> tuple[str, Token]:
        data = form.cleaned_data
        return actions.mint_platform_token(
            name=data["name"],
            scopes=data["scopes"],
            actor=self.actor,
            expires_at=data["expiresAt"],
        )


class RevokeToken(ActionPage):
    """Revokes a platform token or a desk token."""

    label = "Revoke"
    is_destructive = True

    @staticmethod
    def applies_to(row: Token) -> bool:
        return row.revoked_at is None

    def consequences(self) -> list[str]:
        return [
            f"The token {self.row} is refused from the next request on, everywhere.",
            "This cannot be undone. Its user needs a new token.",
        ]

    def perform(self, form: forms.Form) -> HttpResponse:
        token = actions.revoke(token=self.row, actor=self.actor)
        return self.redirect_to_row(token, "The token is revoked.")


class TokenOwnerFilter(OwnerFilter, column="desk"):
    """By desk, or the platform's."""


@admin.register(Token)
class TokenAdmin(ReadOnlyAdmin):
    """Tokens, newest first. Only the hint of a token's value is shown."""

    pages = {"mint": MintToken, "revoke": RevokeToken}
    list_display = [
        "name",
        "hint",
        "desk",
        "scopes",
        "state",
        "created_at",
        "last_used_at",
        "expires_at",
        "revoked_at",
    ]
    list_filter = [TokenOwnerFilter]
    list_select_related = ["desk"]
    ordering = ["-id"]
    search_help_text = "tok_… · the usr_… of a desk · a part of a platform token's name"
    searches_by_prefix = {
        "tok_": lambda text: Q(public_id=text),
        "usr_": lambda text: Q(desk__public_id=text),
        "": lambda text: Q(desk=None, name__icontains=text),
    }
    fields = ["public_id", "scope", *list_display]

    @admin.display
    def scopes(self, token: Token) -> str:
        return ", ".join(token.scopes)

    @admin.display
    def state(self, token: Token) -> str:
        if token.revoked_at:
            return "revoked"
        expired = token.expires_at is not None and token.expires_at <= timezone.now()
        return "expired" if expired else "active"
