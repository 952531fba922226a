"""The customer's forms: connection, enrolment, bot and election."""

from django import forms

from desks.choices import MAX_PAIR_LENGTH, Direction
from desks.pairs import validate_pair
from desks.venues import VENUES
from events.http.names import NameField

TRADE_ONLY_LABEL = (
    "The access that I use at this venue is trade-only: it can place and cancel orders, and it "
    "cannot withdraw or transfer funds."
)


class ConnectionForm(forms.Form):
    """The venue, and the owner's confirmation that the access is trade-only. Asks for no key."""

    venue = forms.ChoiceField(
        choices=[("", "Choose a venue"), *((name, name) for name in VENUES)],
        error_messages={"required": "Choose the venue where you trade."},
    )
    trade_only = forms.BooleanField(
        label=TRADE_ONLY_LABEL,
        error_messages={"required": "Confirm that the access is trade-only."},
    )


class EnrolmentForm(forms.Form):
    """The card that the user was shown. If another card is published now, the form is refused."""

    card = forms.CharField(widget=forms.HiddenInput)


class BotForm(forms.Form):
    """A new bot."""

    name = NameField(error_messages={"required": "Enter a name for the bot."})


class ElectionForm(forms.Form):
    """The pair and direction that a bot's signals must repeat. There is no default."""

    pair = forms.CharField(
        max_length=MAX_PAIR_LENGTH,
        validators=[validate_pair],
        help_text="BASE/QUOTE in capitals. Signals must repeat it exactly.",
        widget=forms.TextInput(
            {"autocomplete": "off", "autocapitalize": "characters", "spellcheck": "false"}
        ),
        error_messages={"required": "Enter the pair."},
    )
    direction = forms.ChoiceField(
        choices=Direction.choices(),
        widget=forms.RadioSelect,
        error_messages={"required": "Choose a direction."},
    )
