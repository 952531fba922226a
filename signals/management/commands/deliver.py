"""manage.py deliver: webhooks, alarms and notices, until it is stopped (contract, section 8)."""

import asyncio
import resource
import signal

import uvloop

from events.management.log_command import LogCommand
from signals.worker import run_loops


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
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await run_loops(stop)
