"""manage.py deliver: webhooks, alarms and notices, until it is stopped (contract, section 8)."""

import asyncio
import logging
import resource
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress

import uvloop

from events.management.log_command import LogCommand
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


class Command(LogCommand):
    help = (
        "Delivers events to webhook subscriptions, decides which expected bots are silent, erases "
        "ended secrets, and sends notices. Any number of these processes may run, also on "
        "several machines; with SQLite, one. SIGTERM and SIGINT stop it: what is in flight is "
        "finished first, which takes 10 seconds at most."
    )

    def handle(self, *args: object, **options: object) -> None:
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)  # a session is a connection
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        uvloop.run(_run())


async def _run() -> None:
    """Runs all loops side by side until the process is stopped."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await asyncio.gather(*(_keep_running(loop, stop) for loop in LOOPS))


async def _keep_running(loop: Loop, stop: asyncio.Event) -> None:
    """Starts a loop that failed again."""
    while not stop.is_set():
        try:
            await loop(stop)
        except Exception:
            log.exception("A loop of the runner failed. It starts again.")
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), PAUSE)
