"""What ``manage.py deliver`` runs, side by side."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from signals.notices.chats.actions import poll_telegram
from signals.notices.loops import watch_bots, write_notices
from signals.notices.sending import send_mails, send_to_chats
from signals.outbound.database import in_database
from signals.webhooks.runner.loop import deliver_subscriptions
from tokens.sealed_texts import erase_ended

ERASING_TICK = 30.0  # seconds between two looks for secrets that have ended


async def erase_ended_secrets(stop: asyncio.Event) -> None:
    """Erases the texts of signing secrets that have ended, in batches."""
    while not stop.is_set():
        more = await in_database(erase_ended)
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), ERASING_TICK / 100 if more else ERASING_TICK)


# Runs until the event is set; then ends what is in flight and returns.
Loop = Callable[[asyncio.Event], Awaitable[None]]

LOOPS: tuple[Loop, ...] = (
    deliver_subscriptions,
    watch_bots,
    write_notices,
    send_mails,
    send_to_chats,
    poll_telegram,
    erase_ended_secrets,
)

PAUSE = 5.0  # seconds until a loop that failed starts again

log = logging.getLogger(__name__)


async def run_loops(stop: asyncio.Event, loops: tuple[Loop, ...] = LOOPS) -> None:
    """Runs all loops until ``stop`` is set. One that fails starts again, beside the others."""
    await asyncio.gather(*(_keep_running(loop, stop) for loop in loops))


async def _keep_running(loop: Loop, stop: asyncio.Event) -> None:
    while not stop.is_set():
        try:
            await loop(stop)
        except Exception:
            log.exception("A loop of the runner failed. It starts again.")
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), PAUSE)
