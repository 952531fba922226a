"""The operator's bot at Telegram: its addresses, its links, and what it reads."""

import hashlib
import json
import re
from typing import Any, NamedTuple

from django.conf import settings

API = "https://api.telegram.org"
LINK = "https://t.me/"
START = re.compile(r"/start ([-_A-Za-z0-9]{1,64})")


class Started(NamedTuple):
    """Somebody pressed the link of a code, in a private chat with this number."""

    code: str
    number: int


class Updates(NamedTuple):
    """What the bot was sent. ``last`` is the number of the last update, None if there was none."""

    last: int | None
    started: list[Started]


def is_on() -> bool:
    """Whether the operator has a bot."""
    return bool(settings.TELEGRAM_BOT_TOKEN)


def bot_name() -> str:
    """The name of the bot, as Telegram shows it."""
    return f"@{settings.TELEGRAM_BOT}" if is_on() else ""


def url_of(method: str) -> str:
    """The address of a method of the API. It contains the bot's token."""
    return f"{API}/bot{settings.TELEGRAM_BOT_TOKEN}/{method}"


def link_of(code: str) -> str:
    """The link that opens the bot, and sends it the code when its reader presses Start."""
    return f"{LINK}{settings.TELEGRAM_BOT}?start={code}"


def digest(code: str) -> str:
    """What is stored of a code. It is random and long enough to need no key."""
    return hashlib.sha256(code.encode()).hexdigest()


def read_updates(body: bytes) -> Updates | None:
    """Reads an answer of ``getUpdates``; None if it is not one."""
    try:
        updates = json.loads(body)["result"]
        last = max((int(update["update_id"]) for update in updates), default=None)
    except (ValueError, KeyError, TypeError):
        return None
    found = [_started(update.get("message")) for update in updates]
    return Updates(last, [started for started in found if started])


def read_pause(body: bytes) -> float | None:
    """The seconds for which a refused message asks to wait, if it says so."""
    try:
        return float(json.loads(body)["parameters"]["retry_after"])
    except (ValueError, KeyError, TypeError):
        return None


def _started(message: Any) -> Started | None:
    """Reads a message to the bot. Only a private chat counts: in a group anybody could press."""
    try:
        chat, text = message["chat"], message["text"]
        match = START.fullmatch(text)
        is_ours = chat["type"] == "private" and isinstance(chat["id"], int)
    except (KeyError, TypeError):
        return None
    return Started(match[1], chat["id"]) if match and is_ours else None
