"""Names of bots, cards, tokens, venues, passkeys: length and characters (contract, section 7).

A name is shown on one line beside other text. So it must not contain characters that break the
line, are invisible, or change the direction of the text around it.
"""

import unicodedata
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from events.http.refusals import Invalid

MAX_NAME_LENGTH = 80
# Unicode's general categories of control characters, format characters (invisible, or changing the
# direction), surrogates, and the separators of lines and paragraphs.
FORBIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
CODE = "characters"
DETAIL = "Leave out control characters, and those that are invisible or change the text direction."


def validate_name(name: str) -> None:
    """Validates a name in forms and serializers. Raises Django's ``ValidationError``."""
    if any(unicodedata.category(character) in FORBIDDEN_CATEGORIES for character in name):
        raise ValidationError(DETAIL, code=CODE)


class NameField(forms.CharField):
    """A name in a form. ``whose`` is a sentence about it, for the help text."""

    default_validators = [validate_name]

    def __init__(self, whose: str = "", **options: Any) -> None:
        super().__init__(
            max_length=MAX_NAME_LENGTH,
            help_text=f"{whose} At most {MAX_NAME_LENGTH} characters.".strip(),
            widget=forms.TextInput({"autocomplete": "off"}),
            **options,
        )


def require_name(name: str, *, field: str = "name") -> None:
    """Checks a name in actions. Raises ``Invalid``."""
    try:
        validate_name(name)
    except ValidationError:
        raise Invalid.field(field, CODE, DETAIL) from None
