"""The forms of webhooks, on the desk's pages and in the control area."""

from collections.abc import Sequence
from typing import Any

from django import forms

from signals.outbound.addresses import MAX_URL_LENGTH
from signals.webhooks.kinds import GROUPS, groups_of, kinds_of


class WebhookForm(forms.Form):
    """A new webhook: where to, and which events."""

    url = forms.CharField(
        label="URL",
        max_length=MAX_URL_LENGTH,
        help_text="It begins with https://. We encrypt it and never show it again.",
        widget=forms.TextInput({"autocomplete": "off", "spellcheck": "false", "inputmode": "url"}),
        error_messages={"required": "Enter the URL."},
    )
    groups = forms.MultipleChoiceField(
        label="Events",
        choices=[(name, label) for name, (label, _) in GROUPS.items()],
        required=False,
        help_text="Choose none to get all events, and those of later versions.",
        widget=forms.CheckboxSelectMultiple,
    )

    def changes(self) -> dict[str, Any]:
        """What was entered, as the arguments of an action."""
        return {"url": self.cleaned_data["url"], "kinds": kinds_of(self.cleaned_data["groups"])}


class ChangeForm(WebhookForm):
    """A change of a webhook. What is left as it was does not change."""

    def __init__(self, data: Any = None, *, kinds: Sequence[str], **options: Any) -> None:
        super().__init__(data, initial={"groups": groups_of(kinds)}, **options)
        url = self.fields["url"]
        url.required, url.label = False, "New URL"
        url.help_text = (
            "Leave it empty to keep the present one. A new one must answer a test first."
        )

    def changes(self) -> dict[str, Any]:
        entered = super().changes()
        kept = {"url": bool(entered["url"]), "kinds": "groups" in self.changed_data}
        return {name: entered[name] for name, is_changed in kept.items() if is_changed}
