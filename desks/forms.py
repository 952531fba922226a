"""What a customer fills in: the connection, a bot's name, an election."""

import unicodedata

from django import forms
from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator

from desks.models.card import LONGEST_NAME, LONGEST_PAIR, PAIR_FORM, Direction
from desks.venues import VENUES

TRADE_ONLY_LABEL = (
    "The access that I use at this venue is trade-only: it can place and cancel orders, and it "
    "cannot withdraw or transfer funds."
)


def refuse_control_characters(text: str) -> None:
    """A name is shown on one line: no control characters, whichever way they are written."""
    if any(unicodedata.category(character) in {"Cc", "Cs"} for character in text):
        raise ValidationError("Leave out control characters.", code="control_characters")


class ConnectionForm(forms.Form):
    """Where the desk trades, and its owner's word that the access is trade-only. Never a key."""

    venue = forms.ChoiceField(
        choices=[("", "Choose a venue"), *((name, name) for name in VENUES)],
        error_messages={"required": "Choose the venue at which you trade."},
    )
    trade_only = forms.BooleanField(
        label=TRADE_ONLY_LABEL,
        error_messages={"required": "Confirm this first. Access that can withdraw is not for us."},
    )


class EnrolmentForm(forms.Form):
    """The card that its reader was shown; another one is not elected for them."""

    card = forms.CharField(widget=forms.HiddenInput)


class BotForm(forms.Form):
    """A new bot."""

    name = forms.CharField(
        max_length=LONGEST_NAME,
        validators=[refuse_control_characters],
        help_text=f"What you call it; at most {LONGEST_NAME} characters.",
        widget=forms.TextInput({"autocomplete": "off"}),
        error_messages={"required": "Give the bot a name."},
    )


class ElectionForm(forms.Form):
    """The pair and the direction that a bot's signals must repeat. Nothing is suggested."""

    pair = forms.CharField(
        max_length=LONGEST_PAIR,
        validators=[
            RegexValidator(
                rf"^(?:{PAIR_FORM})\Z",
                "Write it as BASE/QUOTE, each of 1 to 20 capitals or digits (or . - _).",
            )
        ],
        help_text="BASE/QUOTE in capitals. Signals must repeat it character for character.",
        widget=forms.TextInput(
            {"autocomplete": "off", "autocapitalize": "characters", "spellcheck": "false"}
        ),
        error_messages={"required": "Write the pair that you elect."},
    )
    direction = forms.ChoiceField(
        choices=Direction.choices,
        widget=forms.RadioSelect,
        error_messages={"required": "Choose the direction that you elect."},
    )
