"""Copies the notices that are due to the chats of their readers, beside the mail.

A chat has its own copies, so one that fails neither holds up nor repeats a mail or another chat.
A notice that is mailed before stays until it is copied.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from django.db import transaction

from desks.models import Notice
from signals.notices.chats.models import Chat, ChatMessage

MAX_AT_ONCE = 200
MAX_WAITING = 100  # of a chat; what comes after them is only mailed


def share(now: datetime) -> int:
    """Shares the next notices, each exactly once. Returns how many they were."""
    if not Notice.objects.unshared(now).exists():
        return 0
    with transaction.atomic():
        notices = list(Notice.objects.unshared(now).lock()[:MAX_AT_ONCE])
        _copy([notice for notice in notices if not notice.address], now)
        shared = Notice.objects.filter(pk__in=[notice.pk for notice in notices])
        shared.exclude(mailed_at=None).delete()
        shared.update(is_shared=True)
    return len(notices)


def _copy(notices: Sequence[Notice], now: datetime) -> None:
    """Writes the messages. The lock of a chat keeps its sender from overlooking them."""
    readers = {notice.user_id for notice in notices}
    of_readers = Chat.objects.filter(user__in=readers, user__is_active=True, problem="")
    chats = list(of_readers.select_for_update(of=_LOCKED).order_by("pk"))
    if not chats:
        return
    messages = list(_messages(notices, chats))
    ChatMessage.objects.bulk_create(messages)
    given = {message.chat_id for message in messages}
    Chat.objects.filter(pk__in=given, next_attempt_at=None).update(next_attempt_at=now)


_LOCKED = ("self",)


def _messages(notices: Iterable[Notice], chats: Sequence[Chat]) -> Iterator[ChatMessage]:
    of_user = defaultdict(list)
    for chat in chats:
        of_user[chat.user_id].append(chat)
    waiting = Counter(ChatMessage.objects.filter(chat__in=chats).values_list("chat", flat=True))
    for notice in notices:
        for chat in of_user[notice.user_id]:
            if waiting[chat.pk] < MAX_WAITING:
                waiting[chat.pk] += 1
                yield ChatMessage(
                    chat=chat,
                    kind=notice.kind,
                    priority=notice.priority,
                    subject=notice.subject,
                    body=notice.body,
                )
