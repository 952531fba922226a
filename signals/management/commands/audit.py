"""manage.py audit: compares the log with every table, on a live database."""

from dataclasses import asdict
from json import dumps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import DatabaseError
from django.utils import timezone

from desks.notices.outbox import write
from events.management.base_command import COULD_NOT_RUN, LogCommand
from signals.audit.findings import NOT_COVERED, PROVED_BEFORE, Finding, Findings
from signals.audit.proof import Audit, ProofUnreadableError, audit
from signals.audit.state import check_schema
from signals.notices.texts import staff_notices


class Command(LogCommand):
    reports_schema = True
    help = (
        "Compares the tables with what the migrations describe, then replays the log and compares "
        "every row with it. It reads snapshots of the database, blocks nobody, and leaves nothing "
        "behind but what --tell and --continue ask for, so it can run while the service does. It "
        "prints one line for each promise, with the number of things checked and the first "
        "breaches, and then what it does not cover. Exit status: 0 if every promise holds, 1 if "
        "one is broken, 2 if the audit could not run."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        parser.add_argument(
            "--tell", action="store_true", help="write a notice for staff if a promise is broken"
        )
        parser.add_argument(
            "--continue",
            type=Path,
            dest="file",
            metavar="FILE",
            help=(
                "go on from the position that FILE proves, if it exists, and replace it as far as "
                "every promise holds. Keep it where only the audit can write"
            ),
        )

    def handle(self, *, json: bool, tell: bool, file: Path | None, **options: object) -> None:
        findings = Findings()
        check_schema(findings)
        try:
            with TemporaryDirectory() as folder:
                done = audit(file or Path(folder) / "proof", findings)
        except (ProofUnreadableError, OSError) as fault:
            what = "No temporary file can be written."
            if file:
                what = f"{file} cannot be read or written. Without it the whole log is looked at."
            raise CommandError(what, returncode=COULD_NOT_RUN) from fault
        except DatabaseError as fault:
            if not findings.schema.broken:
                raise
            lines = ["The tables cannot be read.", *findings.schema.first]
            raise CommandError("\n".join(lines), returncode=COULD_NOT_RUN) from fault
        found = list(findings)
        broken = [_described(finding) for finding in found if finding.broken]
        report = _report(done, found)
        self.stdout.write(dumps(report) if json else _text(report, found))
        if broken and tell:
            title, what = "The audit found a broken promise", "\n\n".join(broken)
            write(staff_notices(title, what, timezone.now()))
        if broken:
            raise CommandError(f"{len(broken)} of {len(found)} promises are broken.")


def _text(report: dict[str, Any], findings: list[Finding]) -> str:
    holds = f"Every promise holds at position {report['position']:,}, epoch {report['epoch']}."
    digest = f"Digest of the rows that the log describes there: {report['digest']}"
    return "\n".join(
        [
            *map(_described, findings),
            *([holds, digest] if report["holds"] else []),
            "Not covered:",
            *(f"- {what}" for what in report["notCovered"]),
        ]
    )


def _described(finding: Finding) -> str:
    text = f"{finding.count:>13,} {finding.says}"
    if not finding.broken:
        return f"ok     {text}"
    more = ", …" if finding.broken > len(finding.first) else ""
    return f"BROKEN {text}: {finding.broken:,} broken: {', '.join(finding.first)}{more}"


def _report(done: Audit, findings: list[Finding]) -> dict[str, Any]:
    proved_before = [PROVED_BEFORE.format(after=done.after)] if done.after else []
    return {
        "epoch": done.head.epoch,
        "position": done.head.position,
        "after": done.after,
        "digest": done.digest,
        "holds": not any(finding.broken for finding in findings),
        "promises": [asdict(finding) for finding in findings],
        "notCovered": [*NOT_COVERED, *proved_before],
    }
