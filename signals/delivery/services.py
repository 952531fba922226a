"""What ``manage.py deliver`` runs, side by side."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from signals.chats.polling import poll_telegram
from signals.chats.service import send_to_chats
from signals.delivery.runner.loop import deliver_subscriptions
from signals.notices.service import send_notices, watch_bots, write_notices

# Runs until the event is set; then ends what is in flight and returns.
Service = Callable[[asyncio.Event], Awaitable[None]]

SERVICES: tuple[Service, ...] = (
    deliver_subscriptions,
    watch_bots,
    write_notices,
    send_notices,
    send_to_chats,
    poll_telegram,
)

PAUSE = 5.0  # seconds until a service that failed starts again

log = logging.getLogger(__name__)


async def run_services(stop: asyncio.Event, services: tuple[Service, ...] = SERVICES) -> None:
    """Runs all services until ``stop`` is set. One that fails starts again, beside the others."""
    await asyncio.gather(*(_keep_running(service, stop) for service in services))


async def _keep_running(service: Service, stop: asyncio.Event) -> None:
    while not stop.is_set():
        try:
            await service(stop)
        except Exception:
            log.exception("A service of the runner failed. It starts again.")
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), PAUSE)
