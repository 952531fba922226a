"""The customer's forms: connection, enrolment, bot and election."""

import re

from django import forms
from django.core.exceptions import ValidationError

from desks.choices import MAX_PAIR_LENGTH, PAIR_FORM, Direction
from desks.venues import VENUES
from events.http.names import NameField

WRONG_FORM = "Use the form BASE/QUOTE. Each part has 1 to 20 capitals, digits, or . - _."
SEPARATORS = re.compile(r"[-_:\\|\s/]+")
# Where nothing separates the two: the quotes of spot markets, those that end with another first.
QUOTES = ("FDUSD", "TUSD", "USDT", "USDC", "BUSD", "USD", "EUR", "GBP", "CHF", "JPY", "BTC", "ETH")

TRADE_ONLY_LABEL = (
    "The access that I use at this venue is trade-only: it can place and cancel orders, and it "
    "cannot withdraw or transfer funds."
)


def validate_pair(text: str) -> None:
    """Raises ``ValidationError``, with a suggestion if the right form is clear.

    Signals get no suggestion: the service never infers a pair of a signal.
    """
    if re.fullmatch(PAIR_FORM, text):
        return
    suggestion = suggested_pair(text)
    hint = f" Did you mean {suggestion}?" if suggestion else ""
    raise ValidationError(f"{WRONG_FORM}{hint}")


def suggested_pair(text: str) -> str | None:
    """Returns BASE/QUOTE for such as ``btcusdt``, ``BTC-USDT`` or ``btc/usdt``; None if unclear."""
    parts = [part for part in SEPARATORS.split(text.strip().upper()) if part]
    if len(parts) == 1:
        quote = next((quote for quote in QUOTES if parts[0].endswith(quote)), "")
        parts = [parts[0].removesuffix(quote), quote]
    pair = "/".join(parts)
    return pair if re.fullmatch(PAIR_FORM, pair) else None


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
