"""Suggests the right form of a pair that a person typed in another form.

Forms show the suggestion as a question and never fill it in. Signals get none: the service never
infers a pair of a signal.
"""

import re

from django.core.exceptions import ValidationError

from desks.choices import PAIR_FORM

WRONG_FORM = "Use the form BASE/QUOTE. Each part has 1 to 20 capitals, digits, or . - _."
SEPARATORS = re.compile(r"[-_:\\|\s/]+")
# Where nothing separates the two: the quotes of spot markets, those that end with another first.
QUOTES = ("FDUSD", "TUSD", "USDT", "USDC", "BUSD", "USD", "EUR", "GBP", "CHF", "JPY", "BTC", "ETH")


def validate_pair(text: str) -> None:
    """Raises ``ValidationError``, with a suggestion if the right form is clear."""
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
