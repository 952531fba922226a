"""Public ids: a prefix and 22 base62 characters from the system's secure random source."""

import secrets
import string
from typing import Any

from events.http.json_schema import pattern

BASE62 = string.digits + string.ascii_uppercase + string.ascii_lowercase
# The byte values below this map evenly to characters, four to each. Other bytes are drawn again.
UNBIASED_BYTES = 256 - 256 % len(BASE62)
RANDOM_CHARACTERS = 22
MAX_ID_LENGTH = 32

USER = "usr_"
BOT = "bot_"
CARD = "card_"
STAFF = "stf_"


def id_form(prefix: str) -> str:
    """The regular expression of the ids with this prefix."""
    return f"{prefix}[0-9A-Za-z]{{{RANDOM_CHARACTERS}}}"


def id_schema(prefix: str) -> dict[str, Any]:
    """The JSON schema of the ids with this prefix."""
    return pattern(id_form(prefix))


USER_ID, BOT_ID, CARD_ID = id_schema(USER), id_schema(BOT), id_schema(CARD)


def random_base62(length: int) -> str:
    """A random string of ``length`` characters, uniformly distributed."""
    text = ""
    while len(text) < length:
        usable = (byte for byte in secrets.token_bytes(length) if byte < UNBIASED_BYTES)
        text += "".join(BASE62[byte % len(BASE62)] for byte in usable)
    return text[:length]


def new_id(prefix: str) -> str:
    """A new public id."""
    return prefix + random_base62(RANDOM_CHARACTERS)


def new_user_id() -> str:
    return new_id(USER)


def new_bot_id() -> str:
    return new_id(BOT)


def new_staff_id() -> str:
    return new_id(STAFF)


def new_card_id() -> str:
    return new_id(CARD)


class UserIdConverter:
    """Matches a ``userId``."""

    regex = id_form(USER)

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value
