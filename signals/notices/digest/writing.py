"""Writes the digests that are due, each in one transaction with the row that says so.

So each is written once, by any number of processes. One that comes late tells everything since the
last, and days that were missed are not told one by one.
"""

from datetime import datetime

from django.db import connection, transaction

from desks.models import Desk, Digest, Notice
from desks.models.notice_kinds import NoticeKind
from desks.notices.digests import next_due, zone_of
from desks.notices.outbox import is_full
from events.feed.head import read_head
from signals.notices.digest.reading import read_day
from signals.notices.digest.texts import digest_notice
from signals.notices.texts import page

AT_ONCE = 20


def write_digests(now: datetime) -> bool:
    """Writes the next digests. Returns whether there may be more."""
    due = list(Digest.objects.due(now).values_list("pk", flat=True)[:AT_ONCE])
    if not due or is_full():
        return False
    page("desk")  # loads the routes, which takes longer than a transaction may idle
    for pk in due:
        with transaction.atomic():
            _write(pk, now)
    return len(due) == AT_ONCE


def _write(pk: int, now: datetime) -> None:
    """Writes one digest, unless another process has it or has written it."""
    rows = Digest.objects.due(now).filter(pk=pk).select_related("user")
    if connection.features.has_select_for_update_skip_locked:
        rows = rows.select_for_update(skip_locked=True, of=("self",))
    digest = rows.first()
    if digest is None:
        return
    user = digest.user
    digest.due_at = next_due(now, digest.hour, zone_of(user))
    # The last one was not sent yet: the next one tells this day too.
    if not Notice.objects.unmailed().filter(user=user, kind=NoticeKind.DIGEST).exists():
        _tell(digest, now)
    digest.save(update_fields=["due_at", "since", "position"])


def _tell(digest: Digest, now: datetime) -> None:
    """Writes the notice if anything happened, and begins the next digest."""
    head = read_head().position
    desk = Desk.objects.active().filter(user=digest.user).first()
    if desk is not None and (
        notice := digest_notice(read_day(digest, desk, head, now), digest.user)
    ):
        notice.save()
    digest.since, digest.position = now, head
