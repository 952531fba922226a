"""The audit: replays the log and compares every table with it.

It reads the log twice: once in order, then desk by desk. Memory holds one desk at a time, plus all
cards and platform credentials. Those are few, because staff create them by hand.
"""

from django.db import connection
from django.db.models import Count, F, Max, Q

from desks.models import Bookmark, Desk, User
from events import schema
from events.feed import read_head
from signals.audit.desks import audit_desks
from signals.audit.findings import Finding, Findings
from signals.audit.keys import check_keys
from signals.audit.log_replay import LogReplay
from signals.audit.streams import Progress
from signals.intake.models import Signal
from signals.webhooks.models import Subscription

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
    _users(findings)
    _places(findings)
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


def _users(findings: Findings) -> None:
    """The log does not tell who is staff, but staff have no desk."""
    findings.users.count = User.objects.count()
    of_staff = Q(user__is_staff=True) | Q(user__is_superuser=True)
    for public_id in Desk.objects.filter(of_staff).values_list("public_id", flat=True):
        findings.users.breach(public_id, "its owner is staff")
    for user in User.objects.exclude(is_staff=F("is_superuser")):
        findings.users.breach(user.staff_id or f"user {user.pk}", "is_staff", "is_superuser")


def _places(findings: Findings) -> None:
    """Where deliveries and notices go on. A position of another epoch is none here."""
    head = read_head()
    webhooks = Subscription.objects.filter(cursor_epoch=head.epoch)
    bookmarks = Bookmark.objects.filter(epoch=head.epoch)
    beyond = [
        *webhooks.filter(cursor_position__gt=head.position).values_list("public_id", flat=True),
        *(repr(mark.name) for mark in bookmarks.filter(position__gt=head.position)),
    ]
    findings.places.count = webhooks.count() + bookmarks.count()
    for name in beyond:
        findings.places.breach(name)
