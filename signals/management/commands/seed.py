"""Fills an empty database for a demonstration or a measurement (contract, section 9)."""

import argparse
import json
from collections.abc import Callable
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from desks.models import User
from signals.seeding import seed


class Command(BaseCommand):
    help = "Fills an empty database: staff, a user, a card, desks, tokens, secrets, an automation."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--desks", type=_at_least(1), required=True, help="how many are ready")
        parser.add_argument("--idle", type=_at_least(0), default=0, help="how many not connected")
        parser.add_argument("--nox", action="store_true", help="with a secret for Nox")
        parser.add_argument("--json", action="store_true", help="on one line, for a program")
        parser.add_argument("--force", action="store_true", help="although there are accounts")

    def handle(self, *args: Any, **options: Any) -> None:
        if User.objects.exists() and not options["force"]:
            raise CommandError("This database holds accounts. Seed an empty one, or add --force.")
        ready, idle = options["desks"], options["idle"]
        made = seed(ready=ready, idle=idle, nox=options["nox"], progress=self._told(ready + idle))
        self.stdout.write(json.dumps(made, indent=None if options["json"] else 2))

    def _told(self, total: int) -> Callable[[int], None]:
        """Progress on one line of a terminal, and nowhere else."""
        if not self.stderr.isatty():
            return lambda done: None

        def show(done: int) -> None:
            self.stderr.write(f"\r{done:,} of {total:,} desks", ending="\n" * (done == total))
            self.stderr.flush()

        return show


def _at_least(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"takes a whole number, at least {least}")
        return int(text)

    return number
