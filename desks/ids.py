"""Public ids: a prefix and 22 random base62 characters, from the system's secure source."""

import secrets
import string

BASE62 = string.digits + string.ascii_uppercase + string.ascii_lowercase
# So many of the 256 bytes stand for a character, four for each: the others are drawn again.
EVENLY = 256 - 256 % len(BASE62)
RANDOM_CHARACTERS = 22
LONGEST_ID = 32

USER = "usr_"
BOT = "bot_"
CARD = "card_"


def random_base62(length: int) -> str:
    """So many characters, each drawn evenly."""
    drawn = ""
    while len(drawn) < length:
        fit = (byte for byte in secrets.token_bytes(length) if byte < EVENLY)
        drawn += "".join(BASE62[byte % len(BASE62)] for byte in fit)
    return drawn[:length]


def new_id(prefix: str) -> str:
    """A new public id."""
    return prefix + random_base62(RANDOM_CHARACTERS)


def new_user_id() -> str:
    return new_id(USER)


def new_bot_id() -> str:
    return new_id(BOT)


def new_card_id() -> str:
    return new_id(CARD)
