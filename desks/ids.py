"""Public ids: a prefix and 22 base62 characters from the system's secure random source.

Migrations that have landed import the functions without arguments. So this module stays where it
is, and none of them is renamed.
"""

import secrets
import string
from functools import partial
from typing import Annotated

from events.json_schema import EXAMPLE_USER_ID, Example, JsonSchema, pattern

BASE62 = string.digits + string.ascii_uppercase + string.ascii_lowercase
RANDOM_CHARACTERS = 22
MAX_ID_LENGTH = 32

USER = "usr_"
BOT = "bot_"
CARD = "card_"
SIGNAL = "sig_"
STAFF = "stf_"
SUBSCRIPTION = "sub_"


def id_form(prefix: str) -> str:
    """The regular expression of the ids with this prefix."""
    return f"{prefix}[0-9A-Za-z]{{{RANDOM_CHARACTERS}}}"


def id_schema(prefix: str) -> JsonSchema:
    """The JSON schema of the ids with this prefix."""
    return pattern(id_form(prefix))


USER_ID, BOT_ID, CARD_ID = id_schema(USER), id_schema(BOT), id_schema(CARD)
SIGNAL_ID, SUBSCRIPTION_ID = id_schema(SIGNAL), id_schema(SUBSCRIPTION)

EXAMPLE_BOT_ID = f"{BOT}3Fh8mPq1VdK6yUo4CxEeN2"
EXAMPLE_SIGNAL_ID = f"{SIGNAL}9Lx2cRf6TpB4gWu1QmXyK7"
EXAMPLE_SUBSCRIPTION_ID = f"{SUBSCRIPTION}6Hn1tKc9WzR4vQy8BsLmD3"
UserId = Annotated[str, USER_ID, Example(EXAMPLE_USER_ID)]
BotId = Annotated[str, BOT_ID, Example(EXAMPLE_BOT_ID)]
CardId = Annotated[str, CARD_ID]
SignalId = Annotated[str, SIGNAL_ID, Example(EXAMPLE_SIGNAL_ID)]
SubscriptionId = Annotated[str, SUBSCRIPTION_ID, Example(EXAMPLE_SUBSCRIPTION_ID)]


def base62(number: int, length: int) -> str:
    """The number in base62, big-endian and zero-padded."""
    digits = ""
    for _ in range(length):
        number, digit = divmod(number, len(BASE62))
        digits = BASE62[digit] + digits
    return digits


def random_base62(length: int) -> str:
    """A random string of ``length`` characters, uniformly distributed."""
    return base62(secrets.randbelow(len(BASE62) ** length), length)


def new_id(prefix: str) -> str:
    """A new public id."""
    return prefix + random_base62(RANDOM_CHARACTERS)


new_user_id = partial(new_id, USER)
new_bot_id = partial(new_id, BOT)
new_staff_id = partial(new_id, STAFF)
new_card_id = partial(new_id, CARD)
new_signal_id = partial(new_id, SIGNAL)
new_subscription_id = partial(new_id, SUBSCRIPTION)
new_token_id = partial(new_id, "tok_")
new_secret_id = partial(new_id, "sec_")
new_notice_id = partial(new_id, "ntc_")
new_chat_id = partial(new_id, "chat_")
