"""manage.py demo: demonstrates the service with a new database (contract, section 8)."""

import os
import signal
from types import FrameType

from django.core.management.base import BaseCommand, CommandError, CommandParser

from events.json_schema import JsonObject
from signals.demo.round import Round
from signals.demo.server import check_port, prepare, serving

READY, IDLE = 25, 5
PAGES = {"Desk": "/", "Control area": "/control/", "API": "/api/docs"}


class Command(BaseCommand):
    help = (
        "Creates and serves a new database, sends requests as the engine and as a bot, and "
        "keeps serving for a browser."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--port", type=int, default=8000, help="port on localhost (default: 8000)"
        )
        parser.add_argument("--once", action="store_true", help="exit after the round of requests")
        parser.add_argument(
            "--make", type=int, help="process id of make, to be stopped if the demonstration fails"
        )

    def handle(self, *, port: int, once: bool, make: int | None, **options: object) -> None:
        # SIGINT too: Python ignores it in a shell's background, where the server stops on it.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _interrupt)
        try:
            self._show(port, once=once)
        except CommandError:
            if make:
                os.kill(make, signal.SIGQUIT)
            raise
        except KeyboardInterrupt:
            self.stdout.write("\nThe demonstration is over.")

    def _show(self, port: int, *, once: bool) -> None:
        check_port(port)
        self.stdout.write(f"Creating a database with {READY} ready desks and {IDLE} idle desks.")
        environment, seeded = prepare(port, ready=READY, idle=IDLE)
        base_url = environment["BASE_URL"]
        with serving(environment) as server:
            self.stdout.write(f"Serving on {base_url}.\n")
            went_well = Round(base_url, seeded, READY, self.stdout.write, delivers=True).play()
            if once and not went_well:
                raise CommandError("Some responses were not as expected.")
            if once:
                self.stdout.write("\nEvery response was as expected.")
                return
            self._invite(base_url, seeded)
            server.wait()
        raise CommandError("The server stopped unexpectedly.")

    def _invite(self, base_url: str, seeded: JsonObject) -> None:
        """Prints the addresses to open in a browser, and the accounts to sign in with."""
        lines = [f"  {page:14}{base_url}{path}" for page, path in PAGES.items()]
        for who in ("user", "admin"):
            lines.append(f"  {who:14}{seeded[who]['email']}   {seeded[who]['password']}")
        self.stdout.write("\nOpen in a browser:\n" + "\n".join(lines))
        self.stdout.write("Mail is printed here. Press Ctrl-C to stop.\n")
        self.stdout.flush()


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
