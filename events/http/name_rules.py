"""Names of bots, cards, tokens, venues, passkeys: length and characters (contract, section 7).

A name is shown on one line beside other text, and people tell names apart by what they see. So it
must not contain characters that break the line, are invisible, cover other lines, or change the
direction of the text around it.
"""

import re
import unicodedata
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from events.http.refusals import FieldCode, Invalid

MAX_NAME_LENGTH = 80
# Unicode's general categories of control characters, format characters (invisible, or changing the
# direction), surrogates, private use, and the separators of lines and paragraphs.
FORBIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
# Default_Ignorable_Code_Point of Unicode 16, without what the categories above hold: characters
# that are letters, marks or unassigned, and are not drawn.
IGNORABLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2065\u3164\ufe00-\ufe0f\uffa0"
    "\ufff0-\ufff8\U000e0000-\U000e0fff]"
)
EMOJI_FORM = "\ufe0f"  # asks for the coloured form of the symbol before it
SYMBOLS = frozenset({"So", "Sm"})
BLANK = "\u2800"  # a symbol that is drawn as nothing: the empty pattern of Braille
MAX_MARKS = 3  # combining marks in a row. Thai and Hindi need two; more cover the lines around
DETAIL = (
    "Leave out control characters, those that are invisible or change the text direction, and more "
    f"than {MAX_MARKS} accents on one letter."
)


def validate_name(name: str) -> None:
    """Validates a name in forms and serializers. Raises Django's ``ValidationError``."""
    if not _is_plain(name):
        raise ValidationError(DETAIL, code=FieldCode.CHARACTERS)


def _is_plain(name: str) -> bool:
    marks, is_visible, before = 0, not name, ""
    for character in name:
        category = unicodedata.category(character)
        is_emoji_form = character == EMOJI_FORM and before in SYMBOLS
        if category in FORBIDDEN_CATEGORIES or (IGNORABLE.match(character) and not is_emoji_form):
            return False
        marks = marks + 1 if category.startswith("M") else 0
        if marks > MAX_MARKS:
            return False
        is_visible = is_visible or not (marks or character == BLANK or category == "Zs")
        before = category
    return is_visible


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
        raise Invalid.field(field, FieldCode.CHARACTERS, DETAIL) from None
