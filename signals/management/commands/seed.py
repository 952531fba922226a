"""manage.py seed: fills an empty database for a demonstration or a test (contract, section 9)."""

import argparse
import json
from collections.abc import Callable
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from desks.models import User
from events.management.log_command import LogCommand
from signals.demo.seeding import seed
from signals.notices.writers import follow


class Command(LogCommand):
    help = (
        "Fills an empty database with a staff account, a user, a published card, desks, tokens, "
        "signing secrets and a bot. Prints their ids and secrets as JSON."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--desks", type=_at_least(1), required=True, help="number of ready desks"
        )
        parser.add_argument(
            "--idle", type=_at_least(0), default=0, help="number of desks that are not connected"
        )
        parser.add_argument("--nox", action="store_true", help="also create a secret for Nox")
        parser.add_argument("--json", action="store_true", help="print the JSON on one line")
        parser.add_argument("--force", action="store_true", help="seed even if accounts exist")

    def handle(self, *args: Any, **options: Any) -> None:
        if User.objects.exists() and not options["force"]:
            raise CommandError(
                "This database already has accounts. Seed an empty one, or add --force."
            )
        ready, idle = options["desks"], options["idle"]
        progress = self._progress(ready + idle)
        made = seed(ready=ready, idle=idle, nox=options["nox"], progress=progress)
        follow(timezone.now())  # from here on what happens is notified, though no runner works yet
        self.stdout.write(json.dumps(made, indent=None if options["json"] else 2))

    def _progress(self, total: int) -> Callable[[int], None]:
        """Shows the progress on a terminal. Does nothing if stderr is not a terminal."""
        if not self.stderr.isatty():
            return lambda done: None

        def show(done: int) -> None:
            self.stderr.write(f"\r{done:,} of {total:,} desks", ending="\n" * (done == total))
            self.stderr.flush()

        return show


def _at_least(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"must be a whole number, at least {least}")
        return int(text)

    return number
