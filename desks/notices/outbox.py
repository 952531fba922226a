"""The outbox: writes notices. ``signals.notices.sending`` takes them and sends them.

A notice is written as a row for the mail and a row for each chat that its reader has then. So no
channel waits for another one, and one that fails repeats no other.
"""

from collections import defaultdict
from collections.abc import Iterable
from copy import copy
from datetime import datetime

from django.db.models import Count

from desks.models import Chat, NoticeChoice, QueuedNotice
from desks.models.notice import FIRST, NoticeKind

MAX_WAITING_OF_CHAT = 100  # what comes after them is only mailed


def write(notices: Iterable[QueuedNotice]) -> None:
    """Writes notices, but not those of a kind that the reader has turned off.

    Each is a row for the mail, and one for each chat of its reader that is on. One for an address
    of its own goes to no chat. It takes at most three statements, because it may run under the
    lock of the log.
    """
    rows, of_reader = unless_off(notices), defaultdict[int, list[QueuedNotice]](list)
    for notice in rows:
        if not notice.address:
            of_reader[notice.user_id].append(notice)
    chats = Chat.objects.filter(user__in=of_reader, problem="").order_by("pk")
    found = chats.values_list("pk", "user_id", "service").annotate(Count("queued_notices"))
    for chat_id, user_id, service, waiting in found:
        for notice in of_reader[user_id][: max(0, MAX_WAITING_OF_CHAT - waiting)]:
            row = copy(notice)
            row.channel, row.chat_id = service, chat_id
            rows.append(row)
    QueuedNotice.objects.bulk_create(rows)


def write_security(
    user_id: int, subject: str, body: str, *, at: datetime, address: str = ""
) -> None:
    """Writes a notice about the security of an account. Call it in the transaction of the change.

    ``address`` is where it goes if that is not the user's address when it is sent.
    """
    notice = QueuedNotice(
        user_id=user_id,
        kind=NoticeKind.SECURITY,
        priority=FIRST,
        subject=subject,
        body=body,
        due_at=at,
        address=address,
    )
    write([notice])


def unless_off(notices: Iterable[QueuedNotice]) -> list[QueuedNotice]:
    """The notices whose readers have not turned their kind off. Security cannot be turned off."""
    found = list(notices)
    may_be_off = {notice.user_id for notice in found if notice.kind != NoticeKind.SECURITY}
    off = {choice.user_id: choice.off for choice in NoticeChoice.objects.filter(pk__in=may_be_off)}
    return [notice for notice in found if notice.kind not in off.get(notice.user_id, ())]
