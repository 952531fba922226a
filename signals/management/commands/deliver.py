"""manage.py deliver: webhooks, alarms and notices, until it is stopped (contract, section 8)."""

import asyncio
import gc
import logging
import resource
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from functools import partial

import uvloop
from django.utils import timezone

from desks.expectations import watch
from events.management.base_command import LogCommand
from signals.notices.chats.sending import send_to_chats
from signals.notices.chats.telegram import poll_telegram
from signals.notices.sending import send_mails
from signals.notices.triggers import EVERY, TRIGGERS, write_concerns
from signals.outbound.database import DatabaseThreads
from signals.webhooks.actions import note_failing
from signals.webhooks.runner.loop import deliver_webhooks
from tokens.secret_erasure import erase_ended

TICK = 2.0  # seconds between two looks; an alarm is at most 10 s late
MAIL_TICK = 0.5  # less than what a rate saves up
ERASING_TICK = 30.0  # seconds between two looks for secrets that have ended

in_repeating = DatabaseThreads(2, "repeating")
in_mail_thread = DatabaseThreads(1, "notices-mail")  # a mail server may hang


async def repeat(
    stop: asyncio.Event,
    work: Callable[[datetime], bool | None],
    tick: float = TICK,
    threads: DatabaseThreads = in_repeating,
) -> None:
    """Does what is due until ``stop`` is set: again at once if there may be more, or else later."""
    while not stop.is_set():
        more = await threads(work, timezone.now())
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), 0 if more else tick)


async def watch_bots(stop: asyncio.Event) -> None:
    """Decides which bots fell silent or were heard again."""
    await repeat(stop, watch)


async def erase_ended_secrets(stop: asyncio.Event) -> None:
    """Erases the texts of signing secrets that have ended, in batches."""
    await repeat(stop, lambda now: erase_ended(), ERASING_TICK)


# Runs until the event is set; then ends what is in flight and returns.
Loop = Callable[[asyncio.Event], Awaitable[None]]

LOOPS: tuple[Loop, ...] = (
    deliver_webhooks,
    watch_bots,
    partial(repeat, work=note_failing),
    partial(repeat, work=send_mails, tick=MAIL_TICK, threads=in_mail_thread),
    send_to_chats,
    poll_telegram,
    erase_ended_secrets,
    *(partial(repeat, work=trigger) for trigger in TRIGGERS),
    partial(repeat, work=write_concerns, tick=EVERY.total_seconds()),
)

PAUSE = 5.0  # seconds until a loop that failed starts again

log = logging.getLogger(__name__)


class Command(LogCommand):
    help = (
        "Delivers events to webhook subscriptions, decides which expected bots are silent and "
        "which webhooks have failed for long, erases ended secrets, and sends notices. Any number "
        "of these processes may run, also on several machines; with SQLite, one. SIGTERM and "
        "SIGINT stop it: what is in flight is finished first, usually within 15 seconds; a slow "
        "mail server can take longer."
    )

    def handle(self, *args: object, **options: object) -> None:
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)  # a session is a connection
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        # What is loaded now stays. Full collections that looked at it again took 300 ms at times,
        # and held up all that was to be sent.
        gc.collect()
        gc.freeze()
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
