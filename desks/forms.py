"""The customer's forms: connection, enrolment, bot, election, and what is expected of a bot."""

import re
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from desks.expectation_rules import DAY, HOUR, MAX_AGE, MAX_EVERY, MAX_GRACE, MINUTE, Expectation
from desks.models import Automation
from desks.pair_and_direction import MAX_PAIR_LENGTH, PAIR_FORM, Direction
from events.http.name_rules import NameField

# The venues that a desk can connect to, in alphabetical order, and any other. Desks stay connected
# to a venue that is removed from the list.
VENUES = (
    "Alpaca",
    "Binance",
    "Bitfinex",
    "Bitget",
    "Bitstamp",
    "Bitvavo",
    "Bybit",
    "Coinbase Advanced",
    "Crypto.com Exchange",
    "Deribit",
    "dYdX",
    "Gate",
    "Gemini",
    "HTX",
    "Hyperliquid",
    "Interactive Brokers",
    "Kraken",
    "KuCoin",
    "MEXC",
    "OKX",
    "Other",
)

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
    """Returns BASE/QUOTE for such as ``btcusdt``, ``BTC-USDT`` or ``btc/usdt``; None if unclear.

    A symbol of TradingView may name the exchange, and ends with .P for a perpetual contract:
    ``BINANCE:BTCUSDT.P``.
    """
    symbol = text.strip().upper().removesuffix(".P")
    return _in_form(symbol.rpartition(":")[2]) or _in_form(symbol)


def _in_form(symbol: str) -> str | None:
    parts = [part for part in SEPARATORS.split(symbol) if part]
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
            {
                "autocomplete": "off",
                "autocapitalize": "characters",
                "spellcheck": "false",
                "placeholder": "ETH/USDT",
            }
        ),
        error_messages={"required": "Enter the pair."},
    )
    direction = forms.ChoiceField(
        choices=Direction.choices(),
        widget=forms.RadioSelect,
        error_messages={"required": "Choose a direction."},
    )

    def add_error(self, field: str | None, error: Any) -> None:
        """Beside a wrong pair, a script offers to fill in the suggestion. It elects nothing."""
        super().add_error(field, error)
        suggestion = suggested_pair(self.data.get("pair", "")) if field == "pair" else None
        if suggestion:
            self.fields["pair"].widget.attrs["data-suggestion"] = suggestion


# --- What is expected of a bot --------------------------------------------------------------------

NOT, EVERY, TRADING_DAYS = "not", "every", "trading_days"
RHYTHMS = [
    (NOT, "No alarm"),
    (EVERY, "Every"),
    (TRADING_DAYS, "Once on each trading day, Monday to Friday"),
]
UNITS = {"minutes": MINUTE, "hours": HOUR, "days": DAY}
DEFAULT_GRACE = 5 * MINUTE


class ExpectationForm(forms.Form):
    """What its owner expects of a bot. The action checks the range of ``every``."""

    expected = forms.ChoiceField(
        label="This bot is expected to send", choices=RHYTHMS, widget=forms.RadioSelect
    )
    every = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=MAX_EVERY // MINUTE,
        help_text="From 15 minutes to 31 days.",
        widget=forms.NumberInput({"aria-label": "How many minutes, hours or days"}),
    )
    unit = forms.ChoiceField(
        required=False,
        choices=[(unit, unit) for unit in UNITS],
        widget=forms.Select({"aria-label": "Unit"}),
    )
    grace = forms.IntegerField(
        label="Grace, in minutes",
        required=False,
        min_value=0,
        max_value=MAX_GRACE // MINUTE,
        help_text="How much later a signal may come before the bot counts as silent.",
    )
    maxAge = forms.IntegerField(
        label="Maximum age of a signal, in seconds",
        required=False,
        min_value=1,
        max_value=MAX_AGE,
        help_text="Empty for none. With one, each signal must say when it was sent (sentAt), and "
        "an older one is refused.",
    )

    def clean(self) -> None:
        chosen = self.cleaned_data
        if self.errors or chosen["expected"] != EVERY:
            return
        if not (chosen["every"] and chosen["unit"]):
            self.add_error("every", "Say how often the bot is expected to send.")

    def chosen(self) -> dict[str, Any]:
        """The arguments of ``change_automation``."""
        chosen = self.cleaned_data
        grace = DEFAULT_GRACE if chosen["grace"] is None else chosen["grace"] * MINUTE
        every = chosen["every"] * UNITS[chosen["unit"]] if chosen["expected"] == EVERY else None
        return {
            "expectation": None if chosen["expected"] == NOT else Expectation(every, grace),
            "max_age": chosen["maxAge"],
        }


def initial_of(bot: Automation) -> dict[str, Any]:
    """What the form shows at first: the bot's present expectation."""
    expectation = bot.expectation
    shown: dict[str, Any] = {
        "expected": NOT,
        "unit": "minutes",
        "grace": DEFAULT_GRACE // MINUTE,
        "maxAge": bot.max_age,
    }
    if expectation is None:
        return shown
    shown |= {"expected": TRADING_DAYS, "grace": expectation.grace // MINUTE}
    if expectation.every is not None:
        every = expectation.every
        unit = next(unit for unit in reversed(UNITS) if not every % UNITS[unit])
        shown |= {"expected": EVERY, "unit": unit, "every": every // UNITS[unit]}
    return shown
