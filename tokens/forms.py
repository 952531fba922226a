"""Forms for generating and ending credentials."""

from datetime import timedelta
from typing import Any

from django import forms

from tokens.models import Token

OVERLAPS = (
    ("0", "End it at once"),
    ("3600", "Keep it for 1 hour"),
    ("86400", "Keep it for 1 day"),
    ("604800", "Keep it for 7 days"),
)


class SecretForm(forms.Form):
    """How long the current secret keeps verifying after a new one is generated."""

    overlap = forms.ChoiceField(
        label="The secret in use",
        choices=OVERLAPS,
        initial=OVERLAPS[0][0],
        widget=forms.RadioSelect,
        error_messages={"required": "Choose when the current secret ends."},
    )

    def clean_overlap(self) -> timedelta:
        return timedelta(seconds=int(self.cleaned_data["overlap"]))


class EndForm(forms.Form):
    """Which of a desk's credentials end. The form offers only credentials that exist."""

    token = forms.BooleanField(required=False)
    secrets = forms.BooleanField(required=False)

    def __init__(self, data: Any, *, token: Token | None, secrets: int) -> None:
        super().__init__(data)
        if token is None:
            del self.fields["token"]
        else:
            self.fields["token"].label = f"Revoke the desk token {token.hint}"
        if not secrets:
            del self.fields["secrets"]
        else:
            self.fields["secrets"].label = f"End the signing secrets of your bots ({secrets})"

    def selected(self) -> dict[str, bool]:
        return {name: bool(self.cleaned_data.get(name)) for name in ("token", "secrets")}

    def clean(self) -> None:
        if not any(self.selected().values()):
            raise forms.ValidationError("Select what to end, or keep everything.")
