"""Forms about signals."""

from django import forms
from django.core.validators import RegexValidator

HOST = r"^(?=.{4,253}\Z)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z](?:[a-z0-9-]*[a-z0-9])?\Z"


class RelayHostForm(forms.Form):
    """The host name of a trader's own relay, to be filled into what the page shows."""

    host = forms.CharField(
        label="Host name of your relay",
        max_length=253,
        validators=[RegexValidator(HOST, "Enter a name such as relay.example.com.")],
        help_text="We fill it in below. We do not store it.",
        widget=forms.TextInput({"autocomplete": "off", "spellcheck": "false", "inputmode": "url"}),
        error_messages={"required": "Enter the host name."},
    )


class MessageForm(forms.Form):
    """A bot's message, to be checked before it is sent."""

    message = forms.CharField(
        label="Message",
        strip=False,
        help_text="The whole JSON text, exactly as your alert or program sends it.",
        widget=forms.Textarea({"rows": 10, "spellcheck": "false", "autocomplete": "off"}),
        error_messages={"required": "Paste the message that you want to check."},
    )
