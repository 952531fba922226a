"""Tells staff what needs attention: once when it begins, and again if it ended in between.

What is told is what the first page of the control area says of engines, refusals and tokens.
"""

import hashlib
from collections.abc import Iterator
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import F

from desks.models import Bookmark, Notice, User
from desks.models.notice_kinds import NoticeKind
from desks.notices.outbox import bookmarked, wanted
from signals.notices.texts import new_notice
from signals.reports import concerns
from signals.reports.pace import heard_from, latest_events
from signals.reports.traffic import recent_traffic
from tokens.models import SigningSecret, Token

LOOK = "notices of operations"
EVERY = timedelta(minutes=5)
TOLD = "told "  # the name of a bookmark: then what was told, as a hash
OVER = timedelta(hours=6)  # what ended so long ago may be told again
MAX_SENDERS = 20
SUBJECT = "The service needs attention"


def look(now: datetime) -> None:
    """Tells staff what began to need attention since the last look."""
    mark = Bookmark.objects.filter(name=LOOK).first()
    if mark and mark.at and mark.at > now - EVERY:
        return
    found = {_key(concern): concern for concern in _found(now)}
    with bookmarked(LOOK) as mark:
        if mark is None or (mark.at and mark.at > now - EVERY):
            return
        mark.at = now
        mark.save(update_fields=["at"])
        told = Bookmark.objects.filter(name__startswith=TOLD)
        told.filter(name__in=found).update(at=now)
        told.filter(at__lt=now - OVER).delete()
        new = [key for key in found if not told.filter(name=key).exists()]
        Bookmark.objects.bulk_create(Bookmark(name=key, at=now) for key in new)
        lines = [f"- {found[key].sentence}\n  {settings.BASE_URL}{found[key].url}" for key in new]
        if lines:
            tell_staff(SUBJECT, "\n\n".join(lines), now)


def tell_staff(subject: str, body: str, now: datetime) -> None:
    """Writes a notice for every member of the staff who wants it."""
    staff = User.objects.filter(is_staff=True, is_active=True)
    told = (new_notice(user, NoticeKind.OPERATIONS, subject, body, now) for user in staff)
    Notice.objects.bulk_create(wanted(told))


def _found(now: datetime) -> Iterator[concerns.Concern]:
    next_to_expire = F("expires_at").asc(nulls_last=True)
    tokens = list(Token.objects.filter(desk=None).active(now).order_by(next_to_expire, "id"))
    senders: list[Token | SigningSecret] = [
        *(token for token in tokens[:MAX_SENDERS] if token.can_write),
        *SigningSecret.objects.filter(automation=None, ends_at=None),
    ]
    heard = heard_from([sender.public_id for sender in senders])
    yield from concerns.of_silence(senders, heard, now)
    yield from concerns.of_log(latest_events(), now)
    yield from concerns.of_refusals(recent_traffic(now))
    yield from concerns.of_expiry(tokens, now)
    yield from concerns.of_webhooks(concerns.failing_webhooks(now).count())


def _key(concern: concerns.Concern) -> str:
    """What a concern is about: the same while its numbers change."""
    about = f"{concern.label} {concern.url}"
    return TOLD + hashlib.sha256(about.encode()).hexdigest()[:32]
