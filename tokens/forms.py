"""What is asked before a signing secret is generated."""

from datetime import timedelta

from django import forms

OVERLAPS = (
    ("0", "End it at once"),
    ("3600", "Keep it for 1 hour"),
    ("86400", "Keep it for 1 day"),
    ("604800", "Keep it for 7 days"),
)


class SecretForm(forms.Form):
    """How long the secret in use goes on verifying beside the new one."""

    overlap = forms.ChoiceField(
        label="The secret in use",
        choices=OVERLAPS,
        initial=OVERLAPS[0][0],
        widget=forms.RadioSelect,
        error_messages={"required": "Choose what becomes of the secret in use."},
    )

    def clean_overlap(self) -> timedelta:
        return timedelta(seconds=int(self.cleaned_data["overlap"]))
