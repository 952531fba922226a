"""manage.py seed: fills an empty database for a demonstration or a test (contract, section 9)."""

import argparse
from collections.abc import Callable
from contextlib import nullcontext
from json import dumps

from django.core.management.base import CommandError, CommandParser
from django.db import connection
from django.utils import timezone
from tqdm import tqdm

from desks.models import User
from events.management.base_command import LogCommand
from events.statements import without_timeouts
from signals.demo.seeding import seed
from signals.notices.triggers import follow


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

    def handle(
        self, *, desks: int, idle: int, nox: bool, json: bool, force: bool, **options: object
    ) -> None:
        is_empty = not User.objects.exists()
        if not (is_empty or force):
            raise CommandError(
                "This database already has accounts. Seed an empty one, or add --force."
            )
        # Nobody waits for a turn at the log of an empty database. So it may take long, as on a busy
        # machine, where this process may stand still in the middle of one.
        timeouts = without_timeouts(connection) if is_empty else nullcontext()
        # With disable=None, tqdm draws on a terminal only.
        with timeouts, tqdm(total=desks + idle, unit=" desks", disable=None) as progress:
            made = seed(ready=desks, idle=idle, nox=nox, progress=progress.update)
            # From here on what happens is notified, though no runner works yet.
            follow(timezone.now())
        self.stdout.write(dumps(made, indent=None if json else 2))


def _at_least(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"must be a whole number, at least {least}")
        return int(text)

    return number
