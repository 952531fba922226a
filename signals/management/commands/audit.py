"""manage.py audit: proves the log, and everything that stands beside it, on a live database."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from tqdm import tqdm

from events.models import Head
from events.snapshot import snapshot
from signals.audit.findings import HOW_MANY, Finding, findings


class Command(BaseCommand):
    help = (
        "Proves the log, and everything that stands beside it, at one moment of a database that "
        "may be in use: nobody waits for it, and it writes nothing. A line for each promise, with "
        "how many things it was held against; exit status 1 where one is broken, with the ids of "
        "the first that break it."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="one JSON object, for a program")

    def handle(self, *args: Any, **options: Any) -> None:
        with snapshot():
            head = Head.objects.get()
            found = []
            # Shown on a terminal, and nowhere else.
            for finding in tqdm(findings(), total=HOW_MANY, leave=False, disable=None):
                found.append(finding)
                if not options["json"]:
                    with tqdm.external_write_mode():
                        self.stdout.write(_line(finding))
        broken = sum(bool(finding.broken) for finding in found)
        if options["json"]:
            self.stdout.write(json.dumps(_report(head, found)))
        if broken:
            raise CommandError(f"{broken} of {len(found)} promises are broken.")
        if not options["json"]:
            self.stdout.write(f"All of it holds at position {head.position:,}, epoch {head.epoch}.")


def _line(finding: Finding) -> str:
    line = f"{finding.count:>13,} {finding.says}"
    if not finding.broken:
        return f"ok     {line}"
    more = ", …" if finding.broken > len(finding.first) else ""
    return f"BROKEN {line}: not {finding.broken:,}, {', '.join(finding.first)}{more}"


def _report(head: Head, found: Iterable[Finding]) -> dict[str, Any]:
    return {
        "epoch": head.epoch,
        "position": head.position,
        "holds": not any(finding.broken for finding in found),
        "promises": [asdict(finding) for finding in found],
    }
