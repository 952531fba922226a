"""The loop of ``manage.py deliver`` that shares notices with chats and sends them there.

Chats are sent to side by side: one that hangs holds up nobody else.
"""

import asyncio
import logging
from contextlib import suppress

from django.db import DatabaseError, InterfaceError
from django.utils import timezone

from signals.notices.chats.sending import Leased, finish, send, take
from signals.notices.chats.sharing import share
from signals.outbound.database import in_database
from signals.outbound.transport import Client

TICK = 2.0  # seconds between two looks
MOST_AT_ONCE = 100  # messages in flight

log = logging.getLogger(__name__)


async def send_to_chats(stop: asyncio.Event) -> None:
    """Shares and sends until ``stop`` is set; then lets what is in flight end."""
    client, tasks = Client(), set[asyncio.Task[None]]()
    try:
        while not stop.is_set():
            shared = await in_database(share, timezone.now())
            room = len(tasks) < MOST_AT_ONCE
            taken = await in_database(take, timezone.now()) if room else []
            for leased in taken:
                task = asyncio.create_task(deliver(client, leased))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            await _pause(stop, TICK / 20 if shared or taken else TICK)
    finally:
        await asyncio.gather(*tasks)


async def deliver(client: Client, leased: Leased) -> None:
    """Sends one message and records what became of it."""
    answer = await send(client, leased)
    try:
        await in_database(finish, leased, answer, timezone.now())
    except (DatabaseError, InterfaceError) as error:  # the lease ends, and it is sent again
        log.warning("A chat's answer was not recorded: %s", type(error).__name__)


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)
