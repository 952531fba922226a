"""Tokens: listed, minted for platforms, revoked."""

from datetime import UTC, datetime

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import Q
from django.http import HttpResponse
from django.utils import timezone

from desks.forms import refuse_control_characters
from events.control import ReadOnly
from tokens import actions
from tokens.control.pages import FreshPage, MakingPage, OwnerFilter
from tokens.models import Token
from tokens.models.token import LONGEST_NAME, READ, WRITE


class MintingForm(forms.Form):
    """A new platform token. The fields are named as the API names them."""

    name = forms.CharField(
        max_length=LONGEST_NAME,
        validators=[refuse_control_characters],
        help_text=f"Who uses it; at most {LONGEST_NAME} characters.",
        widget=forms.TextInput({"autocomplete": "off"}),
    )
    scopes = forms.MultipleChoiceField(
        choices=[
            (READ, "read: pull desks, and read the whole log"),
            (WRITE, "write: deploy and push signals"),
        ],
        widget=forms.CheckboxSelectMultiple,
        help_text="write does not imply read.",
    )
    expiresAt = forms.DateTimeField(
        label="Expires at",
        required=False,
        widget=forms.DateTimeInput({"type": "datetime-local"}),
        help_text="In UTC. Left empty, it is in force until somebody revokes it.",
    )

    def clean_expiresAt(self) -> datetime | None:  # noqa: N802 - a field's name
        moment: datetime | None = self.cleaned_data["expiresAt"]
        try:
            return moment.astimezone(UTC) if moment else None
        except OverflowError:
            raise ValidationError("Choose a time within the calendar.") from None


class MintToken(MakingPage):
    """Mints a platform token."""

    label = "Mint a platform token"
    form_class = MintingForm

    def consequences(self) -> list[str]:
        return [
            "A platform token is for a named platform, such as the engine. It reaches every desk.",
            "Its value is shown once, on the next page, and cannot be shown again.",
        ]

    def make(self, form: MintingForm) -> tuple[str, Token]:
        wish = form.cleaned_data
        return actions.mint_platform_token(
            name=wish["name"], scopes=wish["scopes"], expires_at=wish["expiresAt"]
        )


class RevokeToken(FreshPage):
    """Revokes a token of the platform, or of a desk."""

    label = "Revoke"

    @staticmethod
    def fits(row: Token) -> bool:
        return row.revoked_at is None

    def consequences(self) -> list[str]:
        return [
            f"The token {self.row} is refused from the next request on, everywhere.",
            "This cannot be undone: who uses it needs another one.",
        ]

    def act(self, form: forms.Form) -> HttpResponse:
        return self.done(actions.revoke(token=self.row), "The token is revoked.")


class TokenOwnerFilter(OwnerFilter):
    ways = {
        "the platform": lambda tokens: tokens.filter(desk=None),
        "customers": lambda tokens: tokens.filter(desk__isnull=False),
    }


@admin.register(Token)
class TokenControl(ReadOnly):
    """Tokens, the newest first; of a value there is only its hint."""

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
    search_help_text = "tok_… · the usr_… of a desk"
    searches = {
        "tok_": lambda text: Q(public_id=text),
        "usr_": lambda text: Q(desk__public_id=text),
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
        return "expired" if expired else "in force"
