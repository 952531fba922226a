"""What a customer asks about a signal."""

from django import forms


class MessageForm(forms.Form):
    """A message as a bot would send it, to be checked before anything is sent."""

    message = forms.CharField(
        label="The message",
        strip=False,
        help_text="The whole JSON, as your alert or program writes it.",
        widget=forms.Textarea({"rows": 10, "spellcheck": "false", "autocomplete": "off"}),
        error_messages={"required": "Paste the message that is to be checked."},
    )
