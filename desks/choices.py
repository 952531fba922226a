"""The form of pairs and the directions. Without Django, for the pure modules of ``signals.law``."""

from events.choices import TextEnum

MAX_PAIR_LENGTH = 41
PAIR_FORM = r"[A-Z0-9._-]{1,20}/[A-Z0-9._-]{1,20}"


class Direction(TextEnum):
    """The direction of a card, an election or a signal."""

    LONG = "long"
    SHORT = "short"
