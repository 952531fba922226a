"""Telegram: the codes that add a chat, and what the operator's bot is sent (``getUpdates``).

The service asks Telegram for it, so that no way in from there is needed.
"""

import asyncio
import hashlib
import json
import logging
import re
import secrets
from contextlib import suppress
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from desks.ids import random_base62
from desks.models import Chat, ChatCode, User
from desks.models.chat import Service
from events.http.refusals import Invalid
from events.json_schema import JsonObject
from signals.notices.chats import services
from signals.notices.chats.actions import save
from signals.notices.models import TelegramReader
from signals.outbound.database import in_database
from signals.outbound.guarded_client import Client

CODE_CHARACTERS = 32  # of a link's 64 at most
CODE_LIFETIME = timedelta(minutes=15)
START = re.compile(r"/start ([-_A-Za-z0-9]{1,64})")
POLL_LEASE = timedelta(seconds=30)
WAIT = 5  # seconds for news; the client allows 10 in all
LIMIT = 5  # updates at a time: a long message with all that it quotes takes 200 KiB
MOST_BYTES = 1024 * 1024
PAUSE = 15.0  # seconds after a failure, or while another process polls

log = logging.getLogger(__name__)


class Started(NamedTuple):
    """Somebody pressed the link of a code, in a private chat with this number."""

    code: str
    number: int


class Updates(NamedTuple):
    """What the bot was sent. ``last`` is the number of the last update, None if there was none."""

    last: int | None
    started: list[Started]


def new_code(*, user: User, now: datetime) -> str:
    """A code for ``add_telegram``. It replaces the user's last one."""
    code = random_base62(CODE_CHARACTERS)
    defaults = {"digest": digest_of_code(code), "expires_at": now + CODE_LIFETIME}
    ChatCode.objects.update_or_create(user=user, defaults=defaults)
    return code


def digest_of_code(code: str) -> str:
    """What is stored of a code. It is random and long enough to need no key."""
    return hashlib.sha256(code.encode()).hexdigest()


def add_telegram(*, code: str, number: int, now: datetime) -> Chat | None:
    """Adds the chat of Telegram in which a code was sent to the bot, and uses the code.

    Returns None if there is no such code, or its user cannot have that chat. Raises nothing: what
    somebody writes to the bot is no error.
    """
    with transaction.atomic():
        codes = ChatCode.objects.filter(digest=digest_of_code(code))
        # The user's row before the code's, in the order of a turn that ends the desk.
        list(User.objects.select_for_update(no_key=True).filter(pk__in=codes.values("user")))
        used = (
            codes.select_for_update(of=["self"])
            .filter(expires_at__gt=now, user__is_active=True)
            .first()
        )
        codes.delete()
        if used is None:
            return None
        host = services.bot_name()
        chat = Chat(user=used.user, service=Service.TELEGRAM, host=host, created_at=now)
        try:
            return save(chat, str(number))
        except Invalid:
            return None


async def poll_telegram(stop: asyncio.Event) -> None:
    """Reads updates until ``stop`` is set. Without a bot it only waits for that."""
    if not services.has_bot():
        await stop.wait()
        return
    client, holder = Client(), secrets.token_hex(4)
    while not stop.is_set():
        if not await poll_once(client, holder):
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), PAUSE)
    await in_database(release_updates, holder)


async def poll_once(client: Client, holder: str, wait: int = WAIT) -> bool:
    """Reads the next updates. Returns False if another process does, or if it failed."""
    offset = await in_database(lease_updates, holder, timezone.now())
    if offset is None:
        return False
    asked = {"offset": offset, "timeout": wait, "limit": LIMIT, "allowed_updates": ["message"]}
    body = json.dumps(asked).encode()
    answer = await client.send(services.bot_url("getUpdates"), body, keep=MOST_BYTES)
    updates = read_updates(answer.start) if answer.is_success else None
    if updates is None:
        log.warning("Telegram's updates were not read (%s).", answer.status or answer.error)
        return False
    await in_database(save_updates, holder, updates, timezone.now())
    return True


def lease_updates(holder: str, now: datetime) -> int | None:
    """Takes or renews the lease. Returns the number of the next update; None if it is another's."""
    TelegramReader.objects.get_or_create(pk=1)
    is_free = Q(holder=holder) | Q(until=None) | Q(until__lte=now)
    if not TelegramReader.objects.filter(is_free).update(holder=holder, until=now + POLL_LEASE):
        return None
    return TelegramReader.objects.get().next_update


def save_updates(holder: str, updates: Updates, now: datetime) -> None:
    """Adds the chats whose codes came, and moves on; not if the lease was lost."""
    if updates.last is None:
        return
    with transaction.atomic():
        own = TelegramReader.objects.filter(holder=holder)
        if own.update(next_update=updates.last + 1):
            for started in updates.started:
                add_telegram(code=started.code, number=started.number, now=now)


def release_updates(holder: str) -> None:
    """Lets another process poll at once."""
    TelegramReader.objects.filter(holder=holder).update(until=None)


def read_updates(body: bytes) -> Updates | None:
    """Reads an answer of ``getUpdates``; None if it is not one."""
    try:
        updates = json.loads(body)["result"]
        last = max((int(update["update_id"]) for update in updates), default=None)
    except (ValueError, KeyError, TypeError):
        return None
    found = [_started(update.get("message")) for update in updates]
    return Updates(last, [started for started in found if started])


def _started(message: JsonObject) -> Started | None:
    """Reads a message to the bot. Only a private chat counts: in a group anybody could press."""
    try:
        chat, text = message["chat"], message["text"]
        match = START.fullmatch(text)
        is_ours = chat["type"] == "private" and isinstance(chat["id"], int)
    except (KeyError, TypeError):
        return None
    return Started(match[1], chat["id"]) if match and is_ours else None
