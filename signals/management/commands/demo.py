"""Shows the service at work, on a database of its own (contract, section 8)."""

import os
import signal
from types import FrameType
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from signals.demo_server import DemonstrationError, check_port, prepare, serving
from signals.demonstration import Round

READY, IDLE = 25, 5
PAGES = {"Desk": "/", "Control area": "/control/", "API": "/api/docs"}


class Command(BaseCommand):
    help = "Serves a new database, acts as engine and as automation, and stays for a browser."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=int, default=8000, help="of localhost; 8000 by default")
        parser.add_argument("--once", action="store_true", help="end after the round")
        parser.add_argument("--make", type=int, help="the make that is to end with 1, not its 2")

    def handle(self, *args: Any, **options: Any) -> None:
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _interrupt)
        try:
            self._show(options["port"], once=options["once"])
        except DemonstrationError as fault:
            if options["make"]:
                os.kill(options["make"], signal.SIGQUIT)
            raise CommandError(str(fault)) from None
        except KeyboardInterrupt:
            self.stdout.write("\nThe demonstration is over.")

    def _show(self, port: int, *, once: bool) -> None:
        check_port(port)
        self.stdout.write(f"Making a database with {READY} ready desks and {IDLE} idle ones.")
        environment, seeded = prepare(port, ready=READY, idle=IDLE)
        base_url = environment["BASE_URL"]
        with serving(environment) as server:
            self.stdout.write(f"Serving on {base_url}.\n")
            went_well = Round(base_url, seeded, READY, self.stdout.write).play()
            if once and not went_well:
                raise DemonstrationError("Not everything went as it should.")
            if once:
                self.stdout.write("\nEverything went as it should.")
                return
            self._invite(base_url, seeded)
            server.wait()
        raise DemonstrationError("The server ended by itself.")

    def _invite(self, base_url: str, seeded: dict[str, Any]) -> None:
        """Where a browser goes, and with what one signs in there."""
        lines = [f"  {page:14}{base_url}{path}" for page, path in PAGES.items()]
        for who in ("user", "admin"):
            lines.append(f"  {who:14}{seeded[who]['email']}   {seeded[who]['password']}")
        self.stdout.write("\nFor a browser:\n" + "\n".join(lines))
        self.stdout.write("Mail is printed here. Ctrl-C ends it.\n")
        self.stdout.flush()


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
