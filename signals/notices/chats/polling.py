"""Reads what the operator's bot is sent at Telegram, so that no way in from there is needed.

One process polls at a time: a bookmark holds its lease (``at``, and who in ``epoch``) and the
number of the next update. What was read and up to where is saved in one transaction.
"""

import asyncio
import json
import logging
import secrets
from contextlib import suppress
from datetime import datetime, timedelta

from django.utils import timezone

from desks.models import Bookmark
from desks.notices.outbox import bookmarked
from signals.notices.chats import telegram
from signals.notices.chats.actions import add_telegram
from signals.outbound.database import in_database
from signals.outbound.transport import Client

UPDATES = "the updates of the Telegram bot"
LEASE = timedelta(seconds=30)
WAIT = 5  # seconds for news; the client allows 10 in all
LIMIT = 5  # updates at a time: a long message with all that it quotes takes 200 KiB
MOST_BYTES = 1024 * 1024
PAUSE = 15.0  # seconds after a failure, or while another process polls
HEADERS = {"Content-Type": "application/json"}

log = logging.getLogger(__name__)


async def poll_telegram(stop: asyncio.Event) -> None:
    """Reads updates until ``stop`` is set. Without a bot it only waits for that."""
    if not telegram.is_on():
        await stop.wait()
        return
    client, holder = Client(), secrets.token_hex(4)
    while not stop.is_set():
        if not await poll_once(client, holder):
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), PAUSE)
    await in_database(release, holder)


async def poll_once(client: Client, holder: str, wait: int = WAIT) -> bool:
    """Reads the next updates. Returns False if another process does, or if it failed."""
    offset = await in_database(lease, holder, timezone.now())
    if offset is None:
        return False
    asked = {"offset": offset, "timeout": wait, "limit": LIMIT, "allowed_updates": ["message"]}
    body = json.dumps(asked).encode()
    answer = await client.send(telegram.url_of("getUpdates"), body, HEADERS, keep=MOST_BYTES)
    updates = telegram.read_updates(answer.start) if answer.is_success else None
    if updates is None:
        log.warning("Telegram's updates were not read (%s).", answer.status or answer.error)
        return False
    await in_database(save, holder, updates, timezone.now())
    return True


def lease(holder: str, now: datetime) -> int | None:
    """Takes or renews the lease. Returns the number of the next update; None if it is another's."""
    with bookmarked(UPDATES) as mark:
        if mark is None or (mark.epoch != holder and mark.at and mark.at > now):
            return None
        mark.epoch, mark.at = holder, now + LEASE
        mark.save(update_fields=["epoch", "at"])
        return mark.position


def save(holder: str, updates: telegram.Updates, now: datetime) -> None:
    """Adds the chats whose codes came, and moves on; not if the lease was lost."""
    if updates.last is None:
        return
    with bookmarked(UPDATES) as mark:
        if mark is None or mark.epoch != holder:
            return
        for started in updates.started:
            add_telegram(code=started.code, number=started.number, now=now)
        mark.position = updates.last + 1
        mark.save(update_fields=["position"])


def release(holder: str) -> None:
    """Lets another process poll at once."""
    Bookmark.objects.filter(name=UPDATES, epoch=holder).update(at=None)
