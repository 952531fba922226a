"""Moves what the release before has queued into the outbox, also while both serve.

The next delivery drops it, with the tables of that release.
"""

from datetime import datetime

from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from desks.models import Chat, ChatMessage, Notice, QueuedNotice
from desks.notices.outbox import insert

AT_ONCE = 100
KEPT = ("public_id", "user_id", "kind", "address", "about", "subject", "body", "priority", "due_at")


def move_old_rows(now: datetime) -> bool:
    """Moves the next rows. Returns whether there may be more."""
    more = _move_notices(now)
    return _move_messages(now) or more


def _move_notices(now: datetime) -> bool:
    """Leaves out what a process of that release is mailing: until its lease ends."""
    is_mailed = Q(attempts__gt=0, due_at__gt=now, mailed_at=None)
    free = Notice.objects.exclude(is_mailed).order_by("pk")
    if not free.exists():
        return False
    with transaction.atomic():
        rows = list(free.select_for_update(skip_locked=True)[:AT_ONCE])
        for row in rows:
            notice = QueuedNotice(**{name: getattr(row, name) for name in KEPT})
            insert([notice], by_mail=row.mailed_at is None, to_chats=not row.is_shared)
        Notice.objects.filter(pk__in=[row.pk for row in rows]).delete()
    return len(rows) == AT_ONCE


def _move_messages(now: datetime) -> bool:
    """Leaves out the chats to which a process of that release is sending."""
    is_free = Q(leased_until=None) | Q(leased_until__lte=now)
    of_chat = ChatMessage.objects.filter(chat=OuterRef("pk"))
    free = Chat.objects.filter(is_free, Exists(of_chat)).order_by("pk")
    if not free.exists():
        return False
    with transaction.atomic():
        locked = free.select_for_update(skip_locked=True)[:AT_ONCE]
        chats = {chat.pk: chat for chat in locked}
        messages = ChatMessage.objects.filter(chat__in=chats).order_by("pk")
        QueuedNotice.objects.bulk_create(
            QueuedNotice(
                user_id=chats[message.chat_id].user_id,
                channel=chats[message.chat_id].service,
                chat_id=message.chat_id,
                kind=message.kind,
                subject=message.subject,
                body=message.body,
                priority=message.priority,
                due_at=now,
            )
            for message in messages
        )
        messages.delete()
    return len(chats) == AT_ONCE
