"""The audit: replays the log and compares every table with it.

It reads the log twice: once in order, then desk by desk. Memory holds one desk at a time, plus all
cards and platform credentials. Those are few, because staff create them by hand.
"""

from django.db import connection
from django.db.models import Count, Max

from events import schema
from signals.models import Signal
from signals.reports.audit.desks import audit_desks
from signals.reports.audit.findings import Finding, Findings
from signals.reports.audit.keys import check_keys
from signals.reports.audit.log_replay import LogReplay
from signals.reports.audit.streams import Progress

PASSES = 2  # how often each event is read, at most


def run_audit(progress: Progress = lambda events: None) -> Findings:
    """Checks every promise. Call it in a snapshot, so that everything is read at one moment.

    ``progress`` is called with the number of events read since its last call.
    """
    findings = Findings()
    log = LogReplay(findings)
    log.read(progress)
    audit_desks(findings, log.cards, progress)
    _nonces(findings)
    check_keys(findings)
    return findings


def audit_schema() -> Finding:
    """Checks the tables themselves, and names every difference.

    Call it outside a snapshot: it makes temporary tables to compare with.
    """
    finding = Findings().schema
    finding.count = len(schema.stored_models(connection))
    finding.first = schema.differences(connection)
    finding.broken = len(finding.first)
    return finding


def _nonces(findings: Findings) -> None:
    findings.nonces.count = Signal.objects.count()
    spent = Signal.objects.order_by().values("signer", "nonce")
    for twice in spent.annotate(times=Count("pk"), last=Max("public_id")).filter(times__gt=1):
        findings.nonces.breach(twice["last"])
