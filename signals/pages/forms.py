"""Forms about signals."""

from django import forms


class MessageForm(forms.Form):
    """A bot's message, to be checked before it is sent."""

    message = forms.CharField(
        label="Message",
        strip=False,
        help_text="The whole JSON text, exactly as your alert or program sends it.",
        widget=forms.Textarea({"rows": 10, "spellcheck": "false", "autocomplete": "off"}),
        error_messages={"required": "Paste the message that you want to check."},
    )
