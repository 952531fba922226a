"""The form that says how often a bot is expected to send, and how old its signals may be."""

from datetime import timedelta
from typing import Any

from django import forms
from django.forms import ChoiceField, IntegerField, RadioSelect

from desks.expectation_rules import MAX_AGE, MAX_EVERY, MAX_GRACE, SECOND, Expectation
from desks.models import Automation

NOT, EVERY, TRADING_DAYS = "not", "every", "trading_days"
RHYTHMS = [
    (NOT, "Not expected: no alarm"),
    (EVERY, "Every so often"),
    (TRADING_DAYS, "Once on each trading day, Monday to Friday"),
]
UNITS = {"minutes": timedelta(minutes=1), "hours": timedelta(hours=1), "days": timedelta(days=1)}
MINUTE = UNITS["minutes"]
DEFAULT_GRACE = timedelta(minutes=5)


class ExpectationForm(forms.Form):
    """What its owner expects of a bot. The action checks the range of ``every``."""

    expected = ChoiceField(
        label="This bot is expected to send", choices=RHYTHMS, widget=RadioSelect
    )
    every = IntegerField(
        label="Every",
        required=False,
        min_value=1,
        max_value=MAX_EVERY // MINUTE,
        help_text="From 15 minutes to 31 days. Only for a bot that is expected every so often.",
    )
    unit = ChoiceField(label="Unit", choices=[(unit, unit.capitalize()) for unit in UNITS])
    grace = IntegerField(
        label="Grace, in minutes",
        required=False,
        min_value=0,
        max_value=MAX_GRACE // MINUTE,
        help_text="How much later a signal may come before the bot counts as silent.",
    )
    maxAge = IntegerField(
        label="Maximum age of a signal, in seconds",
        required=False,
        min_value=1,
        max_value=MAX_AGE // SECOND,
        help_text="Empty for none. With one, each signal must say when it was sent (sentAt), and "
        "an older one is refused.",
    )

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        if cleaned.get("expected") == EVERY and "every" in cleaned and cleaned["every"] is None:
            self.add_error("every", "Say how often the bot is expected to send.")
        return cleaned

    def chosen(self) -> dict[str, Any]:
        """The arguments of ``change_automation``."""
        chosen, age = self.cleaned_data, self.cleaned_data["maxAge"]
        grace = DEFAULT_GRACE if chosen["grace"] is None else chosen["grace"] * MINUTE
        every = chosen["every"] * UNITS[chosen["unit"]] if chosen["expected"] == EVERY else None
        return {
            "expectation": None if chosen["expected"] == NOT else Expectation(every, grace),
            "max_age": None if age is None else timedelta(seconds=age),
        }


def initial_of(bot: Automation) -> dict[str, Any]:
    """What the form shows at first: the bot's present expectation."""
    expectation = bot.expectation
    shown: dict[str, Any] = {
        "expected": NOT,
        "unit": "hours",
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
